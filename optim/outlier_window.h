#pragma once

#include <cstddef>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::optim {

// How far a value stands out of those before it, as llm.c measures the loss and the norm of each
// step (its outlier_detector.h): in standard deviations of the last kSize values, itself included,
//   z = (x − mean) / √(mean of (value − mean)²).
// Since x counts among them, z is at most √(kSize − 1), about 11.3.
class OutlierWindow {
 public:
  static constexpr std::size_t kSize = 128;

  // Takes the next value, which must be finite (Error). Returns 0 while there are fewer than kSize
  // values to compare with, and where all are equal.
  double z_score(double value);

  // For a checkpoint: the last values, oldest first. Error for more than kSize of them, or one that
  // is not finite.
  const std::vector<double>& values() const { return values_; }
  void set_values(std::vector<double> values);

 private:
  std::vector<double> values_;
};

}  // namespace tapegrad::optim
