#pragma once

#include <algorithm>
#include <vector>

namespace tapegrad::run {

// Of at least one value; of two in the middle, their mean.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace tapegrad::run
