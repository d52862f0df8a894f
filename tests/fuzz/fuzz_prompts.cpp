// A file of prompts: texts and JSON objects, one on each line.

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts("p.txt", [&] {
    std::size_t at = 0;
    sampling::PromptReader prompts(
        "p.txt",
        [&](char* to, std::size_t) {
          return at < text.size() ? (*to = text[at++], std::size_t{1}) : 0;
        },
        [&] { return at == text.size() || text[at] != 'w'; });  // a writer pauses before each w
    std::size_t count = 0;
    for (;;) {
      const bool has_input = prompts.has_input();
      const std::size_t before = at;
      const auto prompt = prompts.next();
      if (has_input && at != before) fuzz::finding("input that was not there yet");
      if (!prompt) break;
      ++count;
      if (prompt->prompt.empty()) fuzz::finding("an empty prompt");
    }
    if (count == 0) fuzz::finding("no prompt");
  });
  return 0;
}
