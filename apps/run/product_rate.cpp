#include "tapegrad/run/product_rate.h"

#include <algorithm>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/gemm/timed_gemm.h"
#include "tapegrad/run/median.h"

namespace tapegrad::run {
namespace {

GemmShape shape_of(const Product& p) {
  return {.tb = true, .m = p.rows, .n = p.columns, .k = p.depth};
}

constexpr int kTries = 7;

}  // namespace

double product_rate(const Product& p, Precision precision) {
  TimedGemm product(shape_of(p));
  std::vector<double> seconds;
  for (int i = 0; i < kTries; ++i) seconds.push_back(product.seconds(precision));
  return shape_of(p).flops() / median(std::move(seconds));
}

std::string describe_bf16(const Product& product) {
  if (has_bf16_instructions())
    return "bf16 in the products of linear layers, by " + gemm_description(Precision::bf16);
  constexpr int64_t most_rows = 256;
  const Product some{std::min(product.rows, most_rows), product.columns, product.depth};
  TimedGemm timed(shape_of(some));
  double full = timed.seconds(Precision::full), rounded = timed.seconds(Precision::bf16);
  for (int i = 0; i < kTries; ++i) {  // by turns, since the machine's speed changes
    full = std::min(full, timed.seconds(Precision::full));
    rounded = std::min(rounded, timed.seconds(Precision::bf16));
  }
  const std::string product_name = fmt::format("{}×{}×{}", some.rows, some.columns, some.depth);
  return fmt::format(
      "bf16 in the products of linear layers, but {}: rounded numbers are multiplied as f32; {} "
      "takes {:.2f} times as long as with --dtype f32",
      gemm_description(Precision::bf16), product_name, rounded / full);
}

}  // namespace tapegrad::run
