#include "tapegrad/run/folder_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tapegrad/autograd/base/error.h"

namespace tapegrad::run {

namespace fs = std::filesystem;

std::string system_error() { return std::generic_category().message(errno); }

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(!error, "cannot make the folder {}: {}", path.string(), error.message());
}

bool has_entry(const fs::path& path) {
  std::error_code error;  // of a folder that cannot be searched, say: other calls report it
  return fs::symlink_status(path, error).type() != fs::file_type::not_found && !error;
}

void move_files(const fs::path& from, std::span<const std::string_view> files, const fs::path& to) {
  const int descriptor = ::open(from.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  check(descriptor >= 0, "{} is not a folder of a run: {}", from.string(), system_error());
  for (const std::string_view file : files) {
    const std::string name(file);
    const bool moved =
        ::renameat(descriptor, name.c_str(), AT_FDCWD, (to / name).c_str()) == 0 || errno == ENOENT;
    const std::string reason = moved ? "" : system_error();
    if (!moved) ::close(descriptor);
    check(moved, "cannot move {} to {}: {}", (from / name).string(), to.string(), reason);
  }
  ::close(descriptor);
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check(!error, "cannot move {} to {}: {}", from.string(), to.string(), error.message());
}

void remove_or_fail(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  check(!error, "cannot remove {}: {}", path.string(), error.message());
}

void sync_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  // Some file systems cannot sync a folder.
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
  const std::string reason = synced ? "" : system_error();
  ::close(descriptor);
  check(synced, "the names in {} may not have reached the disk: {}", path.string(), reason);
}

namespace {

// The first of NAME-1, NAME-2, … that does not exist yet, made.
fs::path make_first_free(const std::string& name) {
  for (int n = 1;; ++n) {
    fs::path path = fmt::format("{}-{}", name, n);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    check(!error || fs::exists(path), "cannot make the folder {}: {}", path.string(),
          error.message());
  }
}

}  // namespace

fs::path make_next_folder(const std::string& name) {
  make_folder("runs");
  return make_first_free("runs/" + name);
}

fs::path make_folder_beside(const fs::path& path) {
  return make_first_free((path / "").parent_path().string() + "-rescued");
}

bool is_open_at(int descriptor, const fs::path& path) {
  struct stat open {
  }, found{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &found) == 0 &&
         open.st_dev == found.st_dev && open.st_ino == found.st_ino;
}

void check_writable(const fs::path& path) {
  check(fs::is_directory(path), "{} is not a folder", path.string());
  const bool writable = ::access(path.c_str(), W_OK | X_OK) == 0;
  check(writable, "the run folder {} cannot be written: {}", path.string(), system_error());
}

}  // namespace tapegrad::run
