#include "tapegrad/apps/cli/compute.h"

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::cli {

void check_compute(const ComputeOptions& o) {
  if (o.threads && *o.threads > kMaxThreads) {
    usage_error("--threads must be at most {}", +kMaxThreads);
  }
}

void use_compute(const ComputeOptions& o) {
  check_compute(o);
  if (o.threads) set_num_threads(*o.threads);
  set_gemm_library(o.gemm);
}

}  // namespace tapegrad::cli
