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

// A small transformer block with dropout, of the kind that is checkpointed.
Tensor block(const Tensor& x, const Tensor& w, const Tensor& norm, Rng* rng) {
  const Tensor h = attention(linear(layer_norm(x, norm), w), 2, {.dropout = 0.2, .rng = rng});
  return x + dropout(gelu(h), 0.3, *rng);
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

TEST_CASE("a checkpoint gives bit-equal gradients with dropout inside", "[checkpoint]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng init(2);
    const Tensor x = parameter(init, {2, 6, 8}, dtype), w = parameter(init, {24, 8}, dtype);
    const Tensor norm = parameter(init, {8}, dtype);
    const auto run = [&](bool checkpointed) {
      Rng rng(9);
      Tape tape;
      const auto f = [&](Inputs in, Rng* r) { return block(in[0], w, norm, r); };
      Tensor y = x;
      for (int layer = 0; layer < 2; ++layer) {
        y = checkpointed ? checkpoint(f, {y}, &rng) : block(y, w, norm, &rng);
      }
      const Tensor loss = mean(y * y);
      CHECK(tape.saved_bytes() < (checkpointed ? 20U : 200U) * x.bytes());
      Grads grads = tape.gradient(loss, {x, w, norm});
      grads.push_back(loss);
      grads.push_back(Tensor::scalar(rng.uniform()));  // the stream goes on as without it
      return grads;
    };
    const Grads plain = run(false), again = run(true);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
  }
}

TEST_CASE("a checkpoint accumulates into the parameters that it uses", "[checkpoint]") {
  const Tensor w = vector({2, 3}).set_requires_grad(), x = vector({5, 7});
  Tape tape;
  const Tensor y = checkpoint([&](Inputs in, Rng*) { return in[0] * w * w; }, {x});
  tape.backward(sum(y));
  CHECK(list(w.grad()) == std::vector<double>{20, 42});
}

TEST_CASE("a checkpoint of a function that returns a tensor as it got it", "[checkpoint]") {
  const Tensor w = vector({2, 3}).set_requires_grad(), x = vector({5, 7}).set_requires_grad();
  Rng rng(1);
  SECTION("an input") {
    Tape tape;
    const Tensor y = checkpoint([](Inputs in, Rng* r) { return dropout(in[0], 0, *r); }, {x}, &rng);
    tape.backward(sum(y * y));
    CHECK(list(x.grad()) == std::vector<double>{10, 14});
  }
  SECTION("a parameter from outside") {
    Tape tape;
    const Tensor y = checkpoint([&](Inputs, Rng*) { return w; }, {x});
    tape.backward(sum(y * x));
    CHECK(list(w.grad()) == std::vector<double>{5, 7});
    CHECK(list(x.grad()) == std::vector<double>{2, 3});
  }
  SECTION("something that depends on no parameter") {
    Tape tape;
    const Tensor y = checkpoint([](Inputs, Rng*) { return vector({1, 2}); }, {x});
    tape.backward(sum(y * x));
    CHECK(list(x.grad()) == std::vector<double>{1, 2});
  }
}

TEST_CASE("a checkpoint within a checkpoint, and one input given twice", "[checkpoint]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const auto inner = [](Inputs in, Rng*) { return in[0] * in[1]; };
  const auto outer = [&](Inputs in, Rng*) { return checkpoint(inner, {in[0], in[0]}) * in[0]; };
  tape.backward(sum(checkpoint(outer, {x})));
  CHECK(list(x.grad()) == std::vector<double>{12, 27});
}

TEST_CASE("a checkpoint notices that an input was changed", "[checkpoint]") {
  Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(checkpoint([](Inputs in, Rng*) { return in[0] * in[0]; }, {x}));
  x.mutable_data<double>()[0] = 5;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[checkpoint]"));
}
