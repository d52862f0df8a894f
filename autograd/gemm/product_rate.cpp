#include "tapegrad/autograd/gemm/product_rate.h"

#include <algorithm>

#include "tapegrad/autograd/gemm/int8_rows.h"
#include "tapegrad/autograd/gemm/timed_gemm.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/text/words.h"

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

// Every training waits for these: where products are slow, such as in an emulator, there are fewer.
constexpr std::size_t kTries = 7;
constexpr double kSeconds = 0.5;

}  // namespace

double product_rate(const Product& p, Precision precision) {
  TimedGemm product(shape_of(p));
  std::vector<double> seconds;
  for (double all = 0; seconds.size() < kTries && all < kSeconds; all += seconds.back()) {
    seconds.push_back(product.seconds(precision));
  }
  return shape_of(p).flops() / median(std::move(seconds));
}

Precision faster_precision(const Product& p, Bf16Instructions instructions) {
  if (instructions == Bf16Instructions::none) return Precision::full;
  // The shortest side decides how many multiplications each rounded number takes part in, forward
  // and backward. These are the smallest for which a whole step was found to be faster.
  const std::int64_t least = instructions == Bf16Instructions::amx ? 128 : 256;
  return std::min({p.rows, p.columns, p.depth}) >= least ? Precision::bf16 : Precision::full;
}

std::string describe_precision(Precision precision, const Product& product,
                               Bf16Instructions instructions) {
  const bool faster = faster_precision(product, instructions) == Precision::bf16;
  const std::string_view name =
      instructions == Bf16Instructions::amx ? "AMX" : "AVX-512's instructions for bf16";
  if (precision == Precision::full) {
    return faster ? fmt::format("f32; --dtype bf16 is faster here, by {}", name) : "f32";
  }
  if (precision == Precision::int8) {
    const std::string by = gemm_description(precision);
    const std::string multiplied =
        has_int8_instructions() ? "by " + by
                                : fmt::format("but {}: multiplied as f32, which is no faster", by);
    return fmt::format("int8 in the products of linear layers and of the head, {}", multiplied);
  }
  const std::string by = gemm_description(Precision::bf16);
  const std::string_view where = "bf16 in the products of linear layers";
  if (instructions == Bf16Instructions::none) {
    return fmt::format("{}, but {}: rounded numbers are multiplied as f32, which is no faster",
                       where, by);
  }
  return fmt::format("{}, by {} and {}{}", where, by, name,
                     faster ? "" : "; --dtype f32 is faster for products as small as this run's");
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
  line += fmt::format(" GFLOP/s a thread; {}", counted(threads, "thread"));
  if (rate >= most / 2) return {line};
  return {line,
          fmt::format("products reach {:.0f} % of what this processor can do. Either "
                      "other programs keep it busy, or the library has no kernels for it: unset "
                      "OPENBLAS_CORETYPE, or let TAPEGRAD_OPENBLAS name a newer libopenblas.so.0",
                      100 * rate / most)};
}

}  // namespace tapegrad
