#include <limits>

#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::clip_grad_norm;
using optim::grad_norm;

namespace {

// Parameters whose gradients are [[1, −2], [0.5, 3]] and [−4, 0.25], and one without a gradient.
NamedTensors with_gradients(DType dtype = DType::f32) {
  Tensor p = Tensor::zeros({2, 2}, dtype), b = Tensor::zeros({2}, dtype);
  p.set_requires_grad().set_grad(Tensor::from<float>({1, -2, 0.5F, 3}, {2, 2}).to(dtype));
  b.set_requires_grad().set_grad(Tensor::from<float>({-4, 0.25F}, {2}).to(dtype));
  return {{"p", p}, {"b", b}, {"unused", Tensor::zeros({3}, dtype).set_requires_grad()}};
}

NamedTensors with_gradient(const Tensor& grad) {
  Tensor t = Tensor::zeros(grad.shape(), grad.dtype());
  t.set_requires_grad().set_grad(grad);
  return {{"t", t}};
}

}  // namespace

// torch.nn.utils.clip_grad_norm_ on the same gradients.
TEST_CASE("gradients above the limit are scaled to it, as PyTorch scales them", "[clip]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const NamedTensors parameters = with_gradients(dtype);
    CHECK(clip_grad_norm(parameters, 1.0) == Approx(5.505678653717041).epsilon(1e-7));
    const Tensor p = Tensor::from<double>(
        {0.18163062632083893, -0.36326125264167786, 0.09081531316041946, 0.544891893863678},
        {2, 2});
    CHECK(difference(parameters[0].second.grad().to(DType::f64), p, 2e-7, 0) == "");
    CHECK(grad_norm(parameters) == Approx(1).epsilon(1e-6));
    CHECK_FALSE(parameters[2].second.grad().defined());
  }
}

TEST_CASE("AdamW with the factor of clipping makes the step that it makes of clipped gradients",
          "[clip]") {
  NamedTensors clipped = with_gradients(), whole = with_gradients();
  optim::AdamW first(clipped), second(whole);
  for (int i = 0; i < 3; ++i) {
    clip_grad_norm(clipped, 1.0);
    first.step(0.1);
    const auto [norm, factor] = optim::measure_clipping(whole, 1.0);
    CHECK(norm == Approx(5.505678653717041));
    second.step(0.1, factor);
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(difference(whole[k].second, clipped[k].second, 1e-7, 0) == "");
      clipped[k].second.set_grad(whole[k].second.grad().clone());
    }
  }
}

TEST_CASE("gradients within the limit keep their bits", "[clip]") {
  for (const double limit : {5.6, 20.0, std::numeric_limits<double>::infinity(), 0.0}) {
    const NamedTensors parameters = with_gradients();
    CHECK(clip_grad_norm(parameters, limit) == Approx(5.505678653717041).epsilon(1e-7));
    CHECK(list(parameters[0].second.grad()) == std::vector<double>{1, -2, 0.5, 3});
    CHECK(list(parameters[1].second.grad()) == std::vector<double>{-4, 0.25});
  }
}

TEST_CASE("a clipped gradient is changed in place, where other handles see it", "[clip]") {
  const NamedTensors parameters = with_gradients();
  const Tensor handle = parameters[0].second.grad();
  clip_grad_norm(parameters, 1e-3);
  CHECK(std::abs(handle.at(0)) < 1e-3);
}

// In f32, squares of 1e30 are infinite, and beyond 2²⁴ ones a sum does not grow any more.
TEST_CASE("the norm is summed in double", "[clip]") {
  const NamedTensors large = with_gradient(Tensor::full({2}, 3e30));
  CHECK(grad_norm(large) == Approx(3e30 * std::sqrt(2.0)).epsilon(1e-6));
  CHECK(clip_grad_norm(large, 1) > 1e30);
  CHECK(large[0].second.grad().at(0) == Approx(std::sqrt(0.5)).epsilon(1e-6));
  const std::int64_t n = (std::int64_t{1} << 24) + 1001;
  CHECK(grad_norm(with_gradient(Tensor::ones({n}))) == Approx(std::sqrt(n)).epsilon(1e-12));
}

TEST_CASE("the norm does not depend on the number of threads", "[clip]") {
  Rng rng(1);
  const NamedTensors parameters = with_gradient(normal(rng, {100003}, DType::f32));
  const Threads one(1);
  const double expected = grad_norm(parameters);
  const Threads three(3);
  CHECK(grad_norm(parameters) == expected);
}

TEST_CASE("a norm that is not finite stops the step and leaves the gradients", "[clip]") {
  const float bad =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  for (const double limit : {1.0, 0.0}) {
    const NamedTensors parameters = with_gradient(Tensor::from<float>({1, bad, 2}, {3}));
    CHECK_THROWS_WITH(
        clip_grad_norm(parameters, limit),
        ContainsSubstring("the gradient norm is ") && ContainsSubstring("Lower the learning rate"));
    CHECK(parameters[0].second.grad().at(0) == 1);
  }
}

TEST_CASE("a limit that means nothing is an error", "[clip]") {
  CHECK_THROWS_WITH(clip_grad_norm(with_gradients(), -1), ContainsSubstring("-1"));
  CHECK_THROWS_WITH(clip_grad_norm(with_gradients(), std::nan("")), ContainsSubstring("nan"));
}

// torch.nn.utils.clip_grad_value_
TEST_CASE("clip_grad_value cuts each element, as PyTorch does, in place", "[clip]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const NamedTensors parameters = with_gradients(dtype);
  const Tensor handle = parameters[0].second.grad();
  optim::clip_grad_value(parameters, 1.5);
  CHECK(list(handle) == std::vector<double>{1, -1.5, 0.5, 1.5});
  CHECK(list(parameters[1].second.grad()) == std::vector<double>{-1.5, 0.25});
  CHECK_FALSE(parameters[2].second.grad().defined());
  optim::clip_grad_value(parameters, 0);
  CHECK(list(handle) == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("clip_grad_value cuts infinities, keeps NaN, and refuses a limit that means nothing",
          "[clip]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const NamedTensors parameters =
      with_gradient(Tensor::from<float>({inf, -inf, std::nanf("")}, {3}));
  optim::clip_grad_value(parameters, 2);
  const Tensor grad = parameters[0].second.grad();
  CHECK((grad.at(0) == 2 && grad.at(1) == -2 && std::isnan(grad.at(2))));
  CHECK_THROWS_WITH(optim::clip_grad_value(parameters, -1),
                    "clip_value must be at least 0, not -1");
  CHECK_THROWS_WITH(optim::clip_grad_value(parameters, std::nan("")), ContainsSubstring("not nan"));
}

TEST_CASE("the norm of no gradients is 0", "[clip]") {
  CHECK(grad_norm({}) == 0);
  CHECK(clip_grad_norm({}, 1) == 0);
}
