#pragma once

#include <cstdint>
#include <string>

namespace tapegrad {

// Numbers for people.

std::string grouped(std::int64_t n);        // 1234567 → "1,234,567"
std::string size_text(double bytes);        // "812 B", "64 kB", "3.2 MB", "412 MB", "3.1 GB"
std::string duration_text(double seconds);  // "12 s", "3:05 min", "2:40 h"

}  // namespace tapegrad
