#pragma once

#include <optional>
#include <string_view>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad::cli {

// The choice of threads and libraries: options of every program that runs a model.
struct ComputeOptions {
  std::optional<int> threads = {};
  GemmLibrary gemm = GemmLibrary::automatic;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("threads", o.threads,
      "threads per process [its share of the processors]; results are the same for any number",
      {.least = 1});
    t("gemm", o.gemm, "library for f32 matrix products; auto picks the faster one for each shape");
  }
};

// UsageError for values that cannot be had here.
void check_compute(const ComputeOptions& o);
void use_compute(const ComputeOptions& o);

}  // namespace tapegrad::cli
