#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace faults {

// The contents of a folder by relative path. Folders have a "/" at the end of their names.
using Files = std::map<std::string, std::string>;

Files read_files(const std::filesystem::path& folder);
// Makes the folder hold these files and nothing else.
void write_files(const std::filesystem::path& folder, const Files& files);

// Without what differs between equal runs: times, and the process's id in the names of temporary
// files.
Files essence(const Files& files);

// The fault of the lines that an ended run keeps of each call; empty if there is none.
std::string fault_of_sessions(const Files& files);

// The names of what one of the two has not, or has otherwise; empty if they are equal.
std::string difference(const Files& a, const Files& b);

}  // namespace faults
