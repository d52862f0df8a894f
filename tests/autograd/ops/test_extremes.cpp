#include <cmath>
#include <limits>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

// Derivatives at the edges of the range, and beyond it. The expected values are PyTorch's, but for
// those that ops.h says are better.

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

// The values of `op` at inputs of one element each, of its first derivatives times dy, and of the
// derivatives of their sum.
struct Derivatives {
  double y;
  Values first, second;
};
Derivatives derivatives(const std::function<Tensor(Inputs)>& op, const Values& at, DType dtype,
                        double dy = 1) {
  std::vector<Tensor> x;
  for (const double v : at) x.push_back(Tensor::full({1}, v, dtype));
  Tape outer;
  for (const Tensor& t : x) outer.watch(t);
  Derivatives result;
  std::vector<Tensor> roots;
  {
    Tape inner;
    for (const Tensor& t : x) inner.watch(t);
    const Tensor y = op(x);
    result.y = y.item();
    for (const Tensor& g : inner.gradient(y, x, {.seeds = {Tensor::full({1}, dy, dtype)}})) {
      result.first.push_back(g.defined() ? g.item() : 0);
      if (g.defined() && outer.tracks(g)) roots.push_back(g);
    }
  }
  if (roots.empty()) return result;
  std::vector<Tensor> seeds(roots.size(), Tensor::ones({1}, dtype));
  for (const Tensor& g : outer.gradient(roots, x, {.seeds = seeds})) {
    result.second.push_back(g.defined() ? g.item() : 0);
  }
  return result;
}

// True if all agree to 1e-6, with NaNs and infinities in their places.
bool near(const Values& a, const Values& b) {
  return difference(vector(a), vector(b), 1e-6, 0) == "";
}

Tensor divide(Inputs x) { return x[0] / x[1]; }
Tensor power(Inputs x) { return pow(x[0], x[1]); }

}  // namespace

TEST_CASE("the gradient of a quotient squares nothing", "[extremes]") {
  const auto gradient = [](double a, double b) {
    return derivatives(divide, {a, b}, DType::f32).first;
  };
  CHECK(near(gradient(0, 1e-25), {1e25, -0.0}));
  CHECK(near(gradient(1e-30, 1e-30), {1e30, -1e30}));
  CHECK(near(gradient(1e20, 1e20), {1e-20, -1e-20}));
  const auto gradient64 = [](double a, double b) {
    return derivatives(divide, {a, b}, DType::f64).first;
  };
  CHECK(near(gradient64(0, 1e-200), {1e200, -0.0}));
  CHECK(near(gradient64(1e-200, 1e-200), {1e200, -1e200}));
  CHECK(near(gradient64(1e200, 1e200), {1e-200, -1e-200}));
  CHECK(near(derivatives(divide, {1e80, 1e80}, DType::f64).second, {-1e-160, 1e-160}));
  // d²/da² + d²/da db = −1/b², and d²/da db + d²/db² = −1/b² + 2a/b³.
  CHECK(near(derivatives(divide, {1e10, 1e10}, DType::f32).second, {-1e-20, 1e-20}));
  CHECK(near(derivatives(divide, {1, 1e20}, DType::f32, 1e30).first, {1e10, -1e-10}));
  CHECK(near(derivatives(divide, {1e10, 1e-20}, DType::f32, 0).first, {0, -0.0}));
  const auto inverse = [](Inputs x) { return 1.0 / x[0]; };
  CHECK(near(derivatives(inverse, {0}, DType::f64).first, {-kInf}));
  CHECK(near(derivatives(inverse, {0}, DType::f64).second, {kInf}));
}

TEST_CASE("the gradient of a logarithm is a quotient", "[extremes]") {
  const auto op = [](Inputs x) { return log(x[0]); };
  CHECK(near(derivatives(op, {1e-40}, DType::f32, 0).first, {0}));
  CHECK(near(derivatives(op, {1e-38}, DType::f32, 1e-8).first, {1e30}));
  CHECK(near(derivatives(op, {1e-310}, DType::f64, 0).first, {0}));
  // −dy/x², whose square is no f32.
  CHECK(near(derivatives(op, {1e-25}, DType::f32, 1e-20).second, {-1e30}));
  CHECK(near(derivatives(op, {1e-200}, DType::f64, 1e-150).second, {-1e250}));
}

TEST_CASE("softplus is x where beta times x is too large", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double large = dtype == DType::f32 ? 3e38 : 1.7e308,
               rounded = Tensor::full({}, large, dtype).item();
  const auto op = [](Inputs x) { return softplus(x[0], 2); };
  CHECK(derivatives(op, {large}, dtype).y == rounded);
  CHECK(derivatives(op, {-large}, dtype).y == 0);
  CHECK(derivatives(op, {kInf}, dtype).y == kInf);
  CHECK(near(derivatives(op, {large}, dtype).first, {1}));
  CHECK(near(derivatives(op, {large}, dtype).second, {0}));
  const auto half = [](Inputs x) { return softplus(x[0], 0.5); };
  CHECK(near(derivatives(half, {0}, dtype, large).first, {rounded / 2}));  // dy/beta is no number
}

TEST_CASE("softplus has gradients as small as its values", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double beta = GENERATE(1.0, 2.0);
  const auto op = [=](Inputs x) { return softplus(x[0], beta); };
  for (const double v :
       dtype == DType::f32 ? Values{-60, -79, -81, -95, -103} : Values{-81, -705, -720, -744}) {
    CAPTURE(dtype, v);
    const double slope = Tensor::full({}, std::exp(v), dtype).item();
    const Derivatives d = derivatives(op, {v / beta}, dtype);
    CHECK(slope > 0);
    CHECK(d.first[0] == Approx(slope).epsilon(1e-6));
    CHECK(d.second[0] == Approx(slope * beta).epsilon(1e-6));
  }
}

TEST_CASE("the unbiased variance of one element is NaN, and so are its derivatives", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const auto all = [](Inputs x) { return reshape(var(x[0]), {1}); };
  const auto along = [](Inputs x) { return var(x[0], {0}, true, true); };
  for (const std::function<Tensor(Inputs)>& op :
       {std::function<Tensor(Inputs)>(all), std::function<Tensor(Inputs)>(along)}) {
    const Derivatives d = derivatives(op, {2}, dtype);
    CHECK(std::isnan(d.y));
    CHECK(near(d.first, {kNan}));
    CHECK(near(d.second, {kNan}));
  }
}

TEST_CASE("a deviation whose multiples are beyond f32 has its gradient", "[extremes]") {
  std::vector<float> numbers(101);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i % 2 == 0 ? 1e37F : -1e37F;
  const Tensor x = Tensor::from(numbers, {101});
  const auto gradient = [](const Tensor& at) {
    Tape tape;
    tape.watch(at);
    return tape.gradient(stddev(at), {at})[0];
  };
  const Tensor narrow = gradient(x), wide = gradient(x.to(DType::f64));
  for (const std::int64_t i : {0, 1, 100}) {
    CHECK(narrow.at(i) == Approx(wide.at(i)).epsilon(1e-5));
    CHECK(std::abs(wide.at(i)) > 0.009);
  }
}

TEST_CASE("powers of and to 0 have PyTorch's gradients, and finite ones where they can",
          "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  CHECK(near(derivatives(power, {0, -1}, dtype).first, {-kInf, -kInf}));
  CHECK(near(derivatives(power, {0, 2}, dtype).first, {0, 0}));
  CHECK(near(derivatives(power, {0, 0}, dtype).first, {0, 0}));
  CHECK(near(derivatives(power, {0, 0}, dtype, kInf).first, {0, 0}));
  const auto to_zero = [](Inputs x) { return pow(x[0], 0.0); };
  CHECK(near(derivatives(to_zero, {0}, dtype).second, {0}));
  CHECK(near(derivatives(to_zero, {0}, dtype, kNan).first, {0}));
}

TEST_CASE("roots of -0 are those of powers", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const auto root = [](Inputs x) { return pow(x[0], 0.5); };
  const auto inverse = [](Inputs x) { return pow(x[0], -0.5); };
  CHECK(!std::signbit(derivatives(root, {-0.0}, dtype).y));
  CHECK(near(derivatives(root, {-0.0}, dtype).first, {kInf}));
  CHECK(derivatives(inverse, {-0.0}, dtype).y == kInf);
  CHECK(near(derivatives(inverse, {-0.0}, dtype).first, {-kInf}));
}

TEST_CASE("losses at the edges of probabilities have finite gradients", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const auto loss = [](Inputs x) { return reshape(binary_cross_entropy(x[0], x[1]), {1}); };
  for (const double target : {0.0, 0.25, 1.0}) {
    CHECK(derivatives(loss, {0, target}, dtype).first[1] == 100);
    CHECK(derivatives(loss, {1, target}, dtype).first[1] == -100);
    // d²/dp² and the mixed one of the gradient of p, whose divisor ends at 1e-12; by the gradient
    // of the target, which does not move there, 0 is added.
    for (const double p : {0.0, 1.0}) {
      CHECK(near(derivatives(loss, {p, target}, dtype).second, {1e12, -1e12}));
    }
  }
  const Tensor logits = Tensor::from({kNan, 1.0, 1.0, 2.0}, {2, 2}).to(dtype);
  Tape tape;
  tape.watch(logits);
  const Tensor y = cross_entropy(logits, ids({-100, 1}));
  const Values found = list(tape.gradient(y, {logits})[0]);
  CHECK(Values(found.begin(), found.begin() + 2) == Values{0, 0});
  CHECK(found[2] == Approx(1 / (1 + std::exp(1))));
}

TEST_CASE("a blocked gradient is 0 whatever it is, and NaN blocks nothing", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double dy = GENERATE(kInf, kNan);
  const auto gradient = [&](Tensor (*f)(const Tensor&), double x) {
    return derivatives([f](Inputs in) { return f(in[0]); }, {x}, dtype, dy).first;
  };
  const auto clamped = [](const Tensor& x) { return clamp(x, -1, 1); };
  CHECK(near(gradient(relu, -1), {0}));
  CHECK(near(gradient(relu, 0), {0}));
  CHECK(near(gradient(relu, kNan), {dy}));
  CHECK(near(gradient(clamped, 2), {0}));
  CHECK(near(gradient(clamped, kNan), {0}));
  CHECK(near(gradient(clamped, 1), {dy}));
  const auto larger = [](Inputs x) { return maximum(x[0], x[1]); };
  CHECK(near(derivatives(larger, {2, 1}, dtype, dy).first, {dy, 0}));
  CHECK(near(derivatives(larger, {0, kNan}, dtype).first, {1, 1}));
  CHECK(near(derivatives(larger, {1, 1}, dtype).first, {0.5, 0.5}));
}

TEST_CASE("the gradient of max goes to the NaNs if there are any", "[extremes]") {
  const Tensor x = vector({1, kNan, 3}).to(GENERATE(DType::f32, DType::f64));
  Tape tape;
  tape.watch(x);
  const Tensor y = max(x);
  const Tensor dy = vector({kInf}).to(x.dtype()).view({});
  CHECK(near(list(tape.gradient(y, {x}, {.seeds = {dy}})[0]), {0, kInf, 0}));
}

TEST_CASE("relu keeps the sign of 0, as PyTorch's does", "[extremes]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  CHECK(std::signbit(relu(vector({-0.0}).to(dtype)).item()));
  CHECK(std::isnan(relu(vector({kNan}).to(dtype)).item()));
  CHECK(relu(vector({-kInf}).to(dtype)).item() == 0);
}

TEST_CASE("dropout scales by the reciprocal of what is kept as the dtype has it", "[dropout]") {
  const double p = GENERATE(0.04, 0.09, 0.15, 0.42, 0.1, 0.2, 0.97);
  Rng rng(3);
  const Tensor y = dropout(Tensor::ones({500}), p, rng);
  double largest = 0;
  for (const double v : list(y)) largest = std::max(largest, v);
  CHECK(largest == static_cast<double>(1.0F / static_cast<float>(1 - p)));
}

TEST_CASE("attention's dropout scales as dropout does", "[dropout]") {
  const double p = GENERATE(0.04, 0.15, 0.97);
  const bool fused = GENERATE(true, false);
  Rng rng(3);
  const Tensor x = Tensor::ones({200, 1, 1});  // one key: weights are 1
  const KeepMask keep(rng, 200, p);
  rng = Rng(3);
  const Tensor y = fused ? attention(x, x, x, 1, {.dropout = p, .rng = &rng})
                         : attention_reference(x, x, x, 1, true, keep);
  double largest = 0;
  for (const double v : list(y)) largest = std::max(largest, v);
  CHECK(largest == static_cast<double>(1.0F / static_cast<float>(1 - p)));
}

TEST_CASE("a sum over dimensions that are not neighbours is rounded once", "[extremes]") {
  const Tensor x = Tensor::from<float>({16777216, 1, 5, 5, -16777216, 0, 5, 5}, {2, 2, 2});
  CHECK(list(sum(x, {0, 2})) == Values{1, 20});
}

TEST_CASE("f32 norms show an overflow as NaN, not as a row of zeros", "[extremes]") {
  using Op = std::function<Tensor(const Tensor&)>;
  const Op norm = GENERATE(from_range(std::vector<Op>{
      [](const Tensor& x) { return layer_norm(x); },
      [](const Tensor& x) { return layer_norm(x, {}, {}, {.eps_outside = true}); },
      [](const Tensor& x) { return rms_norm(x); },
  }));
  const Tensor x = Tensor::from<float>({1e30F, -1e30F}, {1, 2});
  Tape outer;
  outer.watch(x);
  Tape inner;
  inner.watch(x);
  const Tensor y = norm(x);
  CHECK(std::isnan(y.at(0)));
  const Tensor seed = Tensor::from<float>({1, -2}, {1, 2});
  const Tensor slope = inner.gradient(y, {x}, {.seeds = {seed}})[0];
  CHECK(std::isnan(slope.at(0)));
  CHECK(std::isnan(outer.gradient(slope, {x}, {.seeds = {seed}})[0].at(0)));
  CHECK(norm(x.to(DType::f64)).at(0) == Approx(1));
}

TEST_CASE("means of nothing pass a gradient of 0 on", "[extremes]") {
  using Op = std::function<Tensor(const Tensor&)>;
  const Op op = GENERATE(from_range(std::vector<Op>{
      [](const Tensor& x) { return mean(x); },
      [](const Tensor& x) { return var(x); },
      [](const Tensor& x) { return mse_loss(x, x); },
  }));
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Tensor x = Tensor::empty({0, 3}, dtype), dy = Tensor::scalar(1, dtype);
  Tape outer;
  outer.watch(dy);
  Tape inner;
  inner.watch(x);
  const Tensor y = op(x);
  CHECK(std::isnan(y.item()));
  const Tensor dx = inner.gradient(y, {x}, {.seeds = {dy}})[0];
  CHECK(outer.gradient(sum(dx), {dy})[0].item() == 0);
}

TEST_CASE("a scalar has a dimension 0 to reduce along, as in PyTorch", "[extremes]") {
  const Tensor x = Tensor::scalar(2, DType::f64);
  CHECK(sum(x, {0}).item() == 2);
  CHECK(mean(x, {-1}, true).shape() == Shape{});
  CHECK(max(x, 0).values.item() == 2);
  CHECK(argmax(x, -1).item() == 0);
  CHECK(transpose(x, 0, -1).item() == 2);
  CHECK_THROWS_WITH(sum(x, {1}), ContainsSubstring("no dimension 1"));
}
