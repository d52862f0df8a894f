#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace tapegrad {

// Keeps only the lines that `keeps` accepts, in their order, of a file of any size. A last
// line that has no end is left out. A file that has another name, too, is replaced by a copy, so
// that it can be appended to without a change under that name; otherwise a file that loses nothing
// stays as it is. At most a line and a buffer are in memory: of a line with more than a megabyte,
// `keeps` is given "". Errors: the file cannot be read, or is a symbolic link; the new one cannot
// be written.
void keep_lines(const std::filesystem::path& path,
                const std::function<bool(std::string_view line)>& keeps);

}  // namespace tapegrad
