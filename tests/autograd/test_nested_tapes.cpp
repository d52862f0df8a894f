#include <cmath>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A small perceptron's loss as a function of its weights.
Tensor loss_of(const std::vector<Tensor>& w, const Tensor& x, const Tensor& target) {
  return mse_loss(linear(gelu(layer_norm(linear(x, w[0], w[1]), w[2])), w[3]), target);
}

}  // namespace

TEST_CASE("nested tapes give derivatives of any order", "[nested]") {
  const Tensor x = Tensor::scalar(0.7, DType::f64);
  Tape third, second, first;
  for (Tape* tape : {&third, &second, &first}) tape->watch(x);
  const Tensor y = x * std::sin(1) + exp(x * 2.0);
  const Tensor dy = first.gradient(y, {x})[0];
  const Tensor ddy = second.gradient(dy, {x})[0];
  const Tensor dddy = third.gradient(ddy, {x})[0];
  CHECK(dy.item() == Approx(std::sin(1) + 2 * std::exp(1.4)));
  CHECK(ddy.item() == Approx(4 * std::exp(1.4)));
  CHECK(dddy.item() == Approx(8 * std::exp(1.4)));
}

TEST_CASE("an outer tape differentiates through an inner gradient into a parameter", "[nested]") {
  const Tensor w = Tensor::scalar(3, DType::f64).set_requires_grad();
  const Tensor x = Tensor::scalar(2, DType::f64);
  Tape outer;
  Tensor gradient;
  {
    Tape inner;
    inner.watch(x);
    gradient = inner.gradient(w * x * x, {x})[0];  // 2wx
  }
  outer.backward(gradient * gradient);  // (2wx)², by w: 8wx²
  CHECK(w.grad().item() == Approx(8 * 3 * 4));
}

TEST_CASE("the Hessian-vector product of a perceptron agrees with differences", "[nested]") {
  Rng rng(1);
  const Tensor x = normal(rng, {4, 3}), target = normal(rng, {4, 2});
  const std::vector<Tensor> w = {normal(rng, {5, 3}), normal(rng, {5}), normal(rng, {5}),
                                 normal(rng, {2, 5})};
  std::vector<Tensor> v;
  for (const Tensor& t : w) v.push_back(normal(rng, t.shape()));

  const auto gradient_at = [&](double h) {
    std::vector<Tensor> at;
    for (std::size_t i = 0; i < w.size(); ++i) at.push_back(w[i] + v[i] * h);
    Tape tape;
    for (const Tensor& t : at) tape.watch(t);
    return tape.gradient(loss_of(at, x, target), at);
  };
  Tape outer;
  for (const Tensor& t : w) outer.watch(t);
  Grads gradient;
  {
    Tape inner;
    for (const Tensor& t : w) inner.watch(t);
    gradient = inner.gradient(loss_of(w, x, target), w);
  }
  const Grads product = outer.gradient(gradient, w, {.seeds = v});
  const double h = 1e-5;
  const Grads above = gradient_at(h), below = gradient_at(-h);
  for (std::size_t i = 0; i < w.size(); ++i) {
    CHECK(difference(product[i], (above[i] - below[i]) / (2 * h), 1e-6, 1e-8) == "");
  }
}
