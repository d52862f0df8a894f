#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/tokenizer/tokenizer_programs.h"

namespace tapegrad {
namespace {

struct Part {
  std::string_view name, summary;
  int (*run)(const cli::Call&);
};

constexpr Part kParts[] = {
    {"train", "learn a tokenizer from a corpus", tokenizers::train_tokenizer},
    {"show", "what a tokenizer is, and its tokens of a text", tokenizers::show_tokenizer},
    {"compare", "a text by several tokenizers, as a table and a page",
     tokenizers::compare_tokenizers},
};

int print_help() {
  fmt::print(
      "Trains, shows and compares tokenizers.\n\nUsage: tapegrad tokenizer PART [options]\n       "
      "tapegrad "
      "tokenizer PART --help\n\nParts:\n");
  for (const Part& part : kParts) fmt::print("  {:<12}{}\n", part.name, part.summary);
  fmt::print("\nExamples:\n  {:<72}  {}\n  {:<72}  {}\n",
             "tapegrad tokenizer show gpt2 'To be, or not to be'", "id and bytes of each token",
             "tapegrad tokenizer compare gpt2 runs/notes-1 --file note.txt", "bytes per token");
  return 0;
}

// Options about something, of all parts: see CommandLine.
int find_options(const cli::Call& call) {
  int code = 1;
  for (const Part& part : kParts) {
    const cli::Call of_part{fmt::format("{} {}", call.name, part.name), call.argc, call.argv};
    code = std::min(code, part.run(of_part));
  }
  return code;
}

int run_part(const cli::Call& call) {
  const std::string word = call.argc > 1 ? call.argv[1] : "";
  if (word == "--find") return find_options(call);
  const bool completes_it = cli::is_completing() && call.argc == 2;
  for (const Part& part : kParts) {
    if (part.name != word || completes_it) continue;
    return part.run(
        {fmt::format("{} {}", call.name, part.name), call.argc - 1, call.argv + 1, call.begin});
  }
  if (cli::is_completing()) {
    cli::Completions all{word};
    for (const Part& part : kParts) all.add(part.name, part.summary);
    all.add("--help", "show this text");
    print(all);
  }
  if (word == "--help" || word == "-h" || word == "help") return print_help();
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  if (word.empty()) {
    cli::usage_error("say what to do: {}", fmt::join(names, ", "));
  }
  const std::string meant = cli::nearest(word, names);
  cli::usage_error("there is no 'tokenizer {}'{}", word,
                   meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return run_part(call); });
}

const cli::Command kCommand("tokenizer", cli::CommandGroup::data,
                            "train, show and compare tokenizers", run);

}  // namespace
}  // namespace tapegrad
