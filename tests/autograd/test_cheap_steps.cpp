#include <functional>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct Weights {
  Tensor x, norm, bias, w;
  explicit Weights(Rng& rng, DType dtype = DType::f64)
      : x(parameter(rng, {6, 8}, dtype)),
        norm(parameter(rng, {8}, dtype)),
        bias(parameter(rng, {8}, dtype)),
        w(parameter(rng, {5, 8}, dtype)) {}
};

std::size_t saved_by(const std::function<void()>& f) {
  Tape tape;
  f();
  return tape.saved_bytes();
}

}  // namespace

TEST_CASE("of cheap steps the outputs are not kept", "[cheap]") {
  Rng rng(1);
  const Weights p(rng);
  const std::size_t weights = p.norm.bytes() + p.bias.bytes();
  const std::size_t stats = 6 * 2 * 8;
  // gelu keeps x, and linear the weight: a kept output would be as large as x again.
  CHECK(saved_by([&] { linear(gelu(p.x), p.w); }) == p.x.bytes() + p.w.bytes());
  CHECK(saved_by([&] { linear(gelu(p.x, Gelu::erf), p.w); }) == p.x.bytes() + p.w.bytes());
  CHECK(saved_by([&] { linear(layer_norm(p.x, p.norm, p.bias), p.w); }) ==
        p.x.bytes() + weights + stats + p.w.bytes());
  CHECK(saved_by([&] { linear(rms_norm(p.x, p.norm), p.w); }) ==
        p.x.bytes() + p.norm.bytes() + stats / 2 + p.w.bytes());
  CHECK(saved_by([&] { linear(relu2(p.x), p.w); }) == p.x.bytes() + p.w.bytes());
  const Tensor up = p.x.clone();
  CHECK(saved_by([&] { linear(swiglu(p.x, up), p.w); }) == p.x.bytes() + up.bytes() + p.w.bytes());
  // A cheap step on a cheap step keeps its input as it is, so that no chain is made again.
  CHECK(saved_by([&] { linear(gelu(gelu(p.x)), p.w); }) == 2 * p.x.bytes() + p.w.bytes());
  // relu keeps its result, which linear shares.
  CHECK(saved_by([&] { linear(relu(p.x), p.w); }) == p.x.bytes() + p.w.bytes());
}

TEST_CASE("outputs that are made again give the gradients of those that are kept", "[cheap]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng rng(2);
    const Weights p(rng, dtype);
    const Tensor seed = normal(rng, {6, 5}, dtype);
    for (const bool with_norm : {false, true}) {
      const auto cheap = [&] { return with_norm ? layer_norm(p.x, p.norm, p.bias) : gelu(p.x); };
      Tape tape;
      const Grads again = tape.gradient(linear(cheap(), p.w), {p.x, p.w}, {.seeds = {seed}});
      // The same in two parts, with the output as a leaf in between, which is kept.
      const Tensor leaf = cheap().detach().set_requires_grad();
      Tape second;
      const Grads behind = second.gradient(linear(leaf, p.w), {leaf, p.w}, {.seeds = {seed}});
      Tape first;
      const Grads before = first.gradient(cheap(), {p.x}, {.seeds = {behind[0]}});
      CHECK(same_bits(again[0], before[0]));
      CHECK(same_bits(again[1], behind[1]));
    }
  }
}

TEST_CASE("a kept tape makes cheap outputs again for every backward", "[cheap]") {
  Rng rng(3);
  const Weights p(rng);
  Tape tape;
  const Tensor y = sum(linear(gelu(p.x), p.w) * 2.0);
  const Grads once = tape.gradient(y, {p.x, p.w}, {.keep = true});
  const Grads twice = tape.gradient(y, {p.x, p.w});
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(same_bits(once[i], twice[i]));
}

TEST_CASE("derivatives of any order go through outputs that are made again", "[cheap]") {
  Rng rng(4);
  const Weights p(rng);
  for (const bool with_norm : {false, true}) {
    const auto gradient_of = [&](const Tensor& x) {
      Tape tape;
      const Tensor h = with_norm ? layer_norm(x, p.norm, p.bias) : gelu(x);
      const Tensor y = linear(h, p.w);
      return tape.gradient(sum(y * y * y), {p.w})[0];
    };
    Tensor direction = normal(rng, p.x.shape());
    Tape outer;
    const Tensor measure = sum(gradient_of(p.x));
    const double slope = sum(outer.gradient(measure, {p.x})[0] * direction).item();
    const double h = 1e-5;
    const double up = sum(gradient_of((p.x + direction * h).detach().set_requires_grad())).item();
    const double down = sum(gradient_of((p.x - direction * h).detach().set_requires_grad())).item();
    CHECK(slope == Approx((up - down) / (2 * h)).epsilon(1e-7));
  }
}

TEST_CASE("an input that changed is noticed before an output is made again of it", "[cheap]") {
  Tensor x = Tensor::ones({2, 3}).set_requires_grad();
  const Tensor w = Tensor::ones({4, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(linear(gelu(x), w));
  x.mutable_data<float>()[0] = 5;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[gelu] a tensor of shape (2, 3)"));
}

TEST_CASE("an output that changed before it was kept is kept as it is", "[cheap]") {
  Rng rng(6);
  const Weights p(rng);
  Tape tape;
  Tensor h = gelu(p.x);
  h.mutable_data<double>()[0] = 100;
  const Grads g = tape.gradient(sum(linear(h, p.w)), {p.w});
  CHECK(difference(g[0], matmul(Tensor::ones({5, 6}, DType::f64), h), 1e-12, 0) == "");
  Tape second;
  h = gelu(p.x);
  const Tensor y = sum(linear(h, p.w));
  h.mutable_data<double>()[0] = 100;  // too late to matter
  CHECK(
      same_bits(second.gradient(y, {p.w})[0], matmul(Tensor::ones({5, 6}, DType::f64), gelu(p.x))));
}

TEST_CASE("an output that lives is not made again", "[cheap]") {
  Rng rng(7);
  const Weights p(rng);
  Tape outer;
  Tensor h;
  Tensor measure;
  {
    Tape tape;
    h = gelu(p.x).set_requires_grad();
    const Tensor y = linear(h, p.w);
    measure = sum(tape.gradient(sum(y * y), {p.w})[0]);
  }
  CHECK(outer.gradient(measure, {h})[0].shape() == h.shape());
}

TEST_CASE("what is made again is dropped again, also from a tape that is kept", "[cheap]") {
  Rng rng(8);
  const Weights p(rng);
  Tape tape;
  Tensor y;
  {
    const Tensor h = layer_norm(p.x, p.norm, p.bias);
    y = sum(linear(h, p.w) + linear(h, p.w) * linear(h, p.w));
  }
  const std::size_t before = tape.saved_bytes();
  tape.gradient(y, {p.w, p.x}, {.keep = true});
  CHECK(tape.saved_bytes() == before);
}

TEST_CASE("an op that calls itself cheap must have kept its inputs", "[cheap]") {
  Rng rng(9);
  const Tensor x = parameter(rng, {2, 3});
  Tape tape;
  const auto forward = [](Inputs in, Saved&) { return in[0] * 2.0; };
  const auto vjp = [](const Tensor& dy, const Saved&, const Needs&) -> Grads { return {dy * 2.0}; };
  CHECK_THROWS_WITH(apply("test.twice", {x}, forward, vjp, {.cheap = true}),
                    ContainsSubstring("[test.twice] a cheap op"));
}

TEST_CASE("a checkable tape still runs its cheap steps again by themselves", "[cheap]") {
  Rng rng(5);
  const Weights p(rng);
  {
    Tape tape({.checkable = true});
    sum(linear(gelu(layer_norm(p.x, p.norm, p.bias)), p.w));
    for (const GradientCheck& check : check_gradients(tape)) {
      INFO(check.str());
      CHECK(check.passed);
    }
  }
  Tape plain;
  gelu(p.x);
  CHECK_THROWS_WITH(check_gradients(plain), ContainsSubstring("(gelu) cannot be run again"));
}
