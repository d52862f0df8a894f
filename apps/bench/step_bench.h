#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/bench/trial.h"
#include "tapegrad/autograd/gemm/product_rate.h"

namespace tapegrad::bench {

// A model and a batch to time a step with.
struct BenchCase {
  std::string name, summary;
  nn::DecoderConfig model;
  std::int64_t B, T;

  Product largest_product() const;
};
const std::vector<BenchCase>& bench_cases();

struct BenchOptions {
  int steps = 8;  // that are timed, after two that are not
  bool recompute = false;
  Precision dtype = Precision::full;
  optim::OptimizerId optimizer = {};
  std::optional<DocumentLengths> documents = {};
  std::string trace = {};  // of bench_ops: where to write one, or empty
};

// "30..200". Error for any other text.
DocumentLengths document_lengths(const std::string& text);

// Prints the median time of a step, and how near the model's products are to gemm's rate.
void bench_step(const BenchCase& c, const BenchOptions& options);
// Prints the ops of a step by their time, the mean of all steps.
void bench_ops(const BenchCase& c, const BenchOptions& options);

}  // namespace tapegrad::bench
