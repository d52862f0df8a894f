// An op of your own, a model that uses it, and the check of their gradients in f32
// (docs/add-an-op.md):
//
//   own_op          checks
//   own_op wrong    checks the op with a wrong gradient, which is found

#include <fmt/core.h>
#include <tapegrad/autograd/apply.h>
#include <tapegrad/autograd/check/gradcheck.h>
#include <tapegrad/autograd/kernels/elementwise.h>
#include <tapegrad/tapegrad.h>

#include <cmath>

using namespace tapegrad;

// x / (1 + |x|), elementwise.
Tensor softsign(const Tensor& x) {
  return apply(
      "softsign", {x},
      [](Inputs in, Saved& saved) {
        return map(saved.keep(in[0]), [](auto v) { return v / (1 + std::abs(v)); });
      },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        const Tensor root = 1.0 + abs(saved[0]);
        return {dy / (root * root)};
      });
}

// Softsign with a slip: its derivative lacks the square.
Tensor wrong_softsign(const Tensor& x) {
  return apply(
      "softsign", {x},
      [](Inputs in, Saved& saved) {
        return map(saved.keep(in[0]), [](auto v) { return v / (1 + std::abs(v)); });
      },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {dy / (1.0 + abs(saved[0]))};
      });
}

int main(int argc, char**) {
  const auto op = argc > 1 ? wrong_softsign : softsign;
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Linear first(params / "first", 3, 8), second(params / "second", 8, 4);
  const Tensor x = Tensor::ones({5, 3}), targets = Tensor::from<std::int32_t>({0, 1, 2, 3, 0}, {5});

  const auto loss = [&] { return cross_entropy(second(op(first(x))), targets); };
  bool right = true;
  for (const auto& checks :
       {check_function("softsign", [=](Inputs in) { return op(in[0]); }, {first.weight}),
        check_function("loss", loss, params.parameters())}) {
    for (const GradientCheck& check : checks) {
      fmt::print("{}\n", check.str());
      right = right && check.passed;
    }
  }
  return right ? 0 : 1;
}
