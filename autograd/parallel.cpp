#include "autograd/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "autograd/blas.h"
#include "autograd/check.h"

namespace tapegrad {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int n) {
  check(n >= 1 && n <= 1024, "the number of threads must be from 1 to 1024, not {}", n);
  omp_set_num_threads(n);
  set_blas_threads(n);
}

void detail::parallel_ranges(std::int64_t n, std::int64_t grain, RangeFunction run,
                             const void* body) {
  if (n <= 0) return;
  const std::int64_t most = n / std::max<std::int64_t>(grain, 1);
  const int ranges = static_cast<int>(std::clamp<std::int64_t>(most, 1, num_threads()));
  if (ranges == 1 || omp_in_parallel()) return run(body, 0, n);
  std::exception_ptr error;
#pragma omp parallel num_threads(ranges)
  {
    const std::int64_t i = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    try {
      run(body, n * i / team, n * (i + 1) / team);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tapegrad
