// Command lines of the training programs: an argument on each line of the input.

#include "tapegrad/apps/seq2seq/seq2seq_program.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::string> args;
  std::string text(fuzz::text_of(data + 1, size - 1));
  text = text.substr(0, text.find('\0'));  // which no argument can have in it
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    args.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<const char*> argv = {"program"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  const int argc = static_cast<int>(argv.size());
  fuzz::accepts("", [&] {
    if (data[0] % 2 == 1) {
      cli::parse(seq2seq::training(), {"program", argc, argv.data()});
    } else {
      cli::parse(gpt::training(), {"program", argc, argv.data()});
    }
  });
  return 0;
}
