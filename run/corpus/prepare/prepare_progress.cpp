#include "tapegrad/run/corpus/prepare/internal/prepare_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

void ProgressLine::at(std::int64_t bytes) {
  left_.add(since_last_.seconds(), 0);
  ++steps_;
  since_last_ = {};
  if (!terminal_.wants_progress()) return;
  std::string text = fmt::format("{}: {} · {:.1f} MB/s", what_, size_text(bytes),
                                 static_cast<double>(bytes) / 1e6 / seconds());
  if (all_ > 0 && bytes > 0) {
    const double share = static_cast<double>(bytes) / static_cast<double>(all_);
    const auto steps = static_cast<std::int64_t>(static_cast<double>(steps_) * (1 / share - 1));
    text += fmt::format(" · {:.0f} % · {} left", 100 * share, duration_text(left_.seconds(steps)));
  }
  terminal_.progress(text);
}

double ProgressLine::seconds() const { return std::max(1e-9, watch_.seconds()); }

}  // namespace tapegrad::run
