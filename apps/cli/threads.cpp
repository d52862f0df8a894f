#include "tapegrad/apps/cli/threads.h"

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/autograd/base/parallel.h"

namespace tapegrad::cli {

void check_threads(const std::optional<int>& threads) {
  if (threads && *threads > kMaxThreads) usage_error("--threads must be at most {}", +kMaxThreads);
}

void use_threads(const std::optional<int>& threads) {
  check_threads(threads);
  if (threads) set_num_threads(*threads);
}

}  // namespace tapegrad::cli
