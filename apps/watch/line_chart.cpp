#include "tapegrad/apps/watch/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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
    // A single point, or a constant, stands in the middle.
    if (x_.size() == 0) x_.most += 1;
    const double margin = y_.size() == 0 ? std::max(std::abs(y_.most) * 0.1, 1e-9) : 0;
    y_.least -= margin;
    y_.most += margin;
  }

  std::string text() {
    if (!std::isfinite(x_.least)) return "";
    text_ = fmt::format(
        "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\"><title>{2}</title>\n",
        chart_.width, chart_.height, escaped(chart_.title));
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

  std::optional<double> drawn_y(double x, double y) const {
    if (!std::isfinite(x) || !std::isfinite(y) || (chart_.log_y && y <= 0)) return std::nullopt;
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
    for (double y = std::ceil(least / step) * step; y <= most + 1e-9 * step; y += step) {
      const double level = std::abs(y) < step / 2 ? 0 : y;
      draw_level(bent ? std::log10(level) : level, number(powers ? std::pow(10, level) : level));
    }
    const double wide = std::max(1.0, nice_step(x_.size(), 6));
    for (double x = std::ceil(x_.least / wide) * wide; x <= x_.most; x += wide) {
      write(across(x), chart_.height - 8, "middle", number(x));
    }
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
    text_ += fmt::format("<path class=\"curve curve-{}{}\" d=\"{}\"><title>{}</title></path>\n",
                         curve.colour % 8, curve.faint ? " faint" : "", path, escaped(curve.name));
  }

  const LineChart& chart_;
  Range x_, y_;
  std::string text_;
};

}  // namespace

std::string svg_of(const LineChart& chart) { return Drawing(chart).text(); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace tapegrad::watch
