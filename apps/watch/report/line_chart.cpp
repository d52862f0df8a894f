#include "tapegrad/apps/watch/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tapegrad/base/text/markup.h"

namespace tapegrad::watch {
namespace {

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double size() const { return most - least; }
};

// 1, 2 or 5 times a power of ten, so that about `count` of them fill the range.
double nice_step(double size, int count) {
  const double rough = size / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

// Short: 1500, 0.02, 3e-05.
std::string number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  return size >= 1e-3 && size < 1e7 ? fmt::format("{:.7g}", value) : fmt::format("{:.1e}", value);
}

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart) {
    for (const Curve& curve : chart.curves) {
      for (const auto& [x, y] : curve.points) {
        const auto drawn = drawn_y(x, y);
        if (!drawn) continue;
        x_.add(x);
        y_.add(*drawn);
      }
    }
    widen(x_, 1);
    widen(y_, std::abs(y_.most) * 0.1);
  }

  std::string text() {
    if (!std::isfinite(x_.least)) return "";
    text_ = fmt::format(
        "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\"><title>{2}</title>\n",
        chart_.width, chart_.height, escaped_markup(chart_.title));
    draw_grid();
    for (const bool faint : {true, false}) {
      for (const Curve& curve : chart_.curves) {
        if (curve.faint == faint) draw_curve(curve);
      }
    }
    return text_ + "</svg>\n";
  }

 private:
  static constexpr int kLeft = 62, kRight = 14, kTop = 10, kBottom = 28;

  // A single point, a constant, and what differs by rounding stand in the middle.
  static void widen(Range& range, double by) {
    const double size = std::max(std::abs(range.least), std::abs(range.most));
    if (range.size() > 1e-9 * size) return;
    const double margin = std::max({by, 1e-6 * size, 1e-9});
    range.least -= margin;
    range.most += margin;
  }

  std::optional<double> drawn_y(double x, double y) const {
    constexpr double most = 1e300;  // so that differences are finite
    if (!(std::abs(x) < most && std::abs(y) < most) || (chart_.log_y && y <= 0))
      return std::nullopt;
    return chart_.log_y ? std::log10(y) : y;
  }
  double across(double x) const {
    return kLeft + (chart_.width - kLeft - kRight) * (x - x_.least) / x_.size();
  }
  double down(double y) const {
    return kTop + (chart_.height - kTop - kBottom) * (y_.most - y) / y_.size();
  }

  void write(double x, double y, const char* anchor, const std::string& words) {
    text_ +=
        fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                    x, y, anchor, words);
  }
  void draw_level(double y, const std::string& label) {
    text_ += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", +kLeft, down(y),
                         chart_.width - kRight);
    write(kLeft - 8, down(y) + 4, "end", label);
  }

  void draw_grid() {
    // Powers of ten, if a logarithmic axis has two of them at least.
    const bool powers = chart_.log_y && std::floor(y_.most) - std::ceil(y_.least) >= 1;
    const bool bent = chart_.log_y && !powers;  // levels are even numbers, at uneven distances
    const double least = bent ? std::pow(10, y_.least) : y_.least;
    const double most = bent ? std::pow(10, y_.most) : y_.most;
    const double step = powers ? std::ceil(y_.size() / 6) : nice_step(most - least, 5);
    for (const double y : levels(least, most, step)) {
      draw_level(bent ? std::log10(y) : y, number(powers ? std::pow(10, y) : y));
    }
    for (const double x : levels(x_.least, x_.most, std::max(1.0, nice_step(x_.size(), 6)))) {
      write(across(x), chart_.height - 8, "middle", number(x));
    }
  }

  // The multiples of `step` in a range: a few, whatever rounding does.
  static std::vector<double> levels(double least, double most, double step) {
    constexpr int most_levels = 12;
    std::vector<double> list;
    const double first = std::ceil(least / step);
    for (int i = 0; i < most_levels; ++i) {
      const double level = (first + i) * step;
      if (!(level <= most + 1e-9 * step)) break;
      list.push_back(level == 0 ? 0 : level);  // not -0
    }
    return list;
  }

  void draw_curve(const Curve& curve) {
    std::string path;
    for (const auto& [x, y] : curve.points) {
      const auto drawn = drawn_y(x, y);
      if (!drawn) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across(x), down(*drawn));
    }
    if (path.empty()) return;
    // A point alone is seen, since lines have round ends.
    if (path.find('L') == std::string::npos) path += "h0";
    text_ += fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>\n",
                         curve_class(curve.colour, curve.faint), path, escaped_markup(curve.name));
  }

  const LineChart& chart_;
  Range x_, y_;
  std::string text_;
};

}  // namespace

std::string curve_class(int colour, bool faint) {
  constexpr int colours = 12, dashes = 4;  // of report.css; the first is drawn through
  return fmt::format("curve curve-{} dash-{}{}", colour % colours, colour / colours % dashes,
                     faint ? " faint" : "");
}

std::string curve_key(int colour, bool faint) {
  return fmt::format(
      "<svg class=\"key\" viewBox=\"0 0 18 8\" aria-hidden=\"true\"><path class=\"{}\" d=\"M1 "
      "4H17\"/>"
      "</svg>",
      curve_class(colour, faint));
}

std::string svg_of(const LineChart& chart) { return Drawing(chart).text(); }

}  // namespace tapegrad::watch
