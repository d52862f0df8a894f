// A file of prompts: texts and JSON objects, one on each line.

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts("p.txt", [&] {
    const auto prompts = sampling::parse_prompts("p.txt", text);
    if (prompts.empty()) fuzz::finding("no prompt");
    for (const auto& prompt : prompts) {
      if (prompt.prompt.empty()) fuzz::finding("an empty prompt");
    }
  });
  return 0;
}
