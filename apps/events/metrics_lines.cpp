#include "tapegrad/apps/events/metrics_lines.h"

#include <algorithm>
#include <optional>

namespace tapegrad::events {
namespace {

constexpr std::size_t kMostLineBytes = std::size_t{1} << 20, kBlock = std::size_t{1} << 16;

std::optional<Json> object_of(std::string_view line) {
  constexpr int depth = 4;
  if (line.size() > kMostLineBytes) return std::nullopt;
  try {
    Json json = parse_json<Json>(line, depth);
    const auto at = json.is_object() ? json.find("iteration") : json.end();
    if (!json.is_object() || at == json.end() || !at->is_number_integer()) return std::nullopt;
    return json;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void MetricsLines::read(const std::function<void(const Json&)>& take) {
  broken_ = first_broken_ = 0;
  std::int64_t number = 0;
  std::string line, block;
  for (std::uint64_t offset = 0; offset < file_.size(); offset += block.size()) {
    block.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, file_.size() - offset)));
    check(file_.read(offset, block.data(), block.size()), "{}: byte {} cannot be read",
          path_.string(), offset);
    for (std::size_t begin = 0; begin < block.size();) {
      const std::size_t end = std::min(block.find('\n', begin), block.size());
      // Of a line that is too long, enough to know it.
      if (line.size() <= kMostLineBytes) line.append(block, begin, end - begin);
      begin = end + 1;
      if (end == block.size()) break;  // it goes on in the next block
      ++number;
      if (const auto object = object_of(line)) {
        take(*object);
      } else if (++broken_ == 1) {
        first_broken_ = number;
      }
      line.clear();
    }
  }
}

}  // namespace tapegrad::events
