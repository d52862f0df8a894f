#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tapegrad/autograd/base/error.h"

namespace tapegrad::cli {

// A program was called in a way that has no meaning: exit code 2, where any other Error is 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// Runs `check_values` and turns an Error of it into a UsageError: for options that the library
// checks.
template <class Check>
void as_usage(const Check& check_values) {
  try {
    check_values();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

// The body of a main(): what `body` returns is the exit code. An exception becomes a line on
// stderr, "train-gpt: error: …", and exit code 2 for a UsageError, otherwise 1; so does output that
// could not be written.
int run_main(const std::string& program, const std::function<int()>& body);

}  // namespace tapegrad::cli
