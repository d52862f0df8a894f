#include "tapegrad/run/record/text_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapegrad::run {
namespace {

constexpr int kDotsX = 2, kDotsY = 4;  // of a braille character
constexpr std::size_t kMostPoints = 1024;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // From 0 to 1. A range of one value is at its middle.
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

std::vector<ChartPoint> finite(std::vector<ChartPoint> points) {
  std::erase_if(points, [](ChartPoint p) { return !std::isfinite(p.x) || !std::isfinite(p.y); });
  return points;
}

// Characters of braille, each with a bit for each of its dots, and marks in their place.
class Canvas {
 public:
  Canvas(int columns, int rows, Range x, Range y)
      : columns_(columns),
        rows_(rows),
        x_(x),
        y_(y),
        cells_(static_cast<std::size_t>(columns * rows)) {}

  void line(ChartPoint a, ChartPoint b) {
    const int from = dot_x(a.x), to = dot_x(b.x);
    int last = dot_y(a.y);
    for (int x = from; x <= to; ++x) {
      const double share = to == from ? 1 : static_cast<double>(x - from) / (to - from);
      const int y = dot_y(a.y + share * (b.y - a.y));
      for (int between = std::min(last, y); between <= std::max(last, y); ++between) {
        set(x, between);
      }
      last = y;
    }
  }
  void mark(ChartPoint p) { cell(dot_x(p.x), dot_y(p.y)) |= kMark; }

  std::string row(int r) const {
    std::string text;
    for (int c = 0; c < columns_; ++c) {
      const unsigned bits = cells_[static_cast<std::size_t>(r * columns_ + c)];
      if ((bits & kMark) != 0) {
        text += 'o';
      } else if (bits == 0) {
        text += ' ';
      } else {  // U+2800 + bits, in UTF-8
        text +=
            {'\xe2', static_cast<char>(0xa0 | bits >> 6), static_cast<char>(0x80 | (bits & 63))};
      }
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

 private:
  static constexpr unsigned kMark = 256;

  int dot_x(double x) const {
    return static_cast<int>(std::lround(x_.share(x) * (columns_ * kDotsX - 1)));
  }
  int dot_y(double y) const {  // from the top
    return static_cast<int>(std::lround((1 - y_.share(y)) * (rows_ * kDotsY - 1)));
  }
  unsigned& cell(int x, int y) {
    return cells_[static_cast<std::size_t>(y / kDotsY * columns_ + x / kDotsX)];
  }
  void set(int x, int y) {
    constexpr unsigned kBits[kDotsY][kDotsX] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    cell(x, y) |= kBits[y % kDotsY][x % kDotsX];
  }

  int columns_, rows_;
  Range x_, y_;
  std::vector<unsigned> cells_;
};

// "0 … caption … 2000", or the ends alone, or nothing, as there is room.
std::string bottom_line(Range x, const std::string& caption, int width) {
  const std::string first = fmt::format("{:.0f}", x.low), last = fmt::format("{:.0f}", x.high);
  const int room = width - static_cast<int>(first.size() + last.size());
  if (room < 1) return "";
  const bool fits = static_cast<int>(caption.size()) + 2 <= room;
  return fmt::format("{}{:^{}}{}", first, fits ? caption : "", room, last);
}

}  // namespace

std::vector<std::string> text_chart(const std::vector<ChartPoint>& curve,
                                    const std::vector<ChartPoint>& marks,
                                    const std::string& caption, int width, int height) {
  const std::vector<ChartPoint> line = finite(curve), points = finite(marks);
  if ((line.empty() && points.empty()) || width < 24 || height < 4) return {};
  Range x, y;
  for (const auto& all : {line, points}) {
    for (const ChartPoint& p : all) {
      x.add(p.x);
      y.add(p.y);
    }
  }
  const std::string highest = fmt::format("{:.4g}", y.high), lowest = fmt::format("{:.4g}", y.low);
  const std::size_t label = std::max(highest.size(), lowest.size());
  const int columns = width - static_cast<int>(label) - 1, rows = height - 1;
  Canvas canvas(columns, rows, x, y);
  for (std::size_t i = 0; i < line.size(); ++i) canvas.line(line[i > 0 ? i - 1 : 0], line[i]);
  for (const ChartPoint& p : points) canvas.mark(p);
  std::vector<std::string> lines;
  for (int r = 0; r < rows; ++r) {
    const std::string name = r == 0 ? highest : r == rows - 1 ? lowest : "";
    const std::string text = fmt::format("{:>{}} {}", name, label, canvas.row(r));
    lines.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  lines.push_back(std::string(label + 1, ' ') + bottom_line(x, caption, columns));
  return lines;
}

void LossChart::Series::add(std::int64_t step, double value) {
  if (in_last == every || points.empty()) {
    if (points.size() == kMostPoints) {
      for (std::size_t i = 0; i < kMostPoints / 2; ++i) {
        const ChartPoint a = points[2 * i], b = points[2 * i + 1];
        points[i] = {(a.x + b.x) / 2, (a.y + b.y) / 2};
      }
      points.resize(kMostPoints / 2);
      every *= 2;
    }
    points.push_back({0, 0});
    in_last = 0;
  }
  ChartPoint& last = points.back();
  const auto n = static_cast<double>(++in_last);
  last.x += (static_cast<double>(step) - last.x) / n;
  last.y += (value - last.y) / n;
}

void LossChart::add(std::int64_t step, double loss) {
  if (std::isfinite(loss)) loss_.add(step, loss);
}
void LossChart::add_val(std::int64_t step, double val_loss) {
  if (std::isfinite(val_loss)) val_.add(step, val_loss);
}

std::vector<std::string> LossChart::draw(int width, int height) const {
  return text_chart(loss_.points, val_.points,
                    val_.points.empty() ? "loss of steps" : "loss of steps, o val loss", width,
                    height);
}

}  // namespace tapegrad::run
