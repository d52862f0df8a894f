#include "tapegrad/optim/outlier_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad::optim {

double OutlierWindow::z_score(double value) {
  check(std::isfinite(value), "an outlier window takes finite values, not {}", value);
  const bool full = values_.size() == kSize;
  if (full) values_.erase(values_.begin());
  values_.push_back(value);
  if (!full) return 0;
  // Deviations, not sums of squares: those of large values that differ little would cancel.
  double mean = 0, variance = 0;
  for (const double x : values_) mean += x / kSize;
  for (const double x : values_) variance += (x - mean) * (x - mean) / kSize;
  const double z = (value - mean) / std::sqrt(variance);
  return std::isfinite(z) ? z : 0;
}

void OutlierWindow::set_values(std::vector<double> values) {
  check(values.size() <= kSize, "an outlier window has at most {} values, not {}", kSize,
        values.size());
  check(std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }),
        "an outlier window has finite values only");
  values_ = std::move(values);
}

}  // namespace tapegrad::optim
