// Products of linear layers in 8 bits: what is rounded, what comes out, and their gradients.

#include <array>
#include <limits>

#include "tapegrad/autograd/gemm/int8_columns.h"
#include "tapegrad/autograd/gemm/int8_rows.h"
#include "tapegrad/autograd/gemm/internal/library.h"
#include "tapegrad/autograd/gemm/internal/product_trial.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// In floats, as the definition has it.
double whole_number(double x, double most) {
  const float inverse = 127 / static_cast<float>(most), product = static_cast<float>(x) * inverse;
  return static_cast<double>(std::nearbyint(product));
}

// (rows, columns) rounded to 8 bits, in f64, by the definition.
Tensor rounded_to_int8(const Tensor& x) {
  Tensor y = x.to(DType::f64);
  double* v = y.mutable_data<double>();
  const std::int64_t columns = x.dim(-1);
  for (std::int64_t i = 0; i < x.numel() / columns; ++i, v += columns) {
    double most = 0;
    for (std::int64_t j = 0; j < columns; ++j) most = std::max(most, std::abs(v[j]));
    if (most == 0) continue;
    for (std::int64_t j = 0; j < columns; ++j) v[j] = whole_number(v[j], most) * most / 127;
  }
  return y;
}

enum class Sums {
  exact,
  saturated,  // of pairs in 16 bits, with A shifted to what is not negative
  floats,
};

template <Sums S>
void multiply_by_loops(const Gemm<std::int8_t>& g) {
  const auto b = [&](std::int64_t l, std::int64_t j) {
    return l < g.k ? g.b[g.tb ? j * g.ldb + l : l * g.ldb + j] : 0;
  };
  const auto sum = [&](const std::int8_t* a, std::int64_t j) {
    std::int32_t whole = 0;
    float in_floats = 0;
    for (std::int64_t l = 0; l < g.k; l += 2) {
      const std::int32_t next = l + 1 < g.k ? a[l + 1] : 0, b0 = b(l, j), b1 = b(l + 1, j);
      whole +=
          S == Sums::saturated
              ? std::clamp((a[l] + 128) * b0 + (next + 128) * b1, -32768, 32767) - 128 * (b0 + b1)
              : a[l] * b0 + next * b1;
      in_floats += static_cast<float>(a[l] * b0 + next * b1);
    }
    return S == Sums::floats ? static_cast<std::int32_t>(in_floats) : whole;
  };
  std::vector<std::int8_t> row(static_cast<std::size_t>(g.k));
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t l = 0; l < g.k; ++l) {
      row[static_cast<std::size_t>(l)] = g.a[g.ta ? l * g.lda + i : i * g.lda + l];
    }
    for (std::int64_t j = 0; j < g.n; ++j) g.c[i * g.ldc + j] = sum(row.data(), j);
  }
}

// (rows, columns) as it is for sums along its rows: in blocks, by their columns.
Tensor rounded_by_columns(const Tensor& x) {
  std::vector<Tensor> blocks;
  for (std::int64_t row = 0; row < x.dim(0); row += Int8Columns::kBlock) {
    const Tensor block = x.rows(row, std::min(row + Int8Columns::kBlock, x.dim(0)));
    blocks.push_back(transpose(rounded_to_int8(transpose(block, 0, 1)), 0, 1));
  }
  return concat(blocks, 0);
}

// dyᵀ·x with both rounded by their columns: the gradient of a weight.
Tensor multiplied_columns(const Tensor& dy, const Tensor& x) {
  return matmul(rounded_by_columns(dy), rounded_by_columns(x), {.transpose_a = true});
}

// The scales of the rows of a weight, in f64.
Tensor scales_of(const Tensor& w) {
  const Int8Rows rows(w.data<float>(), w.dim(0), w.dim(1), w.dim(1));
  return Tensor::from(std::vector<float>(rows.scales(), rows.scales() + w.dim(0)), {w.dim(0)})
      .to(DType::f64);
}

// dy·W with dy rounded as backward does: times the scales of W's rows.
Tensor multiplied_back(const Tensor& dy, const Tensor& w) {
  const Tensor s = scales_of(w);
  return matmul(rounded_to_int8((dy.to(DType::f64) * s).to(DType::f32)),
                rounded_to_int8(w) / reshape(s, {-1, 1}));
}

}  // namespace

TEST_CASE("a row is rounded by its largest magnitude", "[int8]") {
  const std::vector<float> x = {1, -2, 0.5F, 127, 0,     0, 0,    0,   1e-40F, 0,
                                0, 0,  3,    -3,  1e-9F, 1, kNan, 1.0, 2,      kInfinite};
  const Int8Rows rows(x.data(), 5, 4, 4);
  const std::vector<std::int8_t> first(rows.data(), rows.data() + 4),
      fourth(rows.data() + 12, rows.data() + 16);
  CHECK(first == std::vector<std::int8_t>{1, -2, 0, 127});  // 0.5: a tie, to the even one
  CHECK(fourth == std::vector<std::int8_t>{127, -127, 0, 42});
  CHECK(rows.scales()[0] == 1);
  CHECK(rows.scales()[1] == 0);
  CHECK(rows.scales()[2] == 0);
  CHECK(rows.scales()[3] == 3.0F / 127);
  CHECK(std::isnan(rows.scales()[4]));
  const float largest = std::numeric_limits<float>::max();
  const std::array<float, 2> limits = {largest, 1};
  const Int8Rows huge(limits.data(), 1, 2, 2);
  CHECK(huge.data()[0] == 127);
  CHECK(std::isfinite(huge.scales()[0]));
  const std::array<float, 2> least = {0x1p-119F, -0x1p-119F}, factors = {1, 0.5F};
  const Int8Rows small(least.data(), 1, 2, 2, {.factors = factors.data()});
  CHECK(small.data()[0] == 127);
  CHECK(small.data()[1] == -64);  // -63.5
}

TEST_CASE("NaN and infinity make rows of NaN", "[int8]") {
  for (const float broken : {kNan, kInfinite, -kInfinite}) {
    Tensor x = Tensor::full({3, 8}, 1.0), w = Tensor::full({4, 8}, 1.0);
    x.mutable_data<float>()[8 + 2] = broken;
    const Tensor y = linear(x, {w, Precision::int8});
    for (std::int64_t j = 0; j < 4; ++j) {
      CHECK(y.at(j) == 8);
      CHECK(std::isnan(y.at(4 + j)));
    }
    w.mutable_data<float>()[3] = broken;
    CHECK(std::isnan(linear(x, {w, Precision::int8}).at(0)));
  }
}

TEST_CASE("products of 8 bits are exact, by instructions and by floats", "[int8]") {
  CHECK(trial<std::int8_t>({.multiply = multiply_by_floats}) == "");
  if (const Multiplier<std::int8_t>* by = onednn<std::int8_t>()) CHECK(trial(*by) == "");
  // Kernels that add up pairs in 16 bits, or all in floats, are found.
  CHECK(trial<std::int8_t>({.multiply = multiply_by_loops<Sums::exact>}) == "");
  CHECK(trial<std::int8_t>({.multiply = multiply_by_loops<Sums::saturated>}) != "");
  CHECK(trial<std::int8_t>({.multiply = multiply_by_loops<Sums::floats>}) != "");
}

TEST_CASE("linear in int8 is the product of the rounded operands", "[int8]") {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {1, 70, 300},
                                {70, 1, 30},
                                {60, 50, 1},
                                {300, 600, 65},
                                {17, 33, 2000},
                                {0, 3, 4}}) {
    INFO(m << "×" << n << "×" << k);
    Rng rng(3);
    const Tensor x = normal(rng, {m, k}, DType::f32), w = normal(rng, {n, k}, DType::f32);
    const Tensor b = normal(rng, {n}, DType::f32);
    const Tensor expected = matmul(rounded_to_int8(x), rounded_to_int8(w), {.transpose_b = true});
    const double size = 1e-6 * std::sqrt(static_cast<double>(k));
    CHECK(difference(linear(x, {w, Precision::int8}).to(DType::f64), expected, 1e-6, size) == "");
    CHECK(difference(linear(x, {w, Precision::int8}, b).to(DType::f64), expected + b.to(DType::f64),
                     1e-6, size) == "");
  }
  Rng rng(3);
  const Tensor x = normal(rng, {4, 8}, DType::f64), w = normal(rng, {3, 8}, DType::f64);
  CHECK_THROWS_WITH(linear(x, {w, Precision::int8}),
                    "[linear] products of f64 cannot be rounded to int8");
  CHECK_THROWS_WITH(matmul(x.to(DType::f32), w.to(DType::f32),
                           {.transpose_b = true, .precision = Precision::int8}),
                    "[matmul] products in int8 are those of linear layers alone");
}

// Of sizes that are cut between rows and between columns, and sums of many terms.
TEST_CASE("the gradient of x in int8 is right in each tile", "[int8]") {
  Rng rng(5);
  const Tensor dy = normal(rng, {300, 65}, DType::f32), w = normal(rng, {65, 1100}, DType::f32);
  Tensor dx = Tensor::empty({300, 1100});
  multiply_back(dy.data<float>(), 300, Int8Rows(w.data<float>(), 65, 1100, 1100),
                dx.mutable_data<float>());
  CHECK(difference(dx.to(DType::f64), multiplied_back(dy, w), 1e-6, 1e-5) == "");
  const std::vector<float> long_row(133'145, 1.0F);
  const Int8Rows rows(long_row.data(), 1, std::ssize(long_row), std::ssize(long_row));
  float y = 0;
  CHECK_THROWS_WITH(multiply(rows, rows, &y, 1, false),
                    "[int8] a sum of 133145 products of 8 bits is too long for 32 bits");
}

// The derivative of the rounded product as if rounding were the identity (straight-through), with
// dy rounded, too.
TEST_CASE("gradients in int8 are those of the straight-through product", "[int8]") {
  Rng rng(7);
  const Tensor x = normal(rng, {2, 30, 40}, DType::f32), w = normal(rng, {50, 40}, DType::f32);
  const Tensor b = normal(rng, {50}, DType::f32), dy = normal(rng, {2, 30, 50}, DType::f32);
  Tape outer;
  for (const Tensor& t : {w, dy}) outer.watch(t);
  Tape tape;
  for (const Tensor& t : {x, w, b}) tape.watch(t);
  const Tensor y = linear(x, {w, Precision::int8}, b);
  const Grads grads = tape.gradient(y, {x, w, b}, {.seeds = {dy}});
  const Tensor g = normal(rng, {2, 30, 40}, DType::f32);
  const Grads second = outer.gradient(grads[0], {dy, w}, {.seeds = {g}});
  const TapePause pause;
  const Tensor x_rows = reshape(x, {60, 40}), dy_rows = reshape(dy, {60, 50}),
               g_rows = reshape(g, {60, 40});
  const auto near = [](const Tensor& a, const Tensor& c) {
    return difference(a.to(DType::f64), reshape(c, a.shape()).to(DType::f64), 1e-5, 1e-4);
  };
  CHECK(near(grads[0], multiplied_back(dy_rows, w)) == "");
  CHECK(near(grads[1], multiplied_columns(dy_rows, x_rows)) == "");
  CHECK(near(grads[2], sum(dy, {0, 1})) == "");
  CHECK(near(second[0],
             matmul(rounded_to_int8(g_rows), rounded_to_int8(w), {.transpose_b = true})) == "");
  CHECK(near(second[1], multiplied_columns(dy_rows, g_rows)) == "");
  // What is rounded is near what is not.
  CHECK(difference(grads[0], matmul(dy, w), 0.05, 0.2) == "");
  CHECK(difference(grads[0], matmul(dy, w), 1e-5, 1e-4) != "");
  const Tensor dw = matmul(dy_rows, x_rows, {.transpose_a = true});
  CHECK(difference(grads[1], dw, 0.05, 0.2) == "");
  CHECK(difference(grads[1], dw, 1e-5, 1e-4) != "");
}

// The gradients of dy and x in a product that is a gradient of a weight itself.
TEST_CASE("second derivatives in int8 reach what made the gradient of a weight", "[int8]") {
  Rng rng(9);
  const Tensor x = normal(rng, {30, 40}, DType::f32), w = normal(rng, {50, 40}, DType::f32);
  const Tensor dy = normal(rng, {30, 50}, DType::f32), g = normal(rng, {50, 40}, DType::f32);
  Tape outer;
  for (const Tensor& t : {x, dy}) outer.watch(t);
  Tape tape;
  tape.watch(w);
  const Tensor dw = tape.gradient(linear(x, {w, Precision::int8}), {w}, {.seeds = {dy}})[0];
  const Grads second = outer.gradient(dw, {x, dy}, {.seeds = {g}});
  const TapePause pause;
  const auto near = [](const Tensor& a, const Tensor& b) {
    return difference(a.to(DType::f64), b.to(DType::f64), 1e-5, 1e-4);
  };
  CHECK(near(second[0], multiplied_back(dy, g)) == "");
  CHECK(near(second[1], matmul(rounded_to_int8(x), rounded_to_int8(g), {.transpose_b = true})) ==
        "");
}

TEST_CASE("the gradient of a weight in int8 is right in each block and tile", "[int8]") {
  for (const auto& [rows, m, n] :
       {std::array<std::int64_t, 3>{1, 3, 5}, {256, 300, 7}, {257, 5, 600}, {700, 290, 530}}) {
    INFO(rows << "×" << m << "×" << n);
    Rng rng(5);
    const Tensor a = normal(rng, {rows, m}, DType::f32), b = normal(rng, {rows, n}, DType::f32);
    Tensor c = Tensor::empty({m, n});
    multiply_columns({a.data<float>(), rows, m}, {b.data<float>(), rows, n},
                     c.mutable_data<float>());
    CHECK(difference(c.to(DType::f64), multiplied_columns(a, b), 1e-5, 1e-4) == "");
  }
  const Tensor none = Tensor::empty({0, 4});
  Tensor c = Tensor::full({4, 4}, 1.0);
  const Int8Columns empty(none.data<float>(), 0, 4);
  multiply_columns(empty, empty, c.mutable_data<float>());
  CHECK(same_bits(c, Tensor::zeros({4, 4})));
  CHECK_THROWS_WITH(
      multiply_columns({c.data<float>(), 4, 4}, {c.data<float>(), 2, 8}, c.mutable_data<float>()),
      "[int8] columns of 4 and 2 numbers make no product");
}

TEST_CASE("a column is rounded by its largest magnitude in a block", "[int8]") {
  Tensor x = Tensor::zeros({257, 5});
  const auto set = [&](std::int64_t i, std::int64_t j, float v) {
    x.mutable_data<float>()[i * 5 + j] = v;
  };
  set(0, 0, 3), set(255, 0, 1.5F), set(256, 0, 0.25F);
  set(7, 1, kNan), set(8, 2, kInfinite), set(256, 2, -2), set(9, 3, 1e-40F);
  const Int8Columns columns(x.data<float>(), 257, 5);
  CHECK(columns.data()[0] == 127);
  CHECK(columns.data()[255 * columns.ld()] == 64);  // 63.5: a tie, to the even one
  CHECK(columns.data()[256 * columns.ld()] == 127);
  CHECK(columns.scales()[0] == 3.0F / 127);
  CHECK(columns.scales()[5] == 0.25F / 127);
  CHECK(std::isnan(columns.scales()[1]));
  CHECK(columns.scales()[6] == 0);
  CHECK(std::isnan(columns.scales()[2]));
  CHECK(columns.data()[256 * columns.ld() + 2] == -127);
  CHECK(columns.scales()[3] == 0);
  CHECK(columns.scales()[4] == 0);
  // What is infinite makes its row and column of a gradient NaN, and nothing else.
  Tensor c = Tensor::empty({5, 5});
  multiply_columns(columns, columns, c.mutable_data<float>());
  for (std::int64_t i = 0; i < 25; ++i) {
    const std::int64_t row = i / 5, column = i % 5;
    const bool is_broken = row == 1 || row == 2 || column == 1 || column == 2;
    CHECK(std::isnan(c.at(i)) == is_broken);
  }
}

TEST_CASE("products in int8 depend neither on threads nor on the other rows", "[int8]") {
  Rng rng(6);
  const Tensor x = normal(rng, {401, 300}, DType::f32), w = normal(rng, {1030, 300}, DType::f32);
  const Tensor dy = normal(rng, {401, 1030}, DType::f32);
  const auto products = [&](int threads) {
    const Threads set(threads);
    Tape tape;
    for (const Tensor& t : {x, w}) tape.watch(t);
    const Tensor y = linear(x, {w, Precision::int8});
    Grads all = tape.gradient(y, {x, w}, {.seeds = {dy}});
    all.push_back(y);
    return all;
  };
  const Grads one = products(1);
  for (const int threads : {2, 3}) {
    const Grads many = products(threads);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(many[i], one[i]));
  }
  CHECK(same_bits(linear(x.rows(17, 18), {w, Precision::int8}), one[2].rows(17, 18)));
}
