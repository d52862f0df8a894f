#include "tapegrad/autograd/gemm/product_rate.h"

#include <algorithm>

#include "tapegrad/autograd/gemm/timed_gemm.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/median.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

GemmShape shape_of(const Product& p) {
  return {.tb = true, .m = p.rows, .n = p.columns, .k = p.depth};
}

// The product with no more rows than its rate needs to be measured.
Product some_rows_of(const Product& p) {
  constexpr std::int64_t kRows = 256;
  return {std::min(p.rows, kRows), p.columns, p.depth};
}

constexpr int kTries = 7;

}  // namespace

double product_rate(const Product& p, Precision precision) {
  TimedGemm product(shape_of(p));
  std::vector<double> seconds;
  for (int i = 0; i < kTries; ++i) seconds.push_back(product.seconds(precision));
  return shape_of(p).flops() / median(std::move(seconds));
}

double bf16_time(const Product& product) {
  constexpr double kSeconds = 0.06;
  TimedGemm timed(shape_of(some_rows_of(product)));
  double full = timed.seconds(Precision::full), rounded = timed.seconds(Precision::bf16);
  double spent = full + rounded;
  for (int i = 0; i < 3 || (i < 20 && spent < kSeconds); ++i) {
    const double f = timed.seconds(Precision::full), r = timed.seconds(Precision::bf16);
    full = std::min(full, f);  // by turns, since the machine's speed changes
    rounded = std::min(rounded, r);
    spent += f + r;
  }
  return rounded / full;
}

// What is nearly as fast is not worth the precision.
constexpr double kWorthBf16 = 0.95;

Precision faster_precision(const Product& product) {
  const bool faster = has_bf16_instructions() && bf16_time(product) < kWorthBf16;
  return faster ? Precision::bf16 : Precision::full;
}

std::string describe_precision(Precision precision, const Product& product) {
  if (precision == Precision::full && !has_bf16_instructions()) return "";
  const Product some = some_rows_of(product);
  const double time = bf16_time(product);
  const std::string name = fmt::format("{}×{}×{}", some.rows, some.columns, some.depth);
  if (precision == Precision::full) {
    constexpr double kWorthSaying = 0.9;  // below what --dtype auto may have found a moment ago
    if (time >= kWorthSaying) return "";
    return fmt::format("f32; with --dtype bf16, a product of {} takes {:.2f} of the time", name,
                       time);
  }
  const std::string cost =
      time < 1 ? fmt::format("{} takes {:.2f} of the time that it takes in f32", name, time)
               : fmt::format("slower here, {} takes {:.2f} times as long as with --dtype f32", name,
                             time);
  const std::string by = gemm_description(Precision::bf16);
  return has_bf16_instructions()
             ? fmt::format("bf16 in the products of linear layers, by {}: {}", by, cost)
             : fmt::format(
                   "bf16 in the products of linear layers, but {}: rounded numbers are "
                   "multiplied as f32; {}",
                   by, cost);
}

std::vector<std::string> describe_compute(const std::optional<Product>& product) {
  // On one thread, so that the share does not depend on how many threads this product occupies.
  const int threads = num_threads();
  set_num_threads(1);
  const bool large = product && product->rows * product->columns * product->depth >= kUncutWork;
  const double rate = product_rate(some_rows_of(large ? *product : Product{256, 768, 768}));
  const double most = fma_rate();
  set_num_threads(threads);
  std::string line = fmt::format("{}; {:.0f}", gemm_description(), rate / 1e9);
  if (most > 0) line += fmt::format(" of at most {:.0f}", most / 1e9);
  line += fmt::format(" GFLOP/s a thread; {} thread{}", threads, threads == 1 ? "" : "s");
  if (rate >= most / 2) return {line};
  return {line,
          fmt::format("products reach {:.0f} % of what this processor can do. Either "
                      "other programs keep it busy, or the library has no kernels for it: unset "
                      "OPENBLAS_CORETYPE, or let TAPEGRAD_OPENBLAS name a newer libopenblas.so.0",
                      100 * rate / most)};
}

}  // namespace tapegrad
