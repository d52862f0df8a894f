#include <cmath>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

// Second derivatives whose parts leave the range of the dtype. The expected values are those of the
// formulas.

namespace {

using Values = std::vector<double>;

// The derivative by input i of the gradient of input `of`, times dy and v.
double second(const std::function<Tensor(Inputs)>& op, const Values& at, std::size_t of,
              std::size_t i, DType dtype, double dy, double v) {
  std::vector<Tensor> x;
  for (const double value : at) x.push_back(Tensor::full({1}, value, dtype));
  Tape outer;
  for (const Tensor& t : x) outer.watch(t);
  Tape inner;
  for (const Tensor& t : x) inner.watch(t);
  const Tensor y = op(x);
  const Grads first = inner.gradient(y, x, {.seeds = {Tensor::full({1}, dy, dtype)}});
  return outer.gradient(first[of], {x[i]}, {.seeds = {Tensor::full({1}, v, dtype)}})[0].item();
}

}  // namespace

TEST_CASE("a second derivative that is representable is found, whatever its parts are",
          "[extremes]") {
  const auto inverse = [](Inputs x) { return 1.0 / x[0]; };
  const auto logarithm = [](Inputs x) { return log(x[0]); };
  const auto f32 = [](const auto& op, double x, double dy, double v = 1) {
    return Approx(second(op, {x}, 0, 0, DType::f32, dy, v)).epsilon(1e-5);
  };
  const auto f64 = [](const auto& op, double x, double dy, double v = 1) {
    return Approx(second(op, {x}, 0, 0, DType::f64, dy, v)).epsilon(1e-13);
  };
  // 2·v·dy/x³, where x³, 1/x³ or dy/x² is no number of the dtype.
  CHECK(2e-24 == f32(inverse, 1e18, 1e30));
  CHECK(2e27 == f32(inverse, 1e-18, 1e8, 1e-35));
  CHECK(2e-33 == f32(inverse, 1e6, 1e-34, 1e19));
  CHECK(-2e-6 == f32(inverse, -1e12, 1, 1e30));
  CHECK(2e-200 == f64(inverse, 1e150, 1e250));
  CHECK(2e160 == f64(inverse, 1e-144, 1, 1e-272));
  CHECK(-1e-20 == f32(logarithm, 1e30, 1e20, 1e20));
  CHECK(-1e-200 == f64(logarithm, 1e250, 1e250, 1e50));
  // v·dy·σ(x)·σ(−x), where σ(−x) is 1 but for what 1 − σ(−x) has left, and v·dy/t.
  const auto bce = [](Inputs x) {
    return binary_cross_entropy_with_logits(x[0], x[1], {.reduction = Reduction::none});
  };
  const auto of_two = [](const auto& op, Values at, std::size_t of, std::size_t i, double dy,
                         double v) {
    return Approx(second(op, at, of, i, DType::f32, dy, v)).epsilon(1e-5);
  };
  CHECK(1 / (std::exp(15) + 2 + std::exp(-15)) == of_two(bce, {-15, 0.25}, 0, 0, 1, 1));
  CHECK(-1e30 == of_two(bce, {1e30, 0.25}, 0, 1, 1e10, 1e20));
  const auto divergence = [](Inputs x) {
    return kl_div(x[0], x[1], {.reduction = Reduction::none});
  };
  CHECK(1e-30 == of_two(divergence, {0, 1e-30}, 1, 1, 1e-30, 1e-30));
  // −2·v·dy·tanh(x)
  CHECK(-2e16 == f32([](Inputs x) { return tanh(x[0]); }, 1e-24, 1e20, 1e20));
}

TEST_CASE("the second derivatives of activations are those of PyTorch where it has numbers",
          "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double large = dtype == DType::f32 ? 3e38 : 1.7e308;
  using Op = std::function<Tensor(Inputs)>;
  const auto op = GENERATE(from_range(std::vector<Op>{
      [](Inputs x) { return silu(x[0]); },
      [](Inputs x) { return gelu(x[0]); },
      [](Inputs x) { return gelu(x[0], Gelu::erf); },
  }));
  for (const double x : {-large, -1e10, 1e4, 1e30, large}) {
    INFO("x " << x);
    CHECK(second(op, {x}, 0, 0, dtype, 1, 1) == 0);
    CHECK(second(op, {x}, 0, 0, dtype, large, large) == 0);
  }
  CHECK(std::isinf(second(op, {0.1}, 0, 0, dtype, large, large)));
  CHECK(second(op, {0}, 0, 0, dtype, large, 1 / large) > 0.3);
}

TEST_CASE("swiglu has second derivatives where up is as large as a number can be", "[extremes]") {
  const auto op = [](Inputs x) { return swiglu(x[0], x[1]); };
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double up = GENERATE(1, -1) * (dtype == DType::f32 ? 3e38 : 1.7e308);
  for (const double gate : {-1e30, -60.0, -5.0, -1.0, 0.0, 1.0, 5.0, 30.0, 1e30}) {
    INFO("gate " << gate << ", up " << up);
    const double s = 1 / (1 + std::exp(-gate)), m = 1 / (1 + std::exp(gate));
    const double slope = s * (1 + gate * m), curvature = s * m * (2 + gate * (m - s));
    const auto expected = [](double value) { return Approx(value).epsilon(1e-5); };
    CHECK(second(op, {gate, up}, 0, 0, dtype, 1, 1) == expected(curvature * up));
    CHECK(second(op, {gate, up}, 0, 1, dtype, 1, 1) == expected(gate == -1e30 ? 0 : slope));
    CHECK(second(op, {gate, up}, 1, 0, dtype, up, 1) == expected(gate == -1e30 ? 0 : slope * up));
  }
}

// PyTorch's values (2.14).
TEST_CASE("smooth_l1_loss and huber_loss are parabolas where x is the target", "[extremes]") {
  const auto curvature = [](double x, double y, const auto& loss) {
    return second([&](Inputs in) { return loss(in[0], in[1]); }, {x, y}, 0, 0, DType::f64, 2.5, 1);
  };
  const auto smooth = [](double beta) {
    return [=](const Tensor& x, const Tensor& y) {
      return reshape(smooth_l1_loss(x, y, beta, Reduction::sum), {1});
    };
  };
  const auto huber = [](const Tensor& x, const Tensor& y) {
    return reshape(huber_loss(x, y, 0.5, Reduction::sum), {1});
  };
  CHECK(curvature(0.3, 0.3, smooth(1)) == 2.5);
  CHECK(curvature(0.3, 0.3, smooth(0.5)) == 5);
  CHECK(curvature(1.0, 0.75, smooth(0.5)) == 5);
  CHECK(curvature(1.0, 0.5, smooth(0.5)) == 0);
  CHECK(curvature(-2.0, 1.0, smooth(1)) == 0);
  CHECK(curvature(0.3, 0.3, huber) == 2.5);
  CHECK(curvature(1.0, 0.5, huber) == 0);
  CHECK(second([&](Inputs in) { return smooth(0.5)(in[0], in[1]); }, {0.3, 0.3}, 0, 1, DType::f64,
               2.5, 1) == -5);
}
