#include "tapegrad/apps/http/page_file.h"

namespace tapegrad::http {

const PageFile* find_page(std::span<const PageFile> files, std::string_view path) {
  if (!path.starts_with('/')) return nullptr;
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  for (const PageFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::optional<Response> page_response(std::span<const PageFile> files, std::string_view path) {
  const PageFile* file = find_page(files, path);
  if (file == nullptr) return std::nullopt;
  return Response{.type = type_of(file->name), .body = std::string(file->bytes)};
}

}  // namespace tapegrad::http
