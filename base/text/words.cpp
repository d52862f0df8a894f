#include "tapegrad/base/text/words.h"

#include <fmt/core.h>

#include <algorithm>

namespace tapegrad {

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  const std::int64_t first = n < 0 ? 1 : 0;
  for (auto i = static_cast<std::int64_t>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(n), noun, n == 1 ? "" : "s");
}

std::string size_text(double bytes) {
  if (bytes < 1e4) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.0f} kB", bytes / 1e3);
  if (bytes < 1e8) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes < 1e9) return fmt::format("{:.0f} MB", bytes / 1e6);
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string progress_text(double share, double seconds_left) {
  return fmt::format("{:.0f} %, {} left", 100 * share, duration_text(seconds_left));
}

std::string loss_text(double loss) {
  constexpr double least = 1e-3;
  const bool small = loss != 0 && loss > -least && loss < least;
  return small ? fmt::format("{:.4g}", loss) : fmt::format("{:.4f}", loss);
}

std::string table_text(std::string_view columns,
                       const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(columns.size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], line.at(i).size());
    }
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) row += "  ";
      const std::string spaces(widths[i] - line[i].size(), ' ');
      row += columns[i] == 'r' ? spaces + line[i] : line[i] + spaces;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace tapegrad
