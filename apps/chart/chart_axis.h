#pragma once

#include <limits>
#include <vector>

namespace tapegrad::charts {

// A linear or decimal logarithmic axis. It begins empty, and grows by the values that are added.
struct Axis {
  bool logarithmic = false;
  // The ends; on a logarithmic axis, their exponents.
  double low = std::numeric_limits<double>::infinity(), high = -low;

  // Numbers below 1e300, so that differences are finite; on a logarithmic axis, those above 0.
  bool shows(double value) const;
  // Ignores values that the axis cannot show.
  void add(double value);
  bool empty() const { return low > high; }

  // A single value, and values that differ by rounding, get a margin of `by` on both sides.
  void widen(double by);
  // For bars: moves the ends of a logarithmic axis to powers of ten, the lower one below all
  // values, so that each value has a bar. An empty axis goes from 0.1 to 1.
  void widen_to_powers();

  // Where a value lies: 0 at the low end, 1 at the high end; 0 for one that cannot be shown.
  double share(double value) const;
  // About `count` round numbers, two more at most, at least `least_step` apart: powers of ten, if a
  // logarithmic axis has two of them.
  std::vector<double> levels(int count, double least_step = 0) const;
};

}  // namespace tapegrad::charts
