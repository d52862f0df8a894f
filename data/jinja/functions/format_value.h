#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/run.h"
#include "tapegrad/data/jinja/value.h"

namespace tapegrad::data::jinja {

// How Python's format() and "%" write a value.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '='; 0: by the type
  char sign = '-';
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;
  std::int64_t precision = -1;
  char type = 0;
};

// Takes the number that the text begins with. Error if it is too large.
std::int64_t take_count(std::string_view& text);
bool begins_with_digit(std::string_view text);

std::string format_integer(Run& run, std::int64_t number, const FormatSpec& spec);
std::string format_real(Run& run, double number, const FormatSpec& spec);
std::string format_string(Run& run, std::string_view text, const FormatSpec& spec);

// format(value, spec).
std::string formatted(Run& run, const Value& value, std::string_view spec);

}  // namespace tapegrad::data::jinja
