#pragma once

#include <span>
#include <string_view>

namespace tapegrad::watch {

// A file of the page, which is part of the program. They are listed in CMakeLists.txt.
struct PageFile {
  std::string_view name, bytes;
};
std::span<const PageFile> page_files();

}  // namespace tapegrad::watch
