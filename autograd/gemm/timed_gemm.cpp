#include "tapegrad/autograd/gemm/timed_gemm.h"

#include <chrono>

#include "tapegrad/autograd/gemm/int8_columns.h"
#include "tapegrad/autograd/gemm/int8_rows.h"
#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/base/random.h"

namespace tapegrad {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Enough different numbers for a product; drawing all of them would take longer than the product.
std::vector<float> numbers(std::int64_t n) {
  static const std::vector<float> some = [] {
    std::vector<float> x(1 << 16);
    Rng rng(1);
    rng.normal(std::span(x), 0, 1);
    return x;
  }();
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = some[i % some.size()];
  return x;
}

std::vector<bf16> rounded(const std::vector<float>& x) {
  std::vector<bf16> y;
  y.reserve(x.size());
  for (const float v : x) y.push_back(to_bf16(v));
  return y;
}

template <class T>
std::optional<double> seconds_of(const Gemm<T>& g, const Multiplier<T>* by, int threads) {
  if (by == nullptr) return std::nullopt;
  double taken = 0;
  with_library_threads(threads, [&] {
    const auto begin = Clock::now();
    by->multiply(g);
    taken = since(begin);
  });
  return taken;
}

}  // namespace

TimedGemm::TimedGemm(const GemmShape& shape)
    : shape_(shape),
      a_(numbers(shape.m * shape.k)),
      b_(numbers(shape.k * shape.n)),
      c_(static_cast<std::size_t>(shape.m * shape.n)) {
  if (shape.precision != Precision::bf16) return;
  low_a_ = rounded(a_);
  low_b_ = rounded(b_);
}

template <class T>
Gemm<T> TimedGemm::product(const std::vector<T>& a, const std::vector<T>& b) {
  const GemmShape& s = shape_;
  return {.ta = s.ta,
          .tb = s.tb,
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .a = a.data(),
          .lda = s.ta ? s.m : s.k,
          .b = b.data(),
          .ldb = s.tb ? s.k : s.n,
          .c = c_.data(),
          .ldc = s.n};
}

// What the shape is in a linear layer: dyᵀ·x, x·Wᵀ or dy·W.
double TimedGemm::seconds_in_int8() {
  const auto& [ta, tb, m, n, k, precision] = shape_;
  const auto begin = Clock::now();
  if (ta) {
    multiply_columns({a_.data(), k, m}, {b_.data(), k, n}, c_.data());
    return since(begin);
  }
  const Int8Rows w(b_.data(), tb ? n : k, tb ? k : n, tb ? k : n);
  tb ? multiply(Int8Rows(a_.data(), m, k, k), w, c_.data(), n, false)
     : multiply_back(a_.data(), m, w, c_.data());
  return since(begin);
}

double TimedGemm::seconds(Precision precision) {
  if (precision == Precision::int8) return seconds_in_int8();
  const auto begin = Clock::now();
  if (precision == shape_.precision && precision == Precision::bf16) {
    gemm(product(low_a_, low_b_));
  } else {
    gemm(product(a_, b_), precision);
  }
  return since(begin);
}

std::optional<double> TimedGemm::seconds(GemmLibrary library, int threads) {
  const bool open = library == GemmLibrary::openblas;
  if (shape_.precision == Precision::int8) return std::nullopt;  // pieces alone, which we scale
  if (shape_.precision == Precision::bf16) {
    return seconds_of(product(low_a_, low_b_), open ? nullptr : onednn<bf16>(), threads);
  }
  return seconds_of(product(a_, b_), open ? openblas<float>() : onednn<float>(), threads);
}

}  // namespace tapegrad
