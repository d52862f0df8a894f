#include "tapegrad/run/folder/internal/folder_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"

namespace tapegrad::run {

namespace fs = std::filesystem;

std::string system_error() { return std::generic_category().message(errno); }

namespace {

void sync_folder_of(const fs::path& path) {
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace

void make_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return;
  if (path.has_parent_path()) make_folder(path.parent_path());
  const bool made = fs::create_directories(path, error);
  check(!error, "cannot make the folder {}: {}", path.string(), error.message());
  if (made) sync_folder_of(path);
}

bool has_entry(const fs::path& path) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return false;
  check(!error, "cannot look at {}: {}", path.string(), error.message());
  return true;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
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

fs::path make_free_folder(const std::string& name) {
  for (int n = 1;; ++n) {
    fs::path path = fmt::format("{}-{}", name, n);
    std::error_code error;
    if (fs::create_directory(path, error)) {
      sync_folder_of(path);
      return path;
    }
    check(!error || path_exists(path), "cannot make the folder {}: {}", path.string(),
          error.message());
  }
}

fs::path make_next_folder(const std::string& name) {
  make_folder("runs");
  return make_free_folder("runs/" + name);
}

fs::path make_folder_beside(const fs::path& path) {
  return make_free_folder((path / "").parent_path().string() + "-rescued");
}

int lock_folder(const fs::path& path, std::string_view doing) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some network file systems have no locks; that is no reason not to go on.
  const auto is_busy = [&] {
    return descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  };
  bool busy = is_busy();
  // A program that looks whether the folder is locked holds it for an instant.
  for (int attempt = 0; busy && attempt < 5; ++attempt) {
    ::usleep(20'000);
    busy = is_busy();
  }
  if (busy) ::close(descriptor);
  check(!busy, "another program is {} in {}", doing, path.string());
  return descriptor;
}

bool is_locked(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
}

bool is_open_at(int descriptor, const fs::path& path) {
  struct stat open {
  }, found{};
  const bool known = ::fstat(descriptor, &open) == 0;
  if (known && ::stat(path.c_str(), &found) == 0) {
    return open.st_dev == found.st_dev && open.st_ino == found.st_ino;
  }
  const bool gone = known && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
  check(gone, "cannot look at {}: {}", path.string(), system_error());
  return false;
}

void check_writable(const fs::path& path) {
  check(is_folder(path), "{} is not a folder", path.string());
  const bool writable = ::access(path.c_str(), W_OK | X_OK) == 0;
  check(writable, "the run folder {} cannot be written: {}", path.string(), system_error());
}

}  // namespace tapegrad::run
