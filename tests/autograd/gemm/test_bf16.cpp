// Products in bf16: what is rounded, and what comes out.

#include <dlfcn.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor rounded(const Tensor& t) {
  Tensor r = t.clone();
  float* x = r.mutable_data<float>();
  for (std::int64_t i = 0; i < r.numel(); ++i) x[i] = to_float(to_bf16(x[i]));
  return r;
}

std::vector<bf16> to_bf16(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) y.push_back(tapegrad::to_bf16(v));
  return y;
}

struct Sizes {
  bool ta, tb;
  std::int64_t m, n, k;
  float beta;
  bool apart = true;  // stored rows lie further apart than they are long

  std::int64_t lda() const { return (ta ? m : k) + (apart ? 3 : 0); }
  std::int64_t ldb() const { return (tb ? k : n) + (apart ? 1 : 0); }
  std::int64_t ldc() const { return n + (apart ? 2 : 0); }

  template <class T>
  Gemm<T> gemm(const T* a, const T* b, float* c) const {
    return {.ta = ta,
            .tb = tb,
            .m = m,
            .n = n,
            .k = k,
            .a = a,
            .lda = lda(),
            .b = b,
            .ldb = ldb(),
            .c = c,
            .ldc = ldc(),
            .beta = beta};
  }
};

std::vector<float> numbers(Rng& rng, std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  rng.normal(std::span(x), 0, 1);
  return x;
}

// How far the product of a and b is from what `multiply` makes of them, in units of √k; the
// columns that lie between the rows of C must be left alone, and C be ignored if beta is 0.
template <class F>
double error_of(const Sizes& s, bool rounds, const F& multiply) {
  Rng rng(4);
  std::vector<float> a = numbers(rng, (s.ta ? s.k : s.m) * s.lda());
  std::vector<float> b = numbers(rng, (s.tb ? s.n : s.k) * s.ldb());
  std::vector<float> c(static_cast<std::size_t>(s.m * s.ldc()),
                       s.beta == 0 ? std::numeric_limits<float>::quiet_NaN() : 3);
  const float untouched = c.empty() ? 0 : c.back();
  multiply(a, b, c);
  if (rounds) {
    for (float& x : a) x = to_float(tapegrad::to_bf16(x));
    for (float& x : b) x = to_float(tapegrad::to_bf16(x));
  }
  double most = 0;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = s.beta == 0 ? 0 : 3;
      for (std::int64_t l = 0; l < s.k; ++l) {
        sum += static_cast<double>(
                   a[static_cast<std::size_t>(s.ta ? l * s.lda() + i : i * s.lda() + l)]) *
               static_cast<double>(
                   b[static_cast<std::size_t>(s.tb ? j * s.ldb() + l : l * s.ldb() + j)]);
      }
      const double error =
          std::abs(sum - static_cast<double>(c[static_cast<std::size_t>(i * s.ldc() + j)]));
      most = error <= most ? most : error;  // keeps a NaN
    }
    for (std::int64_t j = s.n; j < s.ldc(); ++j) {
      const float x = c[static_cast<std::size_t>(i * s.ldc() + j)];
      if (!(x == untouched || (std::isnan(x) && std::isnan(untouched)))) most = kInfinity;
    }
  }
  return most / std::sqrt(static_cast<double>(s.k) + 1);
}

template <class F>
void check_products(bool rounds, const F& multiply) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                    {1, 70, 300},
                                    {70, 1, 30},
                                    {60, 50, 1},
                                    {5, 3, 7},
                                    {64, 48, 33},
                                    {200, 130, 210},
                                    {3, 2, 0}}) {
        for (const auto& [beta, apart] : {std::pair{0.0F, true}, {1.0F, true}, {0.0F, false}}) {
          const Sizes s{ta, tb, m, n, k, beta, apart};
          INFO(ta << tb << " " << m << "×" << n << "×" << k << ", beta " << beta << apart);
          CHECK(error_of(s, rounds, [&](const auto& a, const auto& b, auto& c) {
                  multiply(s, a, b, c);
                }) < 1e-5);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("rounding to bf16 takes the nearest, and the even one of two", "[bf16]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 x{static_cast<std::uint16_t>(bits)};
    const float value = to_float(x);
    if (std::isnan(value)) {
      CHECK(std::isnan(to_float(tapegrad::to_bf16(value))));
      continue;
    }
    REQUIRE(tapegrad::to_bf16(value).bits == bits);
    if ((bits & 0x7f80) == 0x7f80 || (bits & 0x7fff) == 0) continue;  // ∞ and 0
    // The halfway point to the next one, and the floats beside it.
    const auto halfway = std::bit_cast<float>(bits << 16 | 0x8000U);
    REQUIRE(tapegrad::to_bf16(halfway).bits == bits + (bits & 1));
    REQUIRE(tapegrad::to_bf16(std::nextafter(halfway, 0.0F)).bits == bits);
    const float away = std::nextafter(halfway, halfway > 0 ? kInfinity : -kInfinity);
    REQUIRE(tapegrad::to_bf16(away).bits == bits + 1);
  }
  CHECK(to_float(tapegrad::to_bf16(std::numeric_limits<float>::max())) == kInfinity);
  const auto barely_nan = std::bit_cast<float>(0x7f800001U);
  CHECK(std::isnan(to_float(tapegrad::to_bf16(barely_nan))));
}

TEST_CASE("gemm in bf16 is the product of the rounded operands", "[bf16]") {
  check_products(true, [](const Sizes& s, const auto& a, const auto& b, auto& c) {
    gemm(s.gemm(a.data(), b.data(), c.data()), Precision::bf16);
  });
}

// Where there are no bf16 instructions, oneDNN is tried with floats, which go the same way.
TEST_CASE("oneDNN multiplies matrices however they lie", "[bf16]") {
  const Multiplier<float>* by = onednn<float>();
  if (by == nullptr) return;
  check_products(false, [&](const Sizes& s, const auto& a, const auto& b, auto& c) {
    by->multiply(s.gemm(a.data(), b.data(), c.data()));
  });
  if (!has_bf16_instructions()) return;
  check_products(true, [](const Sizes& s, const auto& a, const auto& b, auto& c) {
    const std::vector<bf16> low_a = to_bf16(a), low_b = to_bf16(b);
    gemm(s.gemm(low_a.data(), low_b.data(), c.data()));
  });
}

TEST_CASE("oneDNN serves several threads, with more shapes than are kept", "[bf16]") {
  const Multiplier<float>* by = onednn<float>();
  if (by == nullptr) return;
  const std::vector<float> ones(64 * 64, 1.0F);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::vector<float> c(64 * 64);
      for (std::int64_t i = 0; i < 700; ++i) {
        const std::int64_t m = 1 + i % 31, n = 1 + i % 29, k = 1 + i % 23;
        by->multiply(Gemm<float>{.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = ones.data(),
                                 .lda = k,
                                 .b = ones.data(),
                                 .ldb = n,
                                 .c = c.data(),
                                 .ldc = n});
        for (std::int64_t e = 0; e < m * n; ++e) {
          wrong += c[static_cast<std::size_t>(e)] != static_cast<float>(k);
        }
      }
    });
  }
  threads.clear();
  CHECK(wrong == 0);
}

// Its own threads would add up in another order, and fight with ours for the cores.
TEST_CASE("oneDNN runs on the calling thread alone", "[bf16]") {
  const Multiplier<float>* by = onednn<float>();
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  if (by == nullptr || max_threads == nullptr) return;
  int threads = 0;
  std::jthread([&] {
    const float one = 1;
    float c = 0;
    by->multiply(
        {.m = 1, .n = 1, .k = 1, .a = &one, .lda = 1, .b = &one, .ldb = 1, .c = &c, .ldc = 1});
    threads = max_threads();
  }).join();
  CHECK(threads == 1);
}

TEST_CASE("operands must fit the product", "[bf16]") {
  const std::vector<float> x(12, 1.0F);
  std::vector<float> c(12);
  for (const Precision precision : {Precision::full, Precision::bf16}) {
    const Operand<float> a(x.data(), 3, 4, 4, precision), b(x.data(), 4, 2, 2, precision);
    gemm(Gemm<float>{.m = 3, .n = 2, .k = 4, .c = c.data(), .ldc = 2}, a, b);
    CHECK(c[5] == 4);
    CHECK_THROWS_WITH(
        gemm(Gemm<float>{.ta = true, .m = 3, .n = 2, .k = 4, .c = c.data(), .ldc = 2}, a, b),
        "[gemm] operands of 3×4 and 4×2 do not make a product of 3×2×4");
  }
  const Operand<float> a(x.data(), 3, 4, 4, Precision::full), b(x.data(), 4, 3, 3, Precision::bf16);
  CHECK_THROWS_AS(gemm(Gemm<float>{.m = 3, .n = 3, .k = 4, .c = c.data(), .ldc = 3}, a, b), Error);
}

TEST_CASE("products in bf16 do not depend on the number of threads", "[bf16]") {
  Rng rng(6);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{401, 130, 200}, {96, 3072, 768}}) {
    const Tensor x = normal(rng, {m, k}, DType::f32), w = normal(rng, {n, k}, DType::f32);
    const Tensor dy = normal(rng, {m, n}, DType::f32);
    const auto products = [&](int threads) {
      const Threads set(threads);
      Tape tape;
      tape.watch(x);
      tape.watch(w);
      const Tensor y = linear(x, {w, Precision::bf16}, dy.rows(0, 1).view({-1}));
      Grads all = tape.gradient(y, {x, w}, {.seeds = {dy}});
      all.push_back(y);
      return all;
    };
    const Grads one = products(1);
    for (const int threads : {2, 3, 4}) {
      const Grads several = products(threads);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(several[i], one[i]));
    }
  }
}

TEST_CASE("linear and matmul in bf16 round their operands, forward and backward", "[bf16]") {
  Rng rng(7);
  const Tensor x = normal(rng, {2, 30, 40}, DType::f32), w = normal(rng, {50, 40}, DType::f32);
  const Tensor b = normal(rng, {50}, DType::f32), dy = normal(rng, {2, 30, 50}, DType::f32);
  const auto near = [](const Tensor& a, const Tensor& c) { return difference(a, c, 1e-5, 1e-4); };
  Tape tape;
  for (const Tensor& t : {x, w, b}) tape.watch(t);
  const Tensor y = linear(x, {w, Precision::bf16}, b);
  const Tensor y2 = matmul(x, w, {.transpose_b = true, .precision = Precision::bf16});
  const Grads grads = tape.gradient(y, {x, w, b}, {.seeds = {dy}, .keep = true});
  const Grads grads2 = tape.gradient(y2, {x, w}, {.seeds = {dy}});
  const Tensor xr = rounded(x), wr = rounded(w), dyr = rounded(dy);
  const TapePause pause;
  CHECK(near(y, linear(xr, wr, b)) == "");
  CHECK(near(y2, linear(xr, wr)) == "");
  const Tensor dx = matmul(dyr, wr);
  const Tensor dw = matmul(reshape(dyr, {60, 50}), reshape(xr, {60, 40}), {.transpose_a = true});
  CHECK(near(grads[0], dx) == "");
  CHECK(near(grads[1], dw) == "");
  CHECK(near(grads[2], sum(dy, {0, 1})) == "");  // no product: not rounded
  CHECK(near(grads2[0], dx) == "");
  CHECK(near(grads2[1], dw) == "");
  CHECK(difference(y, linear(x, w, b), 1e-5, 1e-4) != "");
  CHECK_THROWS_WITH(linear(x.to(DType::f64), {w.to(DType::f64), Precision::bf16}),
                    "[linear] products of f64 cannot be rounded to bf16");
}

TEST_CASE("linear_cross_entropy in bf16 is cross_entropy of a head in bf16", "[bf16]") {
  Rng rng(9);
  const std::int64_t rows = kLossChunk + 20, classes = 33;
  const Tensor x = normal(rng, {rows, 24}, DType::f32), w = normal(rng, {classes, 24}, DType::f32);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(static_cast<std::int32_t>(rng.randint(classes)));
  }
  Tape tape;
  tape.watch(x);
  tape.watch(w);
  const Tensor fused = linear_cross_entropy(x, {w, Precision::bf16}, ids(targets));
  const Tensor composed = cross_entropy(linear(x, {w, Precision::bf16}), ids(targets));
  CHECK(fused.item() == Approx(composed.item()).epsilon(1e-6));
  const Grads a = tape.gradient(fused, {x, w}, {.keep = true});
  const Grads b = tape.gradient(composed, {x, w});
  // Both round dlogits, which differ in their last bits: some are rounded the other way.
  for (std::size_t i = 0; i < 2; ++i) CHECK(difference(a[i], b[i], 0.02, 1e-5) == "");
  CHECK(fused.item() != linear_cross_entropy(x, w, ids(targets)).item());
}

TEST_CASE("processor and shape alone decide which precision is faster", "[bf16]") {
  using enum Bf16Instructions;
  const Product small{64, 64, 16}, char_cpu{768, 512, 128}, gpt2{256, 3072, 768};
  const auto faster = [](const Product& p, Bf16Instructions has) {
    return faster_precision(p, has) == Precision::bf16;
  };
  for (const Product& p : {small, char_cpu, gpt2}) CHECK_FALSE(faster(p, none));
  // What docs/performance.md has measured.
  CHECK(faster(char_cpu, amx));
  CHECK(faster(gpt2, amx));
  CHECK_FALSE(faster(char_cpu, avx512));
  CHECK(faster(gpt2, avx512));
  for (const Bf16Instructions has : {avx512, amx}) CHECK_FALSE(faster(small, has));

  CHECK(describe_precision(Precision::full, small, amx) == "f32");
  CHECK(describe_precision(Precision::full, gpt2, none) == "f32");
  CHECK_THAT(describe_precision(Precision::full, gpt2, amx),
             ContainsSubstring("--dtype bf16 is faster here"));
  CHECK_THAT(describe_precision(Precision::bf16, gpt2, amx),
             ContainsSubstring("and AMX") && !ContainsSubstring("f32"));
  CHECK_THAT(describe_precision(Precision::bf16, char_cpu, avx512),
             ContainsSubstring("--dtype f32 is faster"));
  CHECK_THAT(describe_precision(Precision::bf16, gpt2, none), ContainsSubstring("no faster"));
}
