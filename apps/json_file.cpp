#include "apps/json_file.h"

#include "autograd/file.h"

namespace tapegrad::apps {
namespace {
constexpr int64_t max_json_bytes = int64_t{64} << 20;
}

Json read_json_object(const std::filesystem::path& path) {
  const std::string text = read_file(path, max_json_bytes);
  Json json = Json::parse(text, nullptr, false);
  check(!json.is_discarded(), "{}: this is not complete, valid JSON", path.string());
  check(json.is_object(), "{}: expected a JSON object", path.string());
  return json;
}

void write_json(const std::filesystem::path& path, const Json& json) {
  // Paths may be any bytes, but JSON is UTF-8.
  write_file_atomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tapegrad::apps
