#include "tapegrad/base/json_file.h"

#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {
// Our own files have some kilobytes, or more where they list many paths; a parsed one may take a
// hundred times its size.
constexpr int64_t kMostJsonBytes = int64_t{8} << 20;
constexpr int kMostJsonDepth = 32;
}  // namespace

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json read_json_object(const std::filesystem::path& path) {
  return parse_json_object(path, read_file(path, kMostJsonBytes, Links::refused));
}

Json parse_json_object(const std::filesystem::path& path, const std::string& text) {
  Json json;
  try {
    json = parse_json<Json>(text, kMostJsonDepth);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  check(json.is_object(), "{}: expected a JSON object", path.string());
  return json;
}

void write_json(const std::filesystem::path& path, const Json& json) {
  const std::string text = json_text(json, 2) + "\n";
  check(static_cast<int64_t>(text.size()) <= kMostJsonBytes,
        "{}: {} bytes are to be written, and {} are the most that can be read again", path.string(),
        text.size(), kMostJsonBytes);
  write_file_atomically(path, text);
}

}  // namespace tapegrad
