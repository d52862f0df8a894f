#include <cmath>
#include <limits>
#include <numbers>

#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Result {
  double loss;
  std::vector<double> gradient;
};

// The loss of one row of logits, and its gradient, by each of the ways to make it.
using LossOf = Tensor (*)(const Tensor& logits, std::int32_t target);
Result loss_of(LossOf f, const std::vector<double>& logits, std::int32_t target, DType dtype) {
  const Tensor x = vector(logits).to(dtype);
  Tape tape;
  tape.watch(x);
  const Tensor loss = f(x, target);
  return {loss.item(), list(tape.gradient(loss, {x})[0])};
}

const std::vector<LossOf> kLosses = {
    [](const Tensor& x, std::int32_t target) {
      return cross_entropy(x, Tensor::from<std::int32_t>({target}, {}));
    },
    [](const Tensor& x, std::int32_t target) {
      return -gather(log_softmax(x), Tensor::from<std::int32_t>({target}, {}), 0);
    },
    // The logits are a row of weights times 1.
    [](const Tensor& x, std::int32_t target) {
      return linear_cross_entropy(Tensor::ones({1, 1}, x.dtype()), reshape(x, {-1, 1}),
                                  ids({target}));
    },
};

}  // namespace

TEST_CASE("losses do not lose precision with the size of the logits", "[loss]") {
  const LossOf f = GENERATE(from_range(kLosses));
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double size = GENERATE(100.0, 1000.0, 1e8, -1e8, 1e30);
  const Result result = loss_of(f, {size, size}, 0, dtype);
  CHECK(result.loss == Approx(std::numbers::ln2).epsilon(1e-7));
  CHECK(result.gradient == std::vector<double>{-0.5, 0.5});
}

TEST_CASE("f32 gradients of a loss are as near those of f64 for large logits as for small ones",
          "[loss]") {
  const LossOf f = GENERATE(from_range(kLosses));
  const double size = GENERATE(0.0, 100.0, 1000.0, 1e5);
  Rng rng(5);
  const Tensor logits = (normal(rng, {50}, DType::f32) + size).to(DType::f64);
  const Result a = loss_of(f, list(logits), 3, DType::f32),
               b = loss_of(f, list(logits), 3, DType::f64);
  CHECK(a.loss == Approx(b.loss).epsilon(3e-7));
  for (std::size_t i = 0; i < a.gradient.size(); ++i) {
    CHECK(a.gradient[i] == Approx(b.gradient[i]).epsilon(1e-6));
  }
}

TEST_CASE("the loss of a likely target is not rounded away, and neither is its gradient",
          "[loss]") {
  // The second of the three, log_softmax, keeps less: 1 + e⁻²⁰ is 1 in f32.
  const LossOf f = GENERATE(kLosses[0], kLosses[2]);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double gap = GENERATE(5.0, 20.0, 80.0);
  const double p = std::exp(-gap) / (1 + std::exp(-gap));  // of the other class
  const auto target = GENERATE(0, 1);
  const std::vector<double> logits =
      target == 0 ? std::vector{7.0, 7.0 - gap} : std::vector{-gap, 0.0};
  const Result result = loss_of(f, logits, target, dtype);
  const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-13;
  CHECK(result.loss == Approx(std::log1p(std::exp(-gap))).epsilon(tolerance));
  CHECK(result.gradient[static_cast<std::size_t>(target)] == Approx(-p).epsilon(tolerance));
  CHECK(result.gradient[static_cast<std::size_t>(1 - target)] == Approx(p).epsilon(tolerance));
}

TEST_CASE("second derivatives of losses do not lose precision with the size of the logits",
          "[loss]") {
  const LossOf f = GENERATE(from_range(kLosses));
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double size = GENERATE(0.0, 100.0, 1e8, -1e30);
  const Tensor x = vector({size, size}).to(dtype);
  Tape outer;
  outer.watch(x);
  Tape inner;
  inner.watch(x);
  const Tensor slope = inner.gradient(f(x, 0), {x})[0];
  const Tensor v = vector({1, -2}).to(dtype);
  const std::vector<double> curvature = list(outer.gradient(slope, {x}, {.seeds = {v}})[0]);
  // diag(p) − p·pᵀ with p = (½, ½), times v.
  CHECK(curvature[0] == Approx(0.75));
  CHECK(curvature[1] == Approx(-0.75));
}

TEST_CASE("an infinite logit gives no loss that hides it", "[loss]") {
  const LossOf f = GENERATE(from_range(kLosses));
  const auto target = GENERATE(0, 1);
  CHECK(std::isnan(loss_of(f, {1, kInf}, target, DType::f32).loss));
  CHECK(std::isnan(loss_of(f, {-kInf, -kInf}, target, DType::f32).loss));
  CHECK(std::isnan(loss_of(f, {1, kNan}, target, DType::f32).loss));
  const Result impossible = loss_of(f, {-kInf, 1}, 0, DType::f32);
  CHECK(impossible.loss == kInf);
  CHECK(impossible.gradient == std::vector<double>{-1, 1});
}

TEST_CASE("a row of minus infinities that is ignored stays out of loss and gradient", "[loss]") {
  const Tensor x = Tensor::from<float>({-INFINITY, -INFINITY, 1, 1}, {2, 2});
  Tape tape;
  tape.watch(x);
  const Tensor loss = cross_entropy(x, ids({-1, 0}), -1);
  CHECK(loss.item() == Approx(std::numbers::ln2));
  CHECK(list(tape.gradient(loss, {x})[0]) == std::vector<double>{0, 0, -0.5, 0.5});
}

TEST_CASE("log_softmax and log_sum_exp of infinite rows are PyTorch's", "[softmax]") {
  const auto nans = [](const Tensor& t) {
    for (const double x : list(t)) {
      if (!std::isnan(x)) return false;
    }
    return true;
  };
  CHECK(nans(log_softmax(vector({1, kInf}))));
  CHECK(nans(log_softmax(vector({-kInf, -kInf}))));
  const auto slope = [](const std::vector<double>& values) {
    const Tensor x = vector(values);
    Tape tape;
    tape.watch(x);
    return list(tape.gradient(log_sum_exp(x), {x})[0]);
  };
  CHECK(log_sum_exp(vector({1, kInf})).item() == kInf);
  const auto beside = slope({1, 1000, kInf});
  CHECK(beside[0] == 0);
  CHECK(beside[1] == 0);
  CHECK(std::isnan(beside[2]));
  CHECK(std::isnan(slope({-kInf, -kInf})[0]));
  CHECK(std::isnan(slope({1, kNan})[0]));
  CHECK(slope({1e8, 1e8}) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("a loss beyond f32 is infinite, as in PyTorch", "[loss]") {
  for (const LossOf f : kLosses) {
    CHECK(f(vector({3e38, -3e38}).to(DType::f32), 1).item() == kInf);
    CHECK(f(vector({3e38, -3e38}), 1).item() == 2 * 3e38);
  }
  const Tensor logits = Tensor::from<float>({3e38F, -3e38F}, {2, 1});
  const Teacher teacher{.logits = [](std::int64_t, std::int64_t n) {
    return Tensor::zeros({n, 2});
  }};
  CHECK(linear_distillation(Tensor::ones({1, 1}), logits, ids({1}), teacher).item() == kInf);
}
