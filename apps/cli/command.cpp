#include "tapegrad/apps/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "tapegrad/apps/cli/completion.h"
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
      "       {0} help COMMAND\n",
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

[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const Command* command : all_commands()) {
    names.emplace_back(command->name);
    if (!command->program.empty()) names.emplace_back(command->program);
  }
  const std::string meant = nearest(word, names);
  usage_error("there is no command '{}'{}", word,
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

// Everything that is not a command: the arguments of `tapegrad` itself.
int run_word(const std::string& word, int argc, const char* const* argv) {
  if (is_completing()) complete_command(argc > 2 ? argv[argc - 1] : word);
  if (word == "--version") {
    fmt::print("{} {}, compiled for {}\n", kProgram, TAPEGRAD_VERSION, compiled_for());
    return 0;
  }
  if (word != "help" && word != "--help" && word != "-h") fail_unknown(word);
  if (argc == 2 || argv[2] == std::string_view("help")) return print_help();
  if (argc > 3) usage_error("unexpected argument '{}'", argv[3]);
  const char* const help[] = {argv[2], "--help", nullptr};
  return run_command(argv[2], 2, help);
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
