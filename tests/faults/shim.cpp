// A library for LD_PRELOAD that counts the file calls of a program, lets the n-th one fail or kill
// the program, and records what changes files: this file has the calls, fate.cpp what becomes of
// them. See shim.h. Only calls in the working folder, and
// below the folder that FAULTS_ROOT names, count. The program must make them in one thread.

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "tapegrad/tests/faults/fate.h"

using namespace faults;

namespace {

constexpr size_t kPathBytes = 512;

// Descriptors that were opened by watched calls.
struct Opened {
  char path[kPathBytes];
  bool folder;
} opened[kMostFds];

bool is_watched(const char* path) {
  if (path[0] != '/') return true;
  static const char* const root = ::getenv("FAULTS_ROOT");
  return root != nullptr && std::strncmp(path, root, std::strlen(root)) == 0;
}

bool is_watched(int fd) { return fd >= 0 && fd < kMostFds && opened[fd].path[0] != 0; }

// A path for openat() and the like; empty if it is not watched.
struct At {
  char path[kPathBytes] = {};
  At(int folder, const char* name) {
    if (name[0] == '/' || folder == AT_FDCWD) {
      if (is_watched(name)) print_to(path, "%s", name);
    } else if (is_watched(folder)) {
      print_to(path, "%s/%s", opened[folder].path, name);
    }
  }
  bool watched() const { return path[0] != 0; }
};

// Makes the call `body`, or fails in its place.
template <class Body>
auto watch(Call call, const char* path, Body body) -> decltype(body()) {
  const int error = fate(call, path);
  if (error <= 0) return body();
  errno = error;
  if constexpr (std::is_pointer_v<decltype(body())>) {
    return nullptr;
  } else {
    return -1;
  }
}

size_t half_of(size_t bytes) { return bytes > 1 ? bytes / 2 : bytes; }

// Makes a call that moves bytes.
template <class Body>
ssize_t watch_bytes(Call call, int fd, size_t bytes, Body body) {
  const int error = fate(call, opened[fd].path);
  if (error > 0) {
    errno = error;
    return -1;
  }
  return body(error < 0 ? half_of(bytes) : bytes);
}

int open_watched(const At& at, int flags, mode_t mode) {
  static const auto do_open = next<decltype(&::open)>("open");
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  const int fd = watch(writes ? Call::create : Call::open, at.path,
                       [&] { return do_open(at.path, flags, mode); });
  if (fd < 0) return fd;
  if (fd >= kMostFds) ::abort();
  print_to(opened[fd].path, "%s", at.path);
  opened[fd].folder = (flags & O_DIRECTORY) != 0;
  record(Record::open, at.path, fd, flags);
  return fd;
}

// In a test nothing has to reach the disk, which would take most of the time.
int sync_watched(int fd, int (*sync)(int)) {
  const Call call = opened[fd].folder ? Call::sync_folder : Call::sync;
  const int result = watch(call, opened[fd].path, [&] { return is_child() ? 0 : sync(fd); });
  if (result == 0) record(Record::sync, "", fd);
  return result;
}

int rename_watched(const At& from, const At& to) {
  static const auto do_rename = next<decltype(&::rename)>("rename");
  char both[2 * kPathBytes];
  print_to(both, "%s to %s", from.path, to.path);
  const int result = watch(Call::rename, both, [&] { return do_rename(from.path, to.path); });
  if (result == 0) {
    record({Record::rename, -1, 0, 0, std::strlen(from.path), std::strlen(to.path)}, from.path,
           to.path);
  }
  return result;
}

int remove_watched(const char* path, bool folder) {
  static const auto do_unlink = next<decltype(&::unlink)>("unlink");
  static const auto do_rmdir = next<decltype(&::rmdir)>("rmdir");
  const int result =
      watch(Call::remove, path, [&] { return folder ? do_rmdir(path) : do_unlink(path); });
  if (result == 0) record(folder ? Record::rmdir : Record::unlink, path);
  return result;
}

ssize_t write_watched(int fd, const void* bytes, size_t count, off_t offset) {
  static const auto do_write = next<decltype(&::write)>("write");
  static const auto do_pwrite = next<decltype(&::pwrite)>("pwrite");
  const ssize_t written = watch_bytes(Call::write, fd, count, [&](size_t n) {
    return offset < 0 ? do_write(fd, bytes, n) : do_pwrite(fd, bytes, n, offset);
  });
  if (written > 0) record({Record::write, fd, 0, offset, static_cast<size_t>(written), 0}, bytes);
  return written;
}

}  // namespace

extern "C" {

int openat(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  static const auto do_openat = next<decltype(&::openat)>("openat");
  const At at(folder, name);
  return at.watched() ? open_watched(at, flags, mode) : do_openat(folder, name, flags, mode);
}

int open(const char* name, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return openat(AT_FDCWD, name, flags, mode);
}

int close(int fd) {
  static const auto do_close = next<decltype(&::close)>("close");
  if (!is_watched(fd)) return do_close(fd);
  const Opened was = opened[fd];
  opened[fd].path[0] = 0;
  record(Record::close, "", fd);
  const int error = fate(Call::close, was.path);
  const int result = do_close(fd);  // which it is even if an error is reported
  if (error <= 0) return result;
  errno = error;
  return -1;
}

ssize_t read(int fd, void* to, size_t bytes) {
  static const auto do_read = next<decltype(&::read)>("read");
  if (!is_watched(fd)) return do_read(fd, to, bytes);
  return watch_bytes(Call::read, fd, bytes, [&](size_t n) { return do_read(fd, to, n); });
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  static const auto do_pread = next<decltype(&::pread)>("pread");
  if (!is_watched(fd)) return do_pread(fd, to, bytes, offset);
  return watch_bytes(Call::read, fd, bytes, [&](size_t n) { return do_pread(fd, to, n, offset); });
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static const auto do_write = next<decltype(&::write)>("write");
  if (is_watched(fd)) return write_watched(fd, bytes, count, -1);
  return do_write(fd, bytes, count);
}

// The C library's own buffer is flushed inside of it.
size_t fwrite(const void* bytes, size_t size, size_t count, FILE* to) {
  static const auto do_fwrite = next<decltype(&::fwrite)>("fwrite");
  if (to == stdout) record({Record::print, -1, 0, 0, size * count, 0}, bytes);
  return do_fwrite(bytes, size, count, to);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static const auto do_pwrite = next<decltype(&::pwrite)>("pwrite");
  return is_watched(fd) ? write_watched(fd, bytes, count, offset)
                        : do_pwrite(fd, bytes, count, offset);
}

int ftruncate(int fd, off_t size) noexcept {
  static const auto do_ftruncate = next<decltype(&::ftruncate)>("ftruncate");
  if (!is_watched(fd)) return do_ftruncate(fd, size);
  const int result = watch(Call::truncate, opened[fd].path, [&] { return do_ftruncate(fd, size); });
  if (result == 0) record({Record::truncate, fd, 0, size, 0, 0}, "");
  return result;
}

int fsync(int fd) {
  static const auto do_fsync = next<decltype(&::fsync)>("fsync");
  return is_watched(fd) ? sync_watched(fd, do_fsync) : do_fsync(fd);
}

int fdatasync(int fd) {
  static const auto do_fdatasync = next<decltype(&::fdatasync)>("fdatasync");
  return is_watched(fd) ? sync_watched(fd, do_fdatasync) : do_fdatasync(fd);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static const auto do_renameat = next<decltype(&::renameat)>("renameat");
  const At old_path(from_folder, from), new_path(to_folder, to);
  return old_path.watched() && new_path.watched() ? rename_watched(old_path, new_path)
                                                  : do_renameat(from_folder, from, to_folder, to);
}

int rename(const char* from, const char* to) noexcept {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto do_mkdir = next<decltype(&::mkdir)>("mkdir");
  const At at(AT_FDCWD, path);
  if (!at.watched()) return do_mkdir(path, mode);
  const int result = watch(Call::make, path, [&] { return do_mkdir(path, mode); });
  if (result == 0) record(Record::make, path);
  return result;
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static const auto do_unlinkat = next<decltype(&::unlinkat)>("unlinkat");
  const At at(folder, name);
  return at.watched() ? remove_watched(at.path, (flags & AT_REMOVEDIR) != 0)
                      : do_unlinkat(folder, name, flags);
}

int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

// It calls the two above inside of the C library.
int remove(const char* path) noexcept {
  return unlink(path) == 0 || (errno == EISDIR && rmdir(path) == 0) ? 0 : -1;
}

int stat(const char* path, struct stat* info) noexcept {
  static const auto do_stat = next<decltype(&::stat)>("stat");
  if (!is_watched(path)) return do_stat(path, info);
  return watch(Call::look, path, [&] { return do_stat(path, info); });
}

int lstat(const char* path, struct stat* info) noexcept {
  static const auto do_lstat = next<decltype(&::lstat)>("lstat");
  if (!is_watched(path)) return do_lstat(path, info);
  return watch(Call::look, path, [&] { return do_lstat(path, info); });
}

int fstat(int fd, struct stat* info) noexcept {
  static const auto do_fstat = next<decltype(&::fstat)>("fstat");
  if (!is_watched(fd)) return do_fstat(fd, info);
  return watch(Call::look, opened[fd].path, [&] { return do_fstat(fd, info); });
}

int access(const char* path, int mode) noexcept {
  static const auto do_access = next<decltype(&::access)>("access");
  if (!is_watched(path)) return do_access(path, mode);
  return watch(Call::look, path, [&] { return do_access(path, mode); });
}

ssize_t readlink(const char* path, char* to, size_t bytes) noexcept {
  static const auto do_readlink = next<decltype(&::readlink)>("readlink");
  if (!is_watched(path)) return do_readlink(path, to, bytes);
  return watch(Call::look, path, [&] { return do_readlink(path, to, bytes); });
}

int flock(int fd, int operation) noexcept {
  static const auto do_flock = next<decltype(&::flock)>("flock");
  if (!is_watched(fd)) return do_flock(fd, operation);
  return watch(Call::lock, opened[fd].path, [&] { return do_flock(fd, operation); });
}

DIR* fdopendir(int fd) {
  static const auto do_fdopendir = next<decltype(&::fdopendir)>("fdopendir");
  if (!is_watched(fd)) return do_fdopendir(fd);
  return watch(Call::list, opened[fd].path, [&] { return do_fdopendir(fd); });
}

dirent* readdir(DIR* folder) {
  static const auto do_readdir = next<decltype(&::readdir)>("readdir");
  const int fd = ::dirfd(folder);
  if (!is_watched(fd)) return do_readdir(folder);
  return watch(Call::list, opened[fd].path, [&] { return do_readdir(folder); });
}

// closedir() closes its descriptor inside of the C library.
int closedir(DIR* folder) {
  static const auto do_closedir = next<decltype(&::closedir)>("closedir");
  const int fd = ::dirfd(folder);
  if (is_watched(fd)) opened[fd].path[0] = 0;
  return do_closedir(folder);
}

// Other names of the same functions.
int open64(const char*, int, ...) __attribute__((alias("open")));
int openat64(int, const char*, int, ...) __attribute__((alias("openat")));

}  // extern "C"
