#include "tapegrad/apps/cli/run_main.h"

#include <cstdio>
#include <new>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::cli {

int run_main(const std::string& program, const std::function<int()>& body) {
  int code = 1;
  std::string message;
  try {
    static_cast<void>(gemm_description());  // throws for a library that would give wrong results
    code = body();
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    check(written || code == run::kInterruptedExitCode, "the output could not be written");
  } catch (const UsageError& error) {
    code = 2;
    message = fmt::format("{}\nTry '{} --help'.", error.what(), program);
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  } catch (const std::exception& error) {
    message = error.what();
  }
  if (!message.empty()) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: error: {}\n", program, message);
  }
  return message.empty() ? code : code == 2 ? 2 : 1;
}

}  // namespace tapegrad::cli
