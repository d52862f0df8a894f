#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tapegrad::run {

// Calls of the file system that a run folder is made of. Failures are Errors that name the path.

std::string system_error();  // errno in words
// True if there is anything of that name, a link that leads nowhere included.
bool has_entry(const std::filesystem::path& path);
// True if a path is a folder's or leads into it; both are resolved_path()s.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);
// And those above it, as needed. Their names reach the disk.
void make_folder(const std::filesystem::path& path);
// Moves the files, as far as the folder has them, to the folder `to`. Error if `from` is a link.
void move_files(const std::filesystem::path& from, std::span<const std::string_view> files,
                const std::filesystem::path& to);
void rename_or_fail(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_or_fail(const std::filesystem::path& path);  // with all that is in it, if it exists
// The first of PATH-1, PATH-2, … that does not exist yet, made.
std::filesystem::path make_free_folder(const std::string& path);
// The first of runs/NAME-1, runs/NAME-2, … that does not exist yet, made.
std::filesystem::path make_next_folder(const std::string& name);
// The first of PATH-rescued-1, PATH-rescued-2, … that does not exist yet, made.
std::filesystem::path make_folder_beside(const std::filesystem::path& path);
// Opens a folder and locks it: the descriptor holds the lock, and is -1 if the folder cannot be
// opened. Error if another program holds it: it "is training", say, as `doing` tells.
int lock_folder(const std::filesystem::path& path, std::string_view doing);
// True if a program holds that lock. False if nobody can tell.
bool is_locked(const std::filesystem::path& path);
// True if the open folder is the one at `path`. Error if the system cannot tell.
bool is_open_at(int descriptor, const std::filesystem::path& path);
// Error, before training begins, if nothing can be written to the folder.
void check_writable(const std::filesystem::path& path);

}  // namespace tapegrad::run
