#pragma once

#include <filesystem>
#include <functional>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::events {

// A file with an object a line, such as metrics.jsonl, of any size: one line is in memory at a
// time. The file may be anybody's. Error if it is missing, a link or not a regular file.
class MetricsLines {
 public:
  explicit MetricsLines(const std::filesystem::path& path)
      : path_(path), file_(path, Links::refused) {}

  // Calls take(object) for each line that is an object with a whole number "iteration". A last line
  // without an end, which a program may be writing, and what comes after the file was opened are
  // passed over. So are other lines: `broken` then counts them.
  void read(const std::function<void(const Json&)>& take);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t broken() const { return broken_; }              // of the last read()
  std::int64_t first_broken() const { return first_broken_; }  // its number, from 1

 private:
  std::filesystem::path path_;
  InputFile file_;
  std::int64_t broken_ = 0, first_broken_ = 0;
};

}  // namespace tapegrad::events
