#pragma once

#include <filesystem>
#include <string>

namespace tapegrad::run {

// Calls of the file system that a run folder is made of. Failures are Errors that name the path.

std::string system_error();  // what errno says
void make_folder(const std::filesystem::path& path);
void rename_or_fail(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_or_fail(const std::filesystem::path& path);  // with all that is in it, if it exists
void sync_folder(const std::filesystem::path& path);     // its names reach the disk
// The first of runs/NAME-1, runs/NAME-2, … that does not exist yet, made.
std::filesystem::path make_next_folder(const std::string& name);
// Error, before training begins, if nothing can be written to the folder.
void check_writable(const std::filesystem::path& path);

}  // namespace tapegrad::run
