#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tapegrad::watch {

struct Curve {
  std::string name;
  // x and y, by x; those that are not finite are left out.
  std::vector<std::pair<double, double>> points;
  int colour = 0;      // of .curve-0 to .curve-11, and again with .dash-1, .dash-2, …
  bool faint = false;  // drawn behind the others
};

// Curves over steps, as SVG for a page: colours come from its style (.curve-0 to .curve-11, .faint,
// .grid, .axis). Nothing else is referred to.
struct LineChart {
  std::string title;
  std::vector<Curve> curves;
  bool log_y = false;  // values that are not above 0 are left out
  int width = 720, height = 260;
};

// The classes of a curve, and a short piece of it for a legend.
std::string curve_class(int colour, bool faint = false);
std::string curve_key(int colour, bool faint = false);

// "" if there is no point to draw.
std::string svg_of(const LineChart& chart);

}  // namespace tapegrad::watch
