// Reductions whose result lies in the range of the dtype, but for which a plain sum, power or
// product on the way would leave it.

#include <cmath>
#include <functional>
#include <limits>

#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;
using Reduction1 = std::function<Tensor(const Tensor&)>;

Values gradient_of(const Reduction1& f, const Values& at, DType dtype) {
  const Tensor x = vector(at).to(dtype);
  Tape tape;
  tape.watch(x);
  return list(tape.gradient(sum(f(x)), {x})[0]);
}

// The second derivatives of f times 1, 2, 3, …
Values curvature_of(const Reduction1& f, const Values& at, DType dtype) {
  const Tensor x = vector(at).to(dtype);
  Tape outer;
  outer.watch(x);
  Tensor first;
  {
    Tape inner;
    inner.watch(x);
    first = inner.gradient(sum(f(x)), {x})[0];
  }
  const Tensor seeds = Tensor::arange(1, static_cast<double>(at.size()) + 1, 1, dtype);
  return list(outer.gradient(first, {x}, {.seeds = {seeds}})[0]);
}

bool near(const Values& a, const Values& b, double tolerance = 1e-6) {
  const std::string text = difference(vector(a), vector(b), tolerance, 0);
  UNSCOPED_INFO(text);
  return text.empty();
}

double value_of(const Reduction1& f, const Values& at, DType dtype) {
  return f(vector(at).to(dtype)).item();
}

}  // namespace

TEST_CASE("the gradient of a product of a long line is that of its other factors", "[ranges]") {
  const Reduction1 all = [](const Tensor& x) { return prod(x); };
  Values factors;  // of more than two pieces that the gradient goes through
  for (int i = 0; i < 2500; ++i) factors.push_back(1 + 1e-3 * (i % 7 - 3));
  const double product = value_of(all, factors, DType::f64);
  Values quotients;
  for (const double factor : factors) quotients.push_back(product / factor);
  CHECK(near(gradient_of(all, factors, DType::f64), quotients, 1e-11));
  factors[1500] = 0;
  Values alone(2500, 0.0);
  alone[1500] = quotients[1500];
  CHECK(near(gradient_of(all, factors, DType::f64), alone, 1e-11));
}

TEST_CASE("prod is right in whatever order its factors come", "[ranges]") {
  const Reduction1 all = [](const Tensor& x) { return prod(x); };
  Values alternating;
  for (int i = 0; i < 32; ++i) alternating.insert(alternating.end(), {1e3, 1e-3});
  Values sorted = alternating;
  std::sort(sorted.begin(), sorted.end());
  for (const Values& x : {alternating, sorted}) {
    CHECK(near({value_of(all, x, DType::f32)}, {1}, 1e-5));
    Values inverse;
    for (const double v : x) inverse.push_back(1 / v);
    CHECK(near(gradient_of(all, x, DType::f32), inverse, 1e-5));
  }
  for (const Values& x : {Values{1e30, 1e30, 1e-30, 1e-30}, Values{1e30, 1e-30, 1e30, 1e-30}}) {
    CHECK(near({value_of(all, x, DType::f32)}, {1}));
    CHECK(near(gradient_of(all, x, DType::f32), {1 / x[0], 1 / x[1], 1 / x[2], 1 / x[3]}));
  }
  const Values wide{1e300, 1e300, 1e-300, 1e-300, 5};
  CHECK(near({value_of(all, wide, DType::f64)}, {5}, 1e-15));
  CHECK(near(gradient_of(all, wide, DType::f64), {5e-300, 5e-300, 5e300, 5e300, 1}, 1e-15));
  CHECK(value_of(all, {1e30, 1e30, 0}, DType::f32) == 0);
  CHECK(std::isinf(value_of(all, {1e30, 1e30}, DType::f32)));
  CHECK(value_of(all, {1e-30, 1e-30}, DType::f32) == 0);
  CHECK(near(gradient_of(all, {1e30, 1e30}, DType::f32), {1e30, 1e30}));
}

TEST_CASE("gradients of prod pass zeros as PyTorch's", "[ranges]") {
  const Reduction1 all = [](const Tensor& x) { return prod(x); };
  CHECK(gradient_of(all, {0, 2, 3}, DType::f32) == Values{6, 0, 0});
  CHECK(gradient_of(all, {0, 0, 3}, DType::f32) == Values{0, 0, 0});
  CHECK(near(gradient_of(all, {1e30, 1e30, 0, 1e-30}, DType::f32), {0, 0, 1e30, 0}));
  // Σₗ seed(l)·the product of the others.
  CHECK(curvature_of(all, {0, 2, 3}, DType::f64) == Values{12, 3, 2});
}

TEST_CASE("second derivatives of prod do not leave the range on the way", "[ranges]") {
  const Reduction1 all = [](const Tensor& x) { return prod(x); };
  // d²/dxₖdxₗ is 1 / (xₖ·xₗ).
  Values x, expected;
  for (int i = 0; i < 16; ++i) x.insert(x.end(), {1e3, 1e-3});
  for (std::size_t k = 0; k < x.size(); ++k) {
    double sum = 0;
    for (std::size_t l = 0; l < x.size(); ++l) {
      if (l != k) sum += static_cast<double>(l + 1) / (x[k] * x[l]);
    }
    expected.push_back(sum);
  }
  CHECK(near(curvature_of(all, x, DType::f32), expected, 1e-5));
}

TEST_CASE("cumprod comes back into the range, and so does its gradient", "[ranges]") {
  const Reduction1 last = [](const Tensor& x) { return select(cumprod(x, 0), 0, -1); };
  const Values x{1e30, 1e30, 1e-30, 1e-30};
  CHECK(near({value_of(last, x, DType::f32)}, {1}));
  CHECK(near(gradient_of(last, x, DType::f32), {1e-30, 1e-30, 1e30, 1e30}));
  const Values wide{1e300, 1e300, 1e-300, 1e-300};
  CHECK(near({value_of(last, wide, DType::f64)}, {1}, 1e-15));
  CHECK(near(gradient_of(last, wide, DType::f64), {1e-300, 1e-300, 1e300, 1e300}, 1e-15));
}

TEST_CASE("norms square nothing out of the range", "[ranges]") {
  for (const auto& [dtype, size] : std::vector<std::pair<DType, double>>{
           {DType::f32, 1e30}, {DType::f32, 1e-30}, {DType::f64, 1e200}, {DType::f64, 1e-200}}) {
    const Values x{3 * size, -4 * size};
    const Reduction1 euclid = [](const Tensor& t) { return norm(t); };
    const Reduction1 cubic = [](const Tensor& t) { return norm(t, 3); };
    const Reduction1 root = [](const Tensor& t) { return norm(t, 0.5); };
    CHECK(near({value_of(euclid, x, dtype)}, {5 * size}));
    CHECK(near(gradient_of(euclid, x, dtype), {0.6, -0.8}));
    CHECK(near({value_of(cubic, x, dtype)}, {std::cbrt(91) * size}));
    CHECK(
        near(gradient_of(cubic, x, dtype), {9 / std::pow(91, 2. / 3), -16 / std::pow(91, 2. / 3)}));
    CHECK(near({value_of(root, x, dtype)}, {std::pow(std::sqrt(3) + 2, 2) * size}));
    const Tensor a = vector(x).to(dtype), b = vector({4 * size, 3 * size}).to(dtype);
    CHECK(std::abs(cosine_similarity(a, b, 0, 0).item()) < 1e-6);
    CHECK(near(list(cosine_similarity(a, a, 0, 0)), {1}));
    CHECK(near(list(normalize(a, 2, 0, 0)), {0.6, -0.8}));
    CHECK(near(list(pairwise_distance(a, b * 0.0, 2, 0)), {5 * size}));
  }
  const Tensor a = vector({3e30, 4e30}).to(DType::f32).view({1, 2});
  const Tensor loss = cosine_embedding_loss(a, a, Tensor::ones({1}));
  CHECK(std::abs(loss.item()) < 1e-6);
}

TEST_CASE("norms of large orders are nearly the largest element", "[ranges]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  for (const double order : {1200.0, 1e6, 1e300}) {
    const Reduction1 high = [=](const Tensor& t) { return norm(t, order); };
    CHECK(near({value_of(high, {1.9, 0.5}, dtype)}, {1.9}));
    CHECK(near(gradient_of(high, {1.9, 0.5}, dtype), {1, 0}));
    CHECK(near({value_of(high, {0, 0}, dtype)}, {0}));
  }
}

TEST_CASE("a product of many factors is that of its parts, whatever the threads", "[ranges]") {
  Rng rng(5);
  const Tensor exponents = normal(rng, {100'003}), x = exp(exponents * 100.0);
  const Tensor balanced = concat({x, 1.0 / x}, 0);
  const auto product = [&](int threads) {
    const Threads limit(threads);
    return prod(balanced);
  };
  CHECK(same_bits(product(1), product(3)));
  CHECK(product(1).item() == Approx(1));
  CHECK(std::log(prod(exp(exponents * 0.5)).item()) == Approx(sum(exponents).item() * 0.5));
  CHECK(prod(concat({x, vector({0})}, 0)).item() == 0);
  CHECK(std::isnan(prod(concat({x, vector({kInf, 0})}, 0)).item()));
}

TEST_CASE("deviations of f64 square nothing out of the range", "[ranges]") {
  for (const double size : {1e200, 1e-200, 1.0}) {
    const Reduction1 deviation = [](const Tensor& t) { return stddev(t); };
    const Values x{1 * size, 3 * size};
    CHECK(near({value_of(deviation, x, DType::f64)}, {std::sqrt(2) * size}, 1e-14));
    CHECK(near(gradient_of(deviation, x, DType::f64), {-std::sqrt(0.5), std::sqrt(0.5)}, 1e-14));
  }
  CHECK(near({var(vector({1e153, 3e153, 1e153, 3e153}), {}, false).item()}, {1e306}, 1e-14));
}

TEST_CASE("sums and means of large numbers are in the range where the result is", "[ranges]") {
  CHECK(near({mean(vector({3e38, 3e38}).to(DType::f32)).item()}, {3e38}));
  CHECK(near({mean(vector({1.7e308, 1.7e308})).item()}, {1.7e308}, 1e-15));
  CHECK(sum(vector({1.7e308, 1.7e308, -1.7e308, -1.7e308})).item() == 0);
  CHECK(sum(vector({1.7e308, 1.7e308})).item() == kInf);
  CHECK(mean(vector({kInf, 1})).item() == kInf);
  CHECK(std::isnan(sum(vector({kInf, -kInf})).item()));
  // The other rows keep their bits.
  const Tensor rows = mean(vector({1.7e308, 1.7e308, 0.1, 0.2}).view({2, 2}), {1});
  CHECK(rows.at(1) == mean(vector({0.1, 0.2})).item());
}

TEST_CASE("these reductions do not depend on the threads", "[ranges]") {
  Rng rng(3);
  const Tensor x = normal(rng, {70, 900}, DType::f64, 1e160);
  const auto results = [&](int threads) {
    const Threads limit(threads);
    Tape tape;
    tape.watch(x);
    const Tensor products = prod(x * 1e-160, {0}), running = cumprod(x * 1e-160, 1);
    const Tensor norms = norm(x, 2, {0}), most = max(x);
    const Grads grads = tape.gradient({sum(products), sum(running), sum(norms), most}, {x});
    return std::vector{products, running, norms, most, argmax(x, 1), grads[0]};
  };
  const auto one = results(1), three = results(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("indices that i32 does not hold are errors, also in a dry run", "[ranges]") {
  const DryRun dry;
  const std::int64_t most = std::int64_t{1} << 31;
  const Tensor x = Tensor::empty({most}, DType::u8), y = Tensor::empty({2, most - 1}, DType::u8);
  CHECK_THROWS_WITH(argmax(x, 0), ContainsSubstring("[argmax] dimension 0 of (2147483648) is too"));
  CHECK_THROWS_WITH(max(x, 0), ContainsSubstring("[max] dimension 0"));
  CHECK_THROWS_WITH(min(x, 0), ContainsSubstring("[min] dimension 0"));
  CHECK_THROWS_WITH(min(Tensor::empty({most}), -1), ContainsSubstring("[min] dimension -1"));
  CHECK_THROWS_WITH(sort(x), ContainsSubstring("[sort] dimension 0"));
  CHECK_THROWS_WITH(topk(x, 1), ContainsSubstring("[topk] dimension"));
  // Loops over all elements would take seconds here.
  CHECK(argmax(y, 1).shape() == Shape{2});
  CHECK(max(y, 1).values.shape() == Shape{2});
  CHECK(max(Tensor::empty({2, most})).rank() == 0);
  CHECK(max(x).rank() == 0);
  CHECK(min(x).rank() == 0);
  CHECK(sum(y, {0}).dtype() == DType::i64);
}
