#pragma once

#include <string>
#include <vector>

namespace tapegrad {

// A decimal logarithmic scale whose ends are powers of ten around all the values that a logarithm
// can show: those that are finite and above 0.
struct LogScale {
  int low = -1, high = 0;  // exponents, low < high

  explicit LogScale(const std::vector<double>& values);
  // Where a value lies: 0 at the low end, 1 at the high end; 0 for one that cannot be shown.
  double place(double value) const;
};

struct BarSeries {
  std::string name;
  std::vector<double> values;
};

struct BarChart {
  std::string title, subtitle, x_label, y_label;
  // One bar of each series, side by side, per label. Two series at most: there are two colours.
  std::vector<std::string> labels;
  std::vector<BarSeries> series;
};

// The chart on a logarithmic scale, as an SVG file that refers to no other file and has its own
// background.
std::string svg_of(const BarChart& chart);

}  // namespace tapegrad
