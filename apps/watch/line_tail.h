#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/line_splitter.h"

namespace tapegrad::watch {

// Follows a file to which another program adds lines. The file may be missing, be cut, be replaced,
// be of any bytes and of any size: what is kept of it is a line at most. A link is not followed.
class LineTail {
 public:
  // Lines with more than `most_line_bytes` are passed on as "".
  LineTail(std::filesystem::path path, std::size_t most_line_bytes)
      : path_(std::move(path)), lines_(most_line_bytes) {}

  // Passes on the complete lines of the next bytes, at most `most_bytes`, without their ends.
  // Returns whether there is more to read.
  bool read(std::size_t most_bytes, const std::function<void(std::string_view)>& line);
  // True if the file was truncated or replaced, or if that cannot be determined. Then the
  // next read() begins at the beginning.
  bool restarted();
  // Begins at the beginning again.
  void rewind();

 private:
  void remember(std::string_view bytes);

  std::filesystem::path path_;
  std::unique_ptr<InputFile> file_;  // from restarted() to read(): both are of the same file
  LineSplitter lines_;
  std::uint64_t offset_ = 0;  // of the next byte
  std::string last_;          // bytes before offset_, by which the file is known again
};

}  // namespace tapegrad::watch
