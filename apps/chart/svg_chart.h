#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tapegrad::charts {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x and y, by x
  int colour = 0;      // of curve-0 to curve-11, and again with dash-1, dash-2, …
  bool faint = false;  // drawn behind the others
};

struct Chart {
  std::string title;
  std::vector<Series> series;
  bool log_y = false;
  // Bars in place of curves: at each whole x one of each series, side by side, on a logarithmic
  // scale between powers of ten. Values that this scale cannot show have bars without height.
  bool bars = false;
  int width = 720, height = 260;  // pixels, if nothing scales the picture
};

// The classes of a curve, and a short piece of it for a legend.
std::string curve_class(int colour, bool faint = false);
std::string curve_key(int colour, bool faint = false);

// The chart for a page whose style has the classes grid, axis, faint, curve, curve-0 to curve-11
// and dash-1 to dash-3. Points of curves that an axis cannot show (Axis::shows) are left out. ""
// if there is nothing to draw.
std::string svg_of(const Chart& chart);

struct Captions {
  std::string subtitle, x, y;  // x and y: the names of the axes
};

// Bars as an SVG file that refers to no other file: with a style and a background of its own,
// title, legend and names of axes. Two series at most: there are two colours.
std::string svg_file(const Chart& bars, const Captions& captions);

}  // namespace tapegrad::charts
