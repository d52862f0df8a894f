#pragma once

#include <string>

namespace tapegrad::cli {

// Commands that a program suggests.

// A word, quoted if a shell would otherwise change it.
std::string quoted(const std::string& word);
// The command that runs a program of this build: its name if PATH has its folder, otherwise its
// path from the working folder. Words of a command follow unchanged: "tapegrad sample".
std::string program_path(const std::string& command);

}  // namespace tapegrad::cli
