#include "tapegrad/apps/demo/svg_bars.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/markup.h"

namespace tapegrad {
namespace {

// Blue and vermilion of Okabe and Ito's palette: told apart with any colour vision.
constexpr std::array kColours = {"#d55e00", "#0072b2"};

bool can_be_shown(double value) { return std::isfinite(value) && value > 0; }

std::string power_of_ten(int exponent) {
  if (exponent >= -3 && exponent <= 3) return fmt::format("{:g}", std::pow(10.0, exponent));
  return fmt::format("10<tspan dy=\"-5\" font-size=\"9\">{}{}</tspan>", exponent < 0 ? "−" : "",
                     std::abs(exponent));
}

class Drawing {
 public:
  explicit Drawing(const BarChart& chart) : chart_(chart), scale_(all_values(chart)) {
    const double groups = static_cast<double>(chart.labels.size());
    width_ = std::max(640.0, groups * 24);
    group_ = width_ / groups;
  }

  std::string str() const {
    const double total_width = left + width_ + right, total_height = top + height + bottom;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
        "viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" "
        "fill=\"#222222\">\n<title>{2}</title>\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" rx=\"8\" fill=\"#ffffff\"/>\n",
        total_width, total_height, escaped_markup(chart_.title));
    svg += text(left, 30, "font-size=\"17\" font-weight=\"bold\"", escaped_markup(chart_.title));
    svg += text(left, 50, "fill=\"#555555\"", escaped_markup(chart_.subtitle));
    return svg + legend() + grid() + bars() + axis_labels() + "</svg>\n";
  }

 private:
  static constexpr double left = 84, right = 24, top = 100, bottom = 64, height = 320;

  static std::vector<double> all_values(const BarChart& chart) {
    std::vector<double> all;
    for (const BarSeries& series : chart.series) {
      all.insert(all.end(), series.values.begin(), series.values.end());
    }
    return all;
  }

  static std::string text(double x, double y, const std::string& style,
                          const std::string& content) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, content);
  }

  double height_at(double value) const { return top + height * (1 - scale_.place(value)); }

  std::string legend() const {
    std::string svg;
    double x = left;
    for (std::size_t s = 0; s < chart_.series.size(); ++s) {
      const std::string& name = chart_.series[s].name;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"67\" width=\"13\" height=\"13\" rx=\"2\" fill=\"{}\"/>\n", x,
          kColours.at(s));
      svg += text(x + 19, 78, "", escaped_markup(name));
      x += 50 + 7.5 * static_cast<double>(name.size());
    }
    return svg;
  }

  // A line at each power of ten, or at some of them if there are many.
  std::string grid() const {
    std::string svg;
    const int step = 1 + (scale_.high - scale_.low) / 11;
    for (int exponent = scale_.low; exponent <= scale_.high; exponent += step) {
      const double y = top + height * (scale_.high - exponent) / (scale_.high - scale_.low);
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>\n",
          left, left + width_, y, exponent == scale_.low ? "#222222" : "#dddddd");
      svg += text(left - 8, y + 4, "text-anchor=\"end\"", power_of_ten(exponent));
    }
    return svg;
  }

  std::string bars() const {
    std::string svg;
    const double bar = group_ * 0.8 / static_cast<double>(chart_.series.size());
    for (std::size_t i = 0; i < chart_.labels.size(); ++i) {
      for (std::size_t s = 0; s < chart_.series.size(); ++s) {
        const double value = chart_.series[s].values.at(i), y = height_at(value);
        const double x =
            left + group_ * (static_cast<double>(i) + 0.1) + bar * static_cast<double>(s);
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">"
            "<title>{}, {}: {:.9g}</title></rect>\n",
            x, y, bar * 0.95, top + height - y, kColours.at(s),
            escaped_markup(chart_.series[s].name), escaped_markup(chart_.labels[i]), value);
        if (bar < 44) continue;  // too narrow for a number
        // With a white edge, so that no line of the grid runs through it.
        svg += text(x + bar * 0.475, y - 5,
                    "text-anchor=\"middle\" font-size=\"11\" stroke=\"#ffffff\" "
                    "stroke-width=\"4\" paint-order=\"stroke\"",
                    fmt::format("{:.2g}", value));
      }
    }
    return svg;
  }

  std::string axis_labels() const {
    std::string svg;
    const auto step = static_cast<std::size_t>(std::ceil(28 / group_));
    for (std::size_t i = 0; i < chart_.labels.size(); i += step) {
      svg += text(left + group_ * (static_cast<double>(i) + 0.5), top + height + 20,
                  "text-anchor=\"middle\"", escaped_markup(chart_.labels[i]));
    }
    svg += text(left + width_ / 2, top + height + 46, "text-anchor=\"middle\"",
                escaped_markup(chart_.x_label));
    const double y = top + height / 2;
    return svg + text(22, y,
                      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 22 {:.1f})\"", y),
                      escaped_markup(chart_.y_label));
  }

  const BarChart& chart_;
  LogScale scale_;
  double width_ = 0, group_ = 0;  // of the plot, and of one label's bars
};

}  // namespace

LogScale::LogScale(const std::vector<double>& values) {
  double least = 0, most = 0;
  for (const double value : values) {
    if (!can_be_shown(value)) continue;
    least = least == 0 ? value : std::min(least, value);
    most = std::max(most, value);
  }
  if (most == 0) return;
  // The low end is below the least value, so that each value has a bar.
  low = static_cast<int>(std::ceil(std::log10(least))) - 1;
  high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
}

double LogScale::place(double value) const {
  if (!can_be_shown(value)) return 0;
  return std::clamp((std::log10(value) - low) / (high - low), 0.0, 1.0);
}

std::string svg_of(const BarChart& chart) { return Drawing(chart).str(); }

}  // namespace tapegrad
