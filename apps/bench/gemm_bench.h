#pragma once

#include "tapegrad/apps/bench/step_bench.h"

namespace tapegrad::bench {

// Prints the products of a step by shape, and the rate of each by each library and by gemm().
void bench_gemm(const BenchCase& c, const BenchOptions& options);

}  // namespace tapegrad::bench
