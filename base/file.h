#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The rule for a symbolic link as the last name of a path. Files of a run folder must not be links:
// the folder may be somebody else's, and nothing in it may lead out of it.
enum class Links { followed, refused };

// True if something is at a path, or if it is a folder, links followed. Error with the path and the
// reason if the system cannot say: a name is too long, or a folder may not be searched.
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The path from the root on; the same with links followed, as far as it exists; and the paths of
// all that is in a folder, in no order. Errors: as for path_exists. Functions of std::filesystem
// without a std::error_code throw errors of their own, so nobody else calls them.
std::filesystem::path absolute_path(const std::filesystem::path& path);
std::filesystem::path resolved_path(const std::filesystem::path& path);
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& path);

// All bytes of a regular file. A file that is missing, unreadable, larger than `max_bytes` or not
// regular (a folder, a pipe, a device) is an Error with the path and the reason; nothing blocks.
std::string read_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{64} << 30,
                      Links links = Links::followed);

// All bytes of stdin up to its end. Error if it cannot be read, or has more than `max_bytes`.
std::string read_stdin(int64_t max_bytes);

// A regular file that is open for reading at any place, from any thread. If another file takes its
// name, this one goes on reading the old file.
class InputFile {
 public:
  // Errors: as for read_file.
  explicit InputFile(const std::filesystem::path& path, Links links = Links::followed);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Bytes when the file was opened.
  uint64_t size() const { return size_; }
  // Copies `bytes` bytes, from byte `offset` on, to `to`. False if the file ends before, or the
  // system fails to read.
  [[nodiscard]] bool read(uint64_t offset, void* to, size_t bytes) const;

 private:
  int descriptor_;
  uint64_t size_;
};

// A file to which lines are added, made if it is missing. Error if it is a link of any kind, a hard
// one to another file included, or not a regular file.
class AppendedFile {
 public:
  explicit AppendedFile(const std::filesystem::path& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  void append(std::string_view bytes);
  // Returns when all bytes added are on the disk.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// Writes a file that is to replace another one. Any failure, such as a full disk, is an Error.
class FileWriter {
 public:
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  // Replaces bytes that have been written, from byte `offset` on: a header that counts what
  // follows.
  void rewrite(uint64_t offset, std::string_view bytes);

 private:
  friend class AtomicFile;
  FileWriter(int descriptor, const std::filesystem::path& path)
      : descriptor_(descriptor), path_(path) {}
  void flush();
  void write_through(std::string_view bytes);

  int descriptor_;
  const std::filesystem::path& path_;
  std::string buffer_;  // collects small writes; large ones bypass it
};

// A file that replaces the one at `path` when it is complete: commit() does it, and without that
// the file at `path` stays as it was. The bytes go to a temporary file in the same folder. Once
// they have reached the disk, that file is renamed to `path`. If anything fails, or if there is no
// commit(), the temporary file is removed. A symbolic link at `path` is replaced, and not what it
// leads to. `path` may not be a folder or device.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  FileWriter& writer() { return writer_; }
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  int descriptor_;
  FileWriter writer_;
};

// Replaces a file in the same way by what `body` writes.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(FileWriter&)>& body);
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// Removes the temporary files that a killed program has left in a folder, of those files whose
// names `ours` accepts. Only for a program that alone writes there. What cannot be removed stays.
void remove_leftovers(const std::filesystem::path& folder,
                      const std::function<bool(const std::string& name)>& ours);

// Writes the names in a folder to the disk: of files and folders that were made, renamed or
// removed there. Error if the disk fails. A folder that cannot be synced at all, by its file system
// or its permissions, is none.
void sync_folder(const std::filesystem::path& path);

}  // namespace tapegrad
