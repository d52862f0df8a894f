#include "tapegrad/apps/cli/compute.h"

#include <algorithm>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/autograd/base/parallel.h"

namespace tapegrad::cli {

void check_compute(const ComputeOptions& o) {
  if (o.threads && *o.threads > kMaxThreads) {
    usage_error("--threads must be at most {}", +kMaxThreads);
  }
}

void use_compute(const ComputeOptions& o, int sharing) {
  check_compute(o);
  if (o.threads) {
    set_num_threads(*o.threads);
  } else if (sharing > 1) {
    set_num_threads(std::max(1, num_threads() / sharing));
  }
  set_gemm_library(o.gemm);
}

}  // namespace tapegrad::cli
