#include "tapegrad/apps/http/page_file.h"

namespace tapegrad::http {

std::optional<Response> page_response(std::span<const PageFile> files, std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  for (const PageFile& file : files) {
    if (file.name == name) return Response{.type = type_of(name), .body = std::string(file.bytes)};
  }
  return std::nullopt;
}

}  // namespace tapegrad::http
