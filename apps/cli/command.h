#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/stopwatch.h"

namespace tapegrad::cli {

// How a command was called: by whom, and with which arguments behind its name.
struct Call {
  std::string name;  // for usage and errors: "tapegrad sample", or "sample-text"
  int argc;
  const char* const* argv;  // the arguments begin at argv[1]
  Stopwatch begin = {};
};

enum class CommandGroup { train, use, look, data, learn };

// A command of the program `tapegrad`. The file of a command defines one, which is thereby in the
// list: `const cli::Command kCommand("sample", …);`.
class Command {
 public:
  // `program` is another name of the binary that stands for the command, "sample-text"; or empty.
  Command(std::string_view name, CommandGroup group, std::string_view summary,
          int (*run)(const Call&), std::string_view program = {});
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  const std::string_view name, summary, program;
  const CommandGroup group;
  int (*const run)(const Call&);  // returns the exit code
};

// All commands, by group and name.
std::vector<const Command*> all_commands();

// The program's main(). What is called by the name of a command, or of its program, is that
// command; `tapegrad COMMAND` runs COMMAND, and `tapegrad help` lists all.
int tapegrad_main(int argc, const char* const* argv);

}  // namespace tapegrad::cli
