#pragma once

#include <fmt/core.h>

#include <stdexcept>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The one exception that this library throws. Its text names the rule that was broken and the
// values that broke it, as in "[matmul] inner dimensions differ: a is (2, 3), b is (4, 5)".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Error with this text. Compiled once, so that a check costs its caller little.
[[noreturn]] void fail_with(fmt::string_view format, fmt::format_args args);

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fail_with(format, fmt::make_format_args(args...));
}

// Throws Error with the formatted text unless `condition` holds. Only the failing path formats.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] {
    fail_with(format, fmt::make_format_args(args...));
  }
}

}  // namespace tapegrad
