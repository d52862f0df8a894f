#include "tapegrad/run/product_rate.h"

#include <algorithm>
#include <chrono>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/run/median.h"

namespace tapegrad::run {
namespace {

class TimedProduct {
 public:
  explicit TimedProduct(const Product& p)
      : p_(p),
        x_(Tensor::ones({p.rows, p.depth})),
        w_(Tensor::ones({p.columns, p.depth})),
        y_(Tensor::empty({p.rows, p.columns})) {}

  double seconds(Precision precision) {
    const auto begin = std::chrono::steady_clock::now();
    gemm(Gemm<float>{.tb = true,
                     .m = p_.rows,
                     .n = p_.columns,
                     .k = p_.depth,
                     .a = x_.data<float>(),
                     .lda = p_.depth,
                     .b = w_.data<float>(),
                     .ldb = p_.depth,
                     .c = y_.mutable_data<float>(),
                     .ldc = p_.columns},
         precision);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Product p_;
  Tensor x_, w_, y_;
};

constexpr int kTries = 7;

}  // namespace

double product_rate(const Product& p, Precision precision) {
  TimedProduct product(p);
  std::vector<double> seconds;
  for (int i = 0; i < kTries; ++i) seconds.push_back(product.seconds(precision));
  const auto work = static_cast<double>(p.rows) * static_cast<double>(p.columns);
  return 2 * work * static_cast<double>(p.depth) / median(std::move(seconds));
}

std::string describe_bf16(const Product& product) {
  if (has_bf16_instructions())
    return "bf16 in the products of linear layers, by " + gemm_description(Precision::bf16);
  constexpr int64_t most_rows = 256;
  const Product some{std::min(product.rows, most_rows), product.columns, product.depth};
  TimedProduct timed(some);
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
