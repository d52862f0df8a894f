#include "tapegrad/apps/cli/run_main.h"

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::cli {

void usage_error_with(fmt::string_view format, fmt::format_args args) {
  throw UsageError(fmt::vformat(format, args));
}

Outcome run_body(const std::function<int()>& body) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error like others
  const auto failed = [](int code, const std::string& message) {
    std::fflush(stdout);
    return Outcome{code, printable(message)};
  };
  try {
    static_cast<void>(gemm_description());  // throws for a library that would give wrong results
    const int code = body();
    if (code != kInterruptedExitCode) flush_stdout();
    return {code, ""};
  } catch (const Completed& completed) {
    return {completed.code, ""};
  } catch (const UsageError& error) {
    return failed(2, error.what());
  } catch (const std::bad_alloc&) {
    return failed(1, "out of memory");
  } catch (const ClosedPipe&) {
    return {kClosedPipeExitCode, ""};
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(1, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::system_error& error) {  // of fmt::print, and of other files and sockets
    const bool is_broken_pipe = error.code() == std::errc::broken_pipe;
    if (is_broken_pipe && is_stdout_closed()) return {kClosedPipeExitCode, ""};
    return failed(1, error.what());
  } catch (const std::exception& error) {
    return failed(1, error.what());
  }
}

void print_failure(const std::string& program, const std::string& where, const Outcome& outcome) {
  const std::string hint = outcome.code == 2 ? fmt::format("Try '{} --help'.\n", program) : "";
  print_error(fmt::format("{}: error{}: {}\n{}", program, where, outcome.error, hint));
}

int run_main(const std::string& program, const std::function<int()>& body) {
  const Outcome outcome = run_body(body);
  if (!outcome.error.empty()) print_failure(program, "", outcome);
  return outcome.code;
}

}  // namespace tapegrad::cli
