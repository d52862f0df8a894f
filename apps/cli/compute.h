#pragma once

#include <optional>
#include <string_view>

#include "tapegrad/autograd/gemm/gemm.h"

namespace tapegrad::cli {

// What computes: options of every program that runs a model.
struct ComputeOptions {
  std::optional<int> threads = {};
  GemmLibrary gemm = GemmLibrary::automatic;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("threads", o.threads,
      "threads of a process [its share of the processors]; results do not depend on it",
      {.least = 1});
    t("gemm", o.gemm, "library for products of f32; auto takes the faster one by their shape");
  }
};

// UsageError for values that cannot be had here.
void check_compute(const ComputeOptions& o);
void use_compute(const ComputeOptions& o);

}  // namespace tapegrad::cli
