// A head's products in 8 bits: what is rounded and how, and what its gradients are.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tapegrad/autograd/gemm/int8_head.h"
#include "tapegrad/autograd/gemm/internal/int8_products.h"
#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Numbers of a row or column that share a scale, rounded stochastically, in f64, by the definition.
void round_together(double* x, std::int64_t n, std::int64_t stride, std::uint32_t first,
                    std::uint32_t column) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i * stride]));
  if (most == 0) return;
  const float inverse = 127 / static_cast<float>(most);
  const std::uint32_t seed =
      int8::dither_seed(std::bit_cast<std::uint32_t>(static_cast<float>(most)) + column) + first;
  for (std::int64_t i = 0; i < n; ++i) {
    const float product = static_cast<float>(x[i * stride]) * inverse;
    const float added = int8::dither(seed, static_cast<std::uint32_t>(i));
    x[i * stride] = static_cast<double>(std::nearbyint(product + added)) * most / 127;
  }
}

Tensor rounded_rows(const Tensor& x, std::int64_t block) {
  Tensor y = x.to(DType::f64);
  const std::int64_t columns = x.dim(1);
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t first = 0; first < columns; first += block) {
      round_together(y.mutable_data<double>() + i * columns + first,
                     std::min(block, columns - first), 1, static_cast<std::uint32_t>(first), 0);
    }
  }
  return y;
}

Tensor rounded_columns(const Tensor& x) {
  Tensor y = x.to(DType::f64);
  const std::int64_t columns = x.dim(1);
  for (std::int64_t first = 0; first < x.dim(0); first += Int8Columns::kBlock) {
    for (std::int64_t j = 0; j < columns; ++j) {
      round_together(y.mutable_data<double>() + first * columns + j,
                     std::min(Int8Columns::kBlock, x.dim(0) - first), columns,
                     static_cast<std::uint32_t>(first % Int8Head::kRows),
                     static_cast<std::uint32_t>(j));
    }
  }
  return y;
}

// Numbers as Int8Rows or Int8Columns has them, with their scales.
Tensor dequantized(const Int8Rows& x) {
  Tensor y = Tensor::empty({x.rows(), x.columns()}, DType::f64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t row = i / x.columns(), part = i % x.columns() / x.block();
    y.mutable_data<double>()[i] =
        static_cast<double>(x.scales()[part * x.rows() + row]) * x.data()[i];
  }
  return y;
}
Tensor dequantized(const Int8Columns& x) {
  Tensor y = Tensor::empty({x.rows(), x.columns()}, DType::f64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t row = i / x.columns(), column = i % x.columns();
    y.mutable_data<double>()[i] =
        static_cast<double>(x.scales()[row / Int8Columns::kBlock * x.columns() + column]) *
        x.data()[row * x.ld() + column];
  }
  return y;
}

Tensor nearest_rows(const Tensor& x) {
  return dequantized(Int8Rows(x.data<float>(), x.dim(0), x.dim(1), x.dim(1)));
}
Tensor nearest_columns(const Tensor& x) {
  return dequantized(Int8Columns(x.data<float>(), x.dim(0), x.dim(1)));
}

// Gradients as a softmax has them: positive and of many sizes, and a large negative one in a row.
Tensor gradients_of_logits(Rng& rng, std::int64_t rows, std::int64_t classes) {
  const Tensor p = softmax(normal(rng, {rows, classes}, DType::f32) * 3.0);
  Tensor g = p.to(DType::f32);
  for (std::int64_t i = 0; i < rows; ++i)
    g.mutable_data<float>()[i * classes + i * 7 % classes] -= 1;
  return g * 0.01;
}

struct Case {
  Tensor x, w, g;
};

Case random_case(std::int64_t rows, std::int64_t classes, std::int64_t channels) {
  Rng rng(11);
  return {normal(rng, {rows, channels}, DType::f32), normal(rng, {classes, channels}, DType::f32),
          gradients_of_logits(rng, rows, classes)};
}

struct Made {
  Tensor dx, dw;
};

Made gradients_of(const Case& c) {
  Made made{Tensor::empty(c.x.shape()), Tensor::empty(c.w.shape())};
  const Int8Head head(c.x.data<float>(), c.w.data<float>(), c.w.dim(0), c.w.dim(1),
                      made.dx.mutable_data<float>(), made.dw.mutable_data<float>());
  const std::int64_t rows = c.x.dim(0);
  for (std::int64_t first = 0; first < rows; first += Int8Head::kRows) {
    const Tensor part = c.g.rows(first, std::min(rows, first + Int8Head::kRows)) * 1.0;
    Tensor overwritten = part;
    head.add_gradients(first, part.dim(0), overwritten.mutable_data<float>());
  }
  return made;
}

// |a − b| / |b|
double relative_error(const Tensor& a, const Tensor& b) {
  const Tensor d = a.to(DType::f64) - b.to(DType::f64), e = b.to(DType::f64);
  return std::sqrt(sum(d * d).item() / sum(e * e).item());
}

}  // namespace

TEST_CASE("a head's gradients in int8 are those of numbers that are rounded so", "[int8]") {
  for (const auto& [rows, classes, channels] :
       {std::array<std::int64_t, 3>{1, 2, 1}, {3, 2500, 40}, {257, 300, 17}, {600, 1025, 33}}) {
    INFO(rows << " rows, " << classes << " classes, " << channels << " channels");
    const Case c = random_case(rows, classes, channels);
    const Made made = gradients_of(c);
    // The largest of each row apart.
    Tensor rest = c.g * 1.0, peaks = Tensor::zeros(c.g.shape());
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const row = rest.mutable_data<float>() + i * classes;
      float* const at = std::max_element(
          row, row + classes, [](float a, float b) { return std::abs(a) < std::abs(b); });
      peaks.mutable_data<float>()[at - rest.data<float>()] = std::exchange(*at, 0.0F);
    }
    const Tensor p = peaks.to(DType::f64), x = c.x.to(DType::f64), w = c.w.to(DType::f64);
    const Int8Rows rounded_w(c.w.data<float>(), classes, channels, channels);
    const Tensor s = Tensor::from(
        std::vector<float>(rounded_w.scales(), rounded_w.scales() + classes), {classes});
    const Tensor dx = matmul(rounded_rows(rest * s, Int8Head::kBlock),
                             nearest_rows(c.w) / reshape(s.to(DType::f64), {-1, 1})) +
                      matmul(p, w);
    CHECK(relative_error(made.dx, dx) < 1e-6);
    const Tensor dw = matmul(rounded_columns(rest), nearest_columns(c.x), {.transpose_a = true}) +
                      matmul(p, x, {.transpose_a = true});
    CHECK(relative_error(made.dw, dw) < 1e-6);
  }
}

// The product of a largest magnitude with 127 over itself may be the float behind 127.
TEST_CASE("the largest gradient keeps its sign where it is rounded up", "[int8]") {
  for (const auto& [largest, at] : {std::pair(0x1.048ab2p+0F, 125), std::pair(0x1.0612a4p+0F, 79),
                                    std::pair(0x1.073ddep+0F, 20)}) {
    std::vector<float> x(1024, 0.0F);
    for (const float sign : {1.0F, -1.0F}) {
      x[static_cast<std::size_t>(at)] = sign * largest;
      const Int8Rows rows(x.data(), 1, 1024, 1024, {.block = 1024, .stochastic = true});
      CHECK(static_cast<float>(rows.data()[at]) == sign * 127);
    }
  }
  // At its most and least.
  const float top = std::nextafter(127.0F, 128.0F);
  for (std::uint32_t i = 0; i < 1 << 20; ++i) {
    const float added = int8::dither(7, i);
    REQUIRE((int8::to_int8(top + added) == 127 && int8::to_int8(added - top) == -127));
  }
}

// Most of them are below the half of a step of their scale: the nearest whole number is 0.
TEST_CASE("gradients too small for 8 bits keep their sum", "[int8]") {
  const std::int64_t n = 100'000;
  Tensor g = Tensor::full({1, n}, 0.002);
  for (std::int64_t i = 0; i < n; i += 1000) g.mutable_data<float>()[i] = 1;
  const double expected = sum(g.to(DType::f64)).item();
  const Int8Rows random(g.data<float>(), 1, n, n, {.block = 1024, .stochastic = true});
  CHECK(sum(dequantized(random)).item() ==
        Approx(expected).epsilon(0.03));  // 5 standard deviations
  CHECK(sum(nearest_rows(g)).item() < 0.4 * expected);
  const Int8Columns columns(g.data<float>(), n, 1, true);
  CHECK(sum(dequantized(columns)).item() == Approx(expected).epsilon(0.03));
}

TEST_CASE("a loss in int8 has nearly the gradients that it has in f32", "[int8]") {
  Rng rng(3);
  const std::int64_t rows = 700, classes = 3000, channels = 64;
  const Tensor x = normal(rng, {rows, channels}, DType::f32),
               w = normal(rng, {classes, channels}, DType::f32) * 0.3;
  Tensor targets = Tensor::empty({rows}, DType::i32);
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.mutable_data<std::int32_t>()[i] =
        i % 10 == 0 ? -100 : static_cast<std::int32_t>(i * 37 % classes);
  }
  const auto gradients = [&](Precision precision, int threads) {
    const Threads set(threads);
    Tape tape;
    tape.watch(x), tape.watch(w);
    const Tensor loss = linear_cross_entropy(x, {w, precision}, targets);
    Grads all = tape.gradient(loss, {x, w});
    all.push_back(loss);
    return all;
  };
  const Grads full = gradients(Precision::full, 2), rounded = gradients(Precision::int8, 1);
  CHECK(relative_error(rounded[0], full[0]) < 0.02);
  CHECK(relative_error(rounded[1], full[1]) < 0.02);
  CHECK(rounded[2].item() == Approx(full[2].item()).epsilon(0.002));
  for (const int threads : {2, 3}) {
    const Grads others = gradients(Precision::int8, threads);
    for (std::size_t i = 0; i < others.size(); ++i) CHECK(same_bits(others[i], rounded[i]));
  }
}

TEST_CASE("NaN in a head's input reaches loss and gradients in int8", "[int8]") {
  Tensor x = Tensor::full({3, 8}, 1.0);
  const Tensor w = Tensor::full({20, 8}, 0.1);
  x.mutable_data<float>()[8] = std::numeric_limits<float>::quiet_NaN();
  Tape tape;
  tape.watch(x), tape.watch(w);
  const Tensor loss = linear_cross_entropy(x, {w, Precision::int8},
                                           Tensor::from(std::vector<std::int32_t>{1, 2, 3}, {3}));
  const Grads grads = tape.gradient(loss, {x, w});
  CHECK(std::isnan(loss.item()));
  CHECK(std::isnan(grads[0].at(8)));
  for (std::int64_t i = 0; i < w.numel(); ++i) CHECK(std::isnan(grads[1].at(i)));
}

TEST_CASE("a head in int8 without rows has a gradient of zeros", "[int8]") {
  const Tensor x = Tensor::empty({0, 4}), w = Tensor::full({5, 4}, 1.0);
  Tape tape;
  tape.watch(w);
  const Tensor loss = linear_cross_entropy(x, {w, Precision::int8}, Tensor::empty({0}, DType::i32));
  CHECK(same_bits(tape.gradient(loss, {w})[0], Tensor::zeros({5, 4})));
}
