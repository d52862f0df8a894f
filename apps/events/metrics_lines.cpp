#include "tapegrad/apps/events/metrics_lines.h"

#include <algorithm>
#include <optional>

#include "tapegrad/base/text/internal/line_splitter.h"

namespace tapegrad::events {
namespace {

constexpr std::size_t kMostLineBytes = std::size_t{1} << 20, kBlock = std::size_t{1} << 16;

std::optional<Json> object_of(std::string_view line) {
  constexpr int depth = 4;
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
  LineSplitter lines(kMostLineBytes);
  const auto look = [&](std::string_view line) {
    ++number;
    if (const auto object = object_of(line)) {
      take(*object);
    } else if (++broken_ == 1) {
      first_broken_ = number;
    }
  };
  std::string block;
  for (std::uint64_t offset = 0; offset < file_.size(); offset += block.size()) {
    block.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, file_.size() - offset)));
    check(file_.read(offset, block.data(), block.size()), "{}: byte {} cannot be read",
          path_.string(), offset);
    lines.take(block, look);
  }
}

}  // namespace tapegrad::events
