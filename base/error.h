#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace tapegrad {

// The one exception that this library throws. Its text names the rule that was broken and the
// values that broke it, as in "[matmul] inner dimensions differ: a is (2, 3), b is (4, 5)".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error with the formatted text unless `condition` holds. Only the failing path formats.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] {
    fail(format, std::forward<Args>(args)...);
  }
}

}  // namespace tapegrad
