// A file of prompts: texts and JSON objects, one on each line.

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts("p.txt", [&] {
    sampling::PromptReader prompts(
        "p.txt", [&, at = std::size_t{0}](char* to, std::size_t) mutable {
          return at < text.size() ? (*to = text[at++], std::size_t{1}) : 0;
        });
    std::size_t count = 0;
    while (const auto prompt = prompts.next()) {
      ++count;
      if (prompt->prompt.empty()) fuzz::finding("an empty prompt");
    }
    if (count == 0) fuzz::finding("no prompt");
  });
  return 0;
}
