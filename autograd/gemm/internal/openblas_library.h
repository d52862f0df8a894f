#pragma once

#include <cblas.h>

#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/gemm/internal/processor.h"

namespace tapegrad {

// OpenBLAS as it was loaded: the functions that we call, and its description for people.
struct OpenBlas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  decltype(&cblas_sgemv) sgemv;
  decltype(&cblas_dgemv) dgemv;
  decltype(&openblas_set_num_threads) set_num_threads;
  decltype(&openblas_get_parallel) get_parallel;
  decltype(&openblas_get_config) get_config;
  decltype(&openblas_get_corename) get_corename;
  std::string core;    // "SkylakeX"
  std::string reason;  // " (its own choice was Prescott)"; empty for its own choice
};

// OpenBLAS is loaded at the first call, not when the program starts: an OpenBLAS that is older than
// the processor may choose kernels that are many times too slow (before 0.3.25: those of SSE3 on
// Intel's processors since 2021). It chooses while it is loaded. So we load it, compare its choice
// with what the processor can do, and if that is more, load it again with OPENBLAS_CORETYPE set. An
// OPENBLAS_CORETYPE of the user's is left alone. The library is the one that the build found;
// TAPEGRAD_OPENBLAS names another one.
// Errors: it cannot be loaded; it is not the OpenMP build of OpenBLAS.
const OpenBlas& loaded_openblas();

// The kernels, best first, that suit a processor better than `chosen`, in the words of
// OPENBLAS_CORETYPE; empty if `chosen` is as good, or is not known to us.
std::vector<std::string> better_kernels(std::string_view chosen, Isa isa, bool bf16, bool amd);

}  // namespace tapegrad
