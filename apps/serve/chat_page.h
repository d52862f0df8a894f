#pragma once

#include <span>

#include "tapegrad/apps/http/page_file.h"

namespace tapegrad::serve {

// The files of the page at /. They are listed in CMakeLists.txt.
std::span<const http::PageFile> page_files();

}  // namespace tapegrad::serve
