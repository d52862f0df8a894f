#pragma once

#include <string>

namespace tapegrad::cli {

// Commands that a program suggests.

// A word as a shell takes it.
std::string quoted(const std::string& word);
// How a program of this build is called from here: by its path from the working folder, unless it
// lies in one of PATH's.
std::string program_path(const std::string& name);

}  // namespace tapegrad::cli
