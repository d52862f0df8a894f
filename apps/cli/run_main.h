#pragma once

#include <functional>
#include <string>

#include "tapegrad/base/error.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::cli {

// The arguments of a program are wrong. Its exit code is then 2; after any other Error it is 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void usage_error_with(fmt::string_view format, fmt::format_args args);

template <class... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> format, Args&&... args) {
  usage_error_with(format, fmt::make_format_args(args...));
}

// Runs `check_values` and throws its Error as a UsageError: for options that the library checks.
template <class Check>
void as_usage(const Check& check_values) {
  try {
    check_values();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

using tapegrad::printable;

// The body of a main(). Returns the exit code of `body`; or, after an exception, 2 for a
// UsageError and 1 for all others. An exception is printed on stderr, "train-gpt: error: …". Output
// that cannot be written is such an error, too; but if nobody reads it, as after `| head`, the
// program ends without a word and with kClosedPipeExitCode.
int run_main(const std::string& program, const std::function<int()>& body);

// The two halves of run_main.
struct Outcome {
  int code = 0;       // to exit with
  std::string error;  // of an exception; empty: there was none
};
Outcome run_body(const std::function<int()>& body);
// "train-gpt: error (rank 1 on node7): …" if `where` is " (rank 1 on node7)".
void print_failure(const std::string& program, const std::string& where, const Outcome& outcome);

}  // namespace tapegrad::cli
