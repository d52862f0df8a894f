#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace tapegrad {

// All bytes of a regular file. A file that is missing, unreadable, larger than `max_bytes` or not
// regular (a folder, a pipe, a device) is an Error with the path and the reason; nothing blocks.
std::string read_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{64} << 30);

// The open end of a file that is being written. Any failure, such as a full disk, is an Error.
class FileWriter {
 public:
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);

 private:
  friend void write_file_atomically(const std::filesystem::path&,
                                    const std::function<void(FileWriter&)>&);
  FileWriter(int descriptor, const std::filesystem::path& path)
      : descriptor_(descriptor), path_(path) {}
  void flush();
  void write_through(std::string_view bytes);

  int descriptor_;
  const std::filesystem::path& path_;
  std::string buffer_;  // gathers small writes; large ones pass by
};

// Replaces the file at `path` by what `body` writes, or leaves it as it was: the bytes go to a
// temporary file in the same folder, reach the disk, and only then take the name. Whatever fails,
// an exception of `body` included, the temporary file is removed. `path` may be a symbolic link,
// which stays one, but not a folder or device.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(FileWriter&)>& body);
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace tapegrad
