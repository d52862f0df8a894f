#include "tapegrad/base/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/available_memory.h"

namespace tapegrad {

namespace {

constexpr size_t kBufferSize = size_t{1} << 20;

std::string reason() { return std::generic_category().message(errno); }

[[noreturn]] void fail_reading(const std::filesystem::path& path, std::string_view why) {
  fail("[file] cannot read '{}': {}", path.string(), why);
}

[[noreturn]] void fail_writing(const std::filesystem::path& path, std::string_view why) {
  fail("[file] cannot write '{}': {}", path.string(), why);
}

// Owns a POSIX descriptor; a negative one stands for "none".
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  bool close() { return value_ < 0 || ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

std::string_view describe_type(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe, not a regular file";
  if (S_ISSOCK(mode)) return "it is a socket, not a regular file";
  return "it is a device, not a regular file";
}

void check_looked(const std::filesystem::path& path, const std::error_code& error) {
  check(!error, "[file] cannot look at '{}': {}", path.string(), error.message());
}

std::filesystem::file_type type_at(const std::filesystem::path& path) {
  std::error_code error;  // set for a file that is missing, too
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none) check_looked(path, error);
  return type;
}

// Error if something is at `path` that a file does not replace.
void check_replaceable(const std::filesystem::path& path) {
  struct stat info {};
  // A new file, or a reason to fail that creating the temporary file will name.
  if (::lstat(path.c_str(), &info) != 0) return;
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    fail_writing(path, describe_type(info.st_mode));
  }
}

// Creates a new file in the folder of `target`, with the usual permissions of a new file, and sets
// `temporary` to its path. final_name() knows its form.
int create_temporary(const std::filesystem::path& target, std::filesystem::path& temporary) {
  check_replaceable(target);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    temporary = target;
    temporary += fmt::format(".tmp-{}-{}", ::getpid(), attempt);
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
      return file;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  fail_writing(target, reason());
}

// "model.bin" for "model.bin.tmp-123-0", which create_temporary() makes; empty for other names.
// (std::regex takes seconds to compile.)
std::string_view final_name(std::string_view name) {
  constexpr std::string_view kMark = ".tmp";
  for (int number = 0; number < 2; ++number) {
    const size_t dash = name.find_last_not_of("0123456789");
    if (dash == name.npos || name[dash] != '-' || dash + 1 == name.size()) return {};
    name = name.substr(0, dash);
  }
  return name.ends_with(kMark) ? name.substr(0, name.size() - kMark.size()) : std::string_view();
}

void write_all(int descriptor, const std::filesystem::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      fail_writing(path, reason());
    }
  }
}

// A file may say any size and take no room on the disk.
void check_memory_for(const std::filesystem::path& path, int64_t bytes) {
  constexpr int64_t kSmall = int64_t{64} << 20;
  if (bytes < kSmall) return;
  const auto memory = available_memory();
  if (memory && static_cast<double>(bytes) > memory->bytes) {
    fail_reading(path, fmt::format("it has {} bytes, but {}", bytes, memory->text()));
  }
}

std::string reason_of_open(Links links) {
  if (links == Links::refused && errno == ELOOP) {
    return "it is a symbolic link, which might lead out of the folder";
  }
  return reason();
}

// A corpus may be of more files than a process may open at first. False if it may not open more.
bool may_open_more_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

Descriptor open_regular(const std::filesystem::path& path, Links links, struct stat& info) {
  // Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
  const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (links == Links::refused ? O_NOFOLLOW : 0);
  int opened = ::open(path.c_str(), flags);
  if (opened < 0 && errno == EMFILE && may_open_more_files()) opened = ::open(path.c_str(), flags);
  Descriptor file(opened);
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    fail_reading(path, reason_of_open(links));
  }
  if (!S_ISREG(info.st_mode)) {
    fail_reading(path, describe_type(info.st_mode));
  }
  return file;
}

}  // namespace

bool path_exists(const std::filesystem::path& path) {
  return type_at(path) != std::filesystem::file_type::not_found;
}

bool is_folder(const std::filesystem::path& path) {
  return type_at(path) == std::filesystem::file_type::directory;
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  check_looked(path, error);
  return absolute;
}

std::filesystem::path resolved_path(const std::filesystem::path& path) {
  std::error_code error;
  // weakly_canonical() leaves a relative path of which nothing exists as it is.
  const std::filesystem::path here = std::filesystem::current_path(error);
  std::filesystem::path resolved = std::filesystem::weakly_canonical(here / path, error);
  check_looked(path, error);
  return resolved;
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    entries.push_back(at->path());
  }
  check_looked(path, error);
  return entries;
}

std::string read_file(const std::filesystem::path& path, int64_t max_bytes, Links links) {
  struct stat info {};
  const Descriptor file = open_regular(path, links, info);
  const auto check_size = [&](int64_t bytes) {
    if (bytes > max_bytes) {
      fail_reading(path, fmt::format("it has {}{} bytes, and {} are the most that is accepted",
                                     bytes == info.st_size ? "" : "more than ", bytes, max_bytes));
    }
  };
  check_size(info.st_size);
  check_memory_for(path, info.st_size);
  std::string text;
  text.reserve(static_cast<size_t>(info.st_size));
  std::vector<char> chunk(std::min(kBufferSize, static_cast<size_t>(info.st_size) + 1));
  for (;;) {  // to the end, not to st_size: the file may grow, and /proc reports sizes of 0
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_reading(path, reason());
    }
    if (count == 0) {
      return text;
    }
    text.append(chunk.data(), static_cast<size_t>(count));
    check_size(static_cast<int64_t>(text.size()));
  }
}

std::string read_stdin(int64_t max_bytes) {
  std::string text, piece(size_t{1} << 16, ' ');
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), stdin)) {
    text.append(piece, 0, count);
    check(static_cast<int64_t>(text.size()) <= max_bytes, "stdin has more than {} bytes",
          max_bytes);
  }
  check(!std::ferror(stdin), "stdin cannot be read: {}", reason());
  return text;
}

InputFile::InputFile(const std::filesystem::path& path, Links links) {
  struct stat info {};
  descriptor_ = open_regular(path, links, info).release();
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

bool InputFile::read(uint64_t offset, void* to, size_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

AppendedFile::AppendedFile(const std::filesystem::path& path) : path_(path) {
  constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor file(::open(path.c_str(), flags, 0666));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    fail_writing(path, reason_of_open(Links::refused));
  }
  if (!S_ISREG(info.st_mode)) fail_writing(path, describe_type(info.st_mode));
  if (info.st_nlink > 1) fail_writing(path, "it is also a file of another name");
  descriptor_ = file.release();
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::append(std::string_view bytes) { write_all(descriptor_, path_, bytes); }

void AppendedFile::sync() {
  if (::fsync(descriptor_) != 0) fail_writing(path_, reason());
}

void FileWriter::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferSize) {
    flush();
  }
  if (bytes.size() > kBufferSize) {
    write_through(bytes);
  } else {
    buffer_ += bytes;
  }
}

void FileWriter::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileWriter::write_through(std::string_view bytes) { write_all(descriptor_, path_, bytes); }

void FileWriter::rewrite(uint64_t offset, std::string_view bytes) {
  flush();
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    } else if (errno != EINTR) {
      fail_writing(path_, reason());
    }
  }
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(create_temporary(path_, temporary_)),
      writer_(descriptor_, path_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  writer_.flush();
  if (::fsync(descriptor_) != 0 || ::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail_writing(path_, reason());
  }
  temporary_.clear();
  sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(FileWriter&)>& body) {
  AtomicFile file(path);
  body(file.writer());
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  write_file_atomically(path, [bytes](FileWriter& file) { file.write(bytes); });
}

void remove_leftovers(const std::filesystem::path& folder,
                      const std::function<bool(const std::string& name)>& ours) {
  std::vector<std::filesystem::path> leftovers;
  std::error_code ended, ignored;  // of a folder that may not be listed, of a file that stays
  for (std::filesystem::directory_iterator at(folder, ended), end; !ended && at != end;
       at.increment(ended)) {
    const std::string temporary = at->path().filename().string();
    const std::string name(final_name(temporary));
    if (!name.empty() && ours(name) &&
        at->symlink_status(ignored).type() == std::filesystem::file_type::regular) {
      leftovers.push_back(at->path());
    }
  }
  for (const std::filesystem::path& path : leftovers) std::filesystem::remove(path, ignored);
}

void sync_folder(const std::filesystem::path& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 && errno == EACCES) return;  // it may be written, but not read
  if (folder.get() >= 0 && (::fsync(folder.get()) == 0 || errno == EINVAL)) return;
  fail("[file] the names in '{}' may not have reached the disk: {}", path.string(), reason());
}

}  // namespace tapegrad
