// Asks for more memory than the process may have, before anything else, and then for what it may
// have: the first must be an Error, after which the program goes on.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tapegrad/autograd/ops.h"

using namespace tapegrad;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// Less than the heap asks the system for at first, so that it has to make do with less.
constexpr std::int64_t kLeft = 48 * kMiB, kTooMuch = 256 * kMiB, kEnough = 16 * kMiB;

Tensor ones_of(std::int64_t bytes) { return Tensor::ones({bytes / 4}); }

// Leaves this process `bytes` of addresses beyond those that it has; false if it cannot be done.
bool leave_addresses(std::int64_t bytes) {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto limit = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  const rlimit both{limit, limit};
  return pages > 0 && ::setrlimit(RLIMIT_AS, &both) == 0;
}

std::string error_of_too_much() {
  try {
    ones_of(kTooMuch);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

int main() {
  if (!leave_addresses(kLeft)) return 1;
  const std::string error = error_of_too_much();
  const bool goes_on = sum(ones_of(kEnough)).item() == kEnough / 4;
  std::printf("%s; then %s\n", error.c_str(), goes_on ? "all is well" : "a WRONG sum");
  return error == "out of memory: 256 MiB asked for, 0 MiB in use" && goes_on ? 0 : 1;
}
