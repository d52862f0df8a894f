#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// Numbers for people.

std::string grouped(std::int64_t n);                         // 1234567 → "1,234,567"
std::string counted(std::int64_t n, std::string_view noun);  // "1 layer", "1,200 layers"
std::string size_text(double bytes);        // "812 B", "64 kB", "3.2 MB", "412 MB", "3.1 GB"
std::string duration_text(double seconds);  // "12 s", "3:05 min", "2:40 h"
std::string progress_text(double share, double seconds_left);  // "35 %, 3:05 min left"
// "2.1873"; of one below 0.001, four digits that count: "0.0004127", "3.052e-07".
std::string loss_text(double loss);
// Lines of cells as a table of columns, two spaces apart. `columns` has a letter for each: l of
// text, which begins at the left, or r of numbers, which end at the right.
std::string table_text(std::string_view columns,
                       const std::vector<std::vector<std::string>>& lines);

}  // namespace tapegrad
