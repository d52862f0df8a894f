#include "tapegrad/apps/sample/stop_text.h"

#include <algorithm>
#include <utility>

namespace tapegrad::sampling {

std::string StopText::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  std::size_t end = held_.npos;  // where the first stop begins
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != held_.npos) {
    stopped_ = true;
    held_.resize(end);
    return flush();
  }
  std::size_t keep = 0;  // the longest end of the text that begins a stop
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopText::flush() { return std::exchange(held_, {}); }

}  // namespace tapegrad::sampling
