#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::cli {

// Shells complete a command line by calling the program with TAPEGRAD_COMPLETE set and the words
// up to the cursor, the last of which may be a part of a word, or empty. The program prints what it
// may become, one on each line: the word, a tab, and what it means; or ":files", where the shell's
// file names fit. scripts/completion has a function for each shell.
bool is_completing();

// What the word at the cursor may become.
struct Completions {
  std::string word;
  std::vector<std::string> lines = {};

  void add(std::string_view candidate, std::string_view meaning = "");  // if it begins with word
  void add_files() { lines.emplace_back(":files"); }
};

// Ends a run_main() with this exit code: all is printed that was asked for.
struct Completed {
  int code = 0;
};
// Prints them, and throws Completed.
[[noreturn]] void print(const Completions& completions);

}  // namespace tapegrad::cli
