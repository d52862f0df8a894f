#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tapegrad/apps/http/message.h"

namespace tapegrad::http {

// A file of a page, which is part of the program: see tapegrad_page() in CMakeLists.txt.
struct PageFile {
  std::string_view name, bytes;
};

// The file that a path names; "/" is index.html. Null if there is none.
const PageFile* find_page(std::span<const PageFile> files, std::string_view path);
std::optional<Response> page_response(std::span<const PageFile> files, std::string_view path);

}  // namespace tapegrad::http
