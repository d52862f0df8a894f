// What emscripten 3.1.6's standard library lacks of C++20: scripts/web.sh includes it in each
// source.
#pragma once

#include <charconv>
#include <cstdlib>
#include <string>
#include <version>

#ifndef __cpp_lib_bit_cast
#define __cpp_lib_bit_cast 201806L
namespace std {
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif

#ifndef __cpp_lib_to_chars
namespace std {
inline from_chars_result from_chars(const char* begin, const char* end, double& value) {
  const string text(begin, end);  // a number's: short
  char* behind = nullptr;
  const double read = strtod(text.c_str(), &behind);
  if (behind == text.c_str()) return {begin, errc::invalid_argument};
  value = read;
  return {begin + (behind - text.c_str()), errc()};
}
}  // namespace std
#endif
