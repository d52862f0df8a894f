#include "tapegrad/run/folder_calls.h"

#include <fcntl.h>
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
  ::fsync(descriptor);
  ::close(descriptor);
}

fs::path make_next_folder(const std::string& name) {
  make_folder("runs");
  for (int n = 1;; ++n) {
    fs::path path = fs::path("runs") / fmt::format("{}-{}", name, n);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    check(!error || fs::exists(path), "cannot make the folder {}: {}", path.string(),
          error.message());
  }
}

void check_writable(const fs::path& path) {
  check(fs::is_directory(path), "{} is not a folder", path.string());
  check(::access(path.c_str(), W_OK | X_OK) == 0, "the run folder {} cannot be written: {}",
        path.string(), system_error());
}

}  // namespace tapegrad::run
