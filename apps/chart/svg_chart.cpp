#include "tapegrad/apps/chart/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/chart/chart_axis.h"
#include "tapegrad/base/text/internal/markup.h"

namespace tapegrad::charts {
namespace {

struct Margins {
  double left, right, top, bottom;
};
constexpr Margins kInPage = {62, 14, 10, 28}, kInFile = {84, 24, 100, 64};

// Blue and vermilion of Okabe and Ito's palette: told apart with any colour vision.
constexpr const char* kFileStyle = R"(<style>
  svg { font: 13px sans-serif; fill: #222222; }
  .paper { fill: #ffffff; } .title { font-size: 17px; font-weight: bold; } .note { fill: #555555; }
  .grid { stroke: #dddddd; } .base { stroke: #222222; }
  .bar-0 { fill: #d55e00; } .bar-1 { fill: #0072b2; }
  .value { font-size: 11px; stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
</style>
)";

// Short: 1500, 0.02, 3.2e-05; of a logarithmic axis also 10 with an exponent.
std::string label_of(double value, bool logarithmic) {
  const double size = std::abs(value), exponent = std::round(std::log10(size));
  const bool power = logarithmic && value > 0 && (exponent < -3 || exponent > 5) &&
                     value == std::pow(10, exponent);
  if (!power && (value == 0 || (size >= 1e-3 && size < 1e7))) return fmt::format("{:.7g}", value);
  if (!power) return fmt::format("{:.1e}", value);
  return fmt::format("10<tspan dy=\"-5\" font-size=\"9\">{}{:g}</tspan>", exponent < 0 ? "−" : "",
                     std::abs(exponent));
}

std::string text(const char* kind, double x, double y, const char* anchor,
                 const std::string& markup, const std::string& more = "") {
  return fmt::format(
      "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", kind, x, y,
      anchor, more, markup);
}

class Drawing {
 public:
  Drawing(const Chart& chart, const Margins& margins)
      : chart_(chart), margins_(margins), y_{.logarithmic = chart.log_y || chart.bars} {
    for (const Series& series : chart.series) {
      for (const auto& [x, y] : series.points) {
        if (!shows(x, y)) continue;
        x_.add(x);
        y_.add(y);
      }
    }
    if (chart.bars) {
      x_.low -= 0.5, x_.high += 0.5;
      y_.widen_to_powers();
    } else {
      x_.widen(1);
      y_.widen(y_.logarithmic ? 0.05 : y_.high == 0 ? 1 : std::abs(y_.high) * 0.1);
    }
  }

  bool empty() const { return x_.empty(); }
  double left() const { return margins_.left; }
  double right() const { return chart_.width - margins_.right; }
  double bottom() const { return chart_.height - margins_.bottom; }
  double across(double x) const { return left() + (right() - left()) * x_.share(x); }
  double down(double y) const { return bottom() - (bottom() - margins_.top) * y_.share(y); }

  std::string content() const { return grid() + (chart_.bars ? bars() : curves()); }

 private:
  bool shows(double x, double y) const { return chart_.bars || (x_.shows(x) && y_.shows(y)); }

  std::string line(const char* kind, double y) const {
    return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kind, left(), y,
                       right());
  }

  std::string grid() const {
    std::string svg;
    for (const double y : y_.levels(chart_.bars ? 10 : 5)) {
      svg += line("grid", down(y)) +
             text("axis", left() - 8, down(y) + 4, "end", label_of(y, y_.logarithmic));
    }
    for (const double x : x_.levels(chart_.bars ? 25 : 6, 1)) {
      svg += text("axis", across(x), bottom() + 20, "middle", label_of(x, false));
    }
    return svg;
  }

  std::string curves() const {
    std::string svg;
    for (const bool faint : {true, false}) {
      for (const Series& series : chart_.series) {
        if (series.faint == faint) svg += curve(series);
      }
    }
    return svg;
  }

  std::string bars() const {
    std::string svg;
    const auto count = static_cast<double>(chart_.series.size());
    const double width = 0.8 * (right() - left()) / (x_.high - x_.low) / count;
    for (std::size_t s = 0; s < chart_.series.size(); ++s) {
      for (const auto& [x, y] : chart_.series[s].points) {
        const double begin = across(x) + width * (static_cast<double>(s) - count / 2);
        svg += fmt::format(
            "<rect class=\"bar-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
            "<title>{}, {:g}: {:.9g}</title></rect>\n",
            s, begin, down(y), width * 0.95, bottom() - down(y),
            escaped_markup(chart_.series[s].name), x, y);
        if (width < 44) continue;  // too narrow for a number
        // With a white edge, so that no line of the grid runs through it.
        svg +=
            text("value", begin + width * 0.475, down(y) - 5, "middle", fmt::format("{:.2g}", y));
      }
    }
    return svg + line("base", bottom());
  }

  std::string curve(const Series& series) const {
    std::string path;
    for (const auto& [x, y] : series.points) {
      if (!shows(x, y)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across(x), down(y));
    }
    if (path.empty()) return "";
    // A point alone is seen, since lines have round ends.
    if (path.find('L') == std::string::npos) path += "h0";
    return fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>\n",
                       curve_class(series.colour, series.faint), path, escaped_markup(series.name));
  }

  const Chart& chart_;
  Margins margins_;
  Axis x_, y_;
};

}  // namespace

std::string curve_class(int colour, bool faint) {
  constexpr int colours = 12, dashes = 4;  // the first is drawn through
  return fmt::format("curve curve-{} dash-{}{}", colour % colours, colour / colours % dashes,
                     faint ? " faint" : "");
}

std::string curve_key(int colour, bool faint) {
  return fmt::format(
      "<svg class=\"key\" viewBox=\"0 0 18 8\" aria-hidden=\"true\">"
      "<path class=\"{}\" d=\"M1 4H17\"/></svg>",
      curve_class(colour, faint));
}

std::string svg_of(const Chart& chart) {
  const Drawing drawing(chart, kInPage);
  if (drawing.empty()) return "";
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\"><title>{2}</title>\n{3}"
      "</svg>\n",
      chart.width, chart.height, escaped_markup(chart.title), drawing.content());
}

std::string svg_file(const Chart& bars, const Captions& captions) {
  const Drawing drawing(bars, kInFile);
  const double left = drawing.left(), middle = (kInFile.top + drawing.bottom()) / 2;
  const std::string title = escaped_markup(bars.title);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n{3}"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\" rx=\"8\"/>\n",
      bars.width, bars.height, title, kFileStyle);
  svg += text("title", left, 30, "start", title);
  svg += text("note", left, 50, "start", escaped_markup(captions.subtitle));
  double x = left;
  for (std::size_t s = 0; s < bars.series.size(); ++s) {
    const std::string& name = bars.series[s].name;
    svg += fmt::format(
        "<rect class=\"bar-{}\" x=\"{:.1f}\" y=\"67\" width=\"13\" height=\"13\" rx=\"2\"/>\n", s,
        x);
    svg += text("axis", x + 19, 78, "start", escaped_markup(name));
    x += 50 + 7.5 * static_cast<double>(name.size());
  }
  svg += drawing.content();
  svg += text("axis", (left + drawing.right()) / 2, drawing.bottom() + 46, "middle",
              escaped_markup(captions.x));
  svg += text("axis", 22, middle, "middle", escaped_markup(captions.y),
              fmt::format(" transform=\"rotate(-90 22 {:.1f})\"", middle));
  return svg + "</svg>\n";
}

}  // namespace tapegrad::charts
