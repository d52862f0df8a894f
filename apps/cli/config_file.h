#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapegrad::cli {

// One value that a --config file gives to an option.
struct ConfigItem {
  std::string name;  // as the file has it: "n_layer", "batch-size"
  std::vector<std::string> values;
  std::string where;  // for messages: "--config FILE, line 3"
};

struct ConfigFile {
  std::vector<ConfigItem> items;
  std::string format = {};  // of a run's config.json: "tapegrad-gpt"; empty: another file
};

// The options of a file in one of three forms:
//   lines NAME = VALUE, such as `batch-size = 12` (INI, TOML). A VALUE is a bare text, a text in
//     quotes, or a list in brackets, which may span lines. # and ; begin comments, and headings
//     such as [model] are ignored;
//   nanoGPT's config/*.py: the same lines with Python's quotes, True and False, and products such
//   as
//     5 * 8. Nothing is executed: any other expression is an error, unless it is the value of a
//     name that `ignored` accepts. `import` lines and texts in three quotes are passed over;
//   config.json of a run folder (the file begins with a brace), whose sections are opened.
// UsageError, naming the file and the line, for anything else.
ConfigFile read_config_file(const std::string& path, bool (*ignored)(const std::string& name));

// True if a file is a config of nanoGPT's, and not a program: its name ends in .py, and no line
// begins a function or a class. False for what cannot be read.
bool is_nanogpt_config(const std::string& path);

}  // namespace tapegrad::cli
