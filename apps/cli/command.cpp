#include "tapegrad/apps/cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/apps/cli/field_words.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/version.h"

namespace tapegrad::cli {
namespace {

constexpr std::string_view kProgram = "tapegrad";
constexpr std::string_view kHeadings[] = {"Train", "Use a model", "Look inside", "Prepare data",
                                          "Check and measure"};

// Filled before main() begins.
std::vector<const Command*>& list() {
  static std::vector<const Command*> commands;
  return commands;
}

const Command* find(std::string_view name) {
  for (const Command* command : list()) {
    if (command->name == name || (!name.empty() && command->program == name)) return command;
  }
  return nullptr;
}

int print_help() {
  fmt::print(
      "Trains GPTs on this computer, and uses them.\n\nUsage: {0} COMMAND [options]\n"
      "       {0} help COMMAND [all]\n"
      "       {0} help WORD       options about something, such as quantize or early stopping\n",
      kProgram);
  for (std::size_t group = 0; group < std::size(kHeadings); ++group) {
    fmt::print("\n{}:\n", kHeadings[group]);
    for (const Command* command : all_commands()) {
      if (static_cast<std::size_t>(command->group) != group) continue;
      fmt::print("  {:<12}{}{}\n", command->name, command->summary,
                 command->program.empty() ? "" : fmt::format(" [{}]", command->program));
    }
  }
  fmt::print(
      "\nExamples:\n"
      "  {0} train --preset quickstart    two minutes on tiny shakespeare\n"
      "  {0} sample runs/quickstart-1     a text that the model makes\n"
      "  {0} watch runs                   losses and samples on a page in the browser\n",
      kProgram);
  return 0;
}

[[noreturn]] void fail_unknown(const std::string& word, bool of_help = false) {
  std::vector<std::string> names;
  for (const Command* command : all_commands()) {
    names.emplace_back(command->name);
    if (!command->program.empty()) names.emplace_back(command->program);
  }
  const std::string meant = nearest(word, names);
  usage_error("there is no command '{}'{}{}", word, of_help ? ", and no option about it" : "",
              meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

[[noreturn]] void complete_command(const std::string& word) {
  Completions all{word};
  for (const Command* command : all_commands()) all.add(command->name, command->summary);
  all.add("help", "lists all commands");
  all.add("--version", "shows the version");
  print(all);
}

int run_command(const std::string& word, int argc, const char* const* argv) {
  const Command* command = find(word);
  if (command == nullptr) fail_unknown(word);
  return command->run({fmt::format("{} {}", kProgram, command->name), argc, argv});
}

// `tapegrad help WORDS`: what the words are here, and the options of all commands that are about
// them.
int print_about(int argc, const char* const* argv) {
  const std::string words = fmt::format("{}", fmt::join(argv + 2, argv + argc, " "));
  const std::vector<const FieldWord*> meant = field_words(words);
  for (const FieldWord* word : meant) fmt::print("{}\n", word->meaning);
  bool found = !meant.empty();
  for (const Command* command : all_commands()) {
    if (has_words(command->summary, words)) {
      fmt::print("{} {}: {}\n", kProgram, command->name, command->summary);
      found = true;
    }
  }
  for (const Command* command : all_commands()) {
    const char* const find_words[] = {command->name.data(), "--find", words.c_str(), nullptr};
    const int code = command->run({fmt::format("{} {}", kProgram, command->name), 3, find_words});
    found = found || code == 0;
  }
  if (!found) fail_unknown(words, true);
  return 0;
}

// Everything that is not a command: the arguments of `tapegrad` itself.
int run_word(const std::string& word, int argc, const char* const* argv) {
  if (is_completing()) complete_command(argc > 2 ? argv[argc - 1] : word);
  if (word == "--version") {
    fmt::print("{} {}, compiled for {}\n", kProgram, TAPEGRAD_VERSION, compiled_for());
    return 0;
  }
  if (word != "help" && word != "--help" && word != "-h") fail_unknown(word);
  if (argc == 2 || argv[2] == std::string_view("help")) return print_help();
  const std::string all = argc > 3 ? argv[3] : "";
  if (find(argv[2]) == nullptr || (argc > 3 && all != "all")) return print_about(argc, argv);
  if (argc > 4) usage_error("unexpected argument '{}'", argv[4]);
  const char* const help[] = {argv[2], "--help", argc > 3 ? "all" : nullptr, nullptr};
  return run_command(argv[2], argc - 1, help);
}

}  // namespace

Command::Command(std::string_view name_, CommandGroup group_, std::string_view summary_,
                 int (*run_)(const Call&), std::string_view program_)
    : name(name_), summary(summary_), program(program_), group(group_), run(run_) {
  list().push_back(this);
}

std::vector<const Command*> all_commands() {
  std::vector<const Command*> all = list();
  std::sort(all.begin(), all.end(), [](const Command* a, const Command* b) {
    return std::tie(a->group, a->name) < std::tie(b->group, b->name);
  });
  return all;
}

int tapegrad_main(int argc, const char* const* argv) {
  const std::string called = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  if (const Command* command = find(called)) return command->run({called, argc, argv});
  const std::string word = argc > 1 ? argv[1] : "help";
  const bool completes_it = is_completing() && argc == 2;
  if (!completes_it && find(word) != nullptr) return run_command(word, argc - 1, argv + 1);
  return run_main(std::string(kProgram), [&] { return run_word(word, std::max(argc, 2), argv); });
}

}  // namespace tapegrad::cli
