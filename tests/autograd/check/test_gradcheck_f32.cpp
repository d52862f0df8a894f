#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// x·|x| elementwise, whose gradient is off by `factor` at one element.
Tensor off_at(const Tensor& x, std::int64_t element, double factor) {
  return apply(
      "test.off_at", {x}, [](Inputs in, Saved& saved) { return saved.keep(in[0]) * abs(in[0]); },
      [=](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        Tensor slope = abs(saved[0]) * 2.0;
        dispatch(slope.dtype(), [&](auto zero) {
          using T = decltype(zero);
          slope.mutable_data<T>()[element] *= static_cast<T>(factor);
        });
        return {dy * slope};
      });
}

std::vector<GradientCheck> check_off_at(const Tensor& x, std::int64_t element, double factor) {
  Tensor parameter = x.clone().set_requires_grad();
  const Tape tape({.checkable = true});
  off_at(parameter, element, factor);
  return check_gradients(tape);
}

}  // namespace

TEST_CASE("a gradient check of f32 finds a wrong element and prints it", "[gradcheck]") {
  Rng rng(1);
  const double scale = GENERATE(1e-4, 1.0, 1e4);
  const DType dtype = scale == 1 ? GENERATE(DType::f32, DType::f64) : DType::f32;
  const Tensor x = normal(rng, {3, 50}, dtype, scale);
  INFO(check_off_at(x, 107, 1)[0].str());
  CHECK(check_off_at(x, 107, 1)[0].passed);
  const GradientCheck check = check_off_at(x, 107, 1.5)[0];
  INFO(check.str());
  CHECK_FALSE(check.passed);
  CHECK(check.worst.index == 107);
  CHECK(check.worst.analytic == Approx(1.5 * check.worst.numeric).epsilon(1e-2));
  CHECK(check.worst.step > 0);
  CHECK_THAT(check.str(), ContainsSubstring("element (2, 7)") && ContainsSubstring("step"));
}

TEST_CASE("every op of the table passes in f32", "[gradcheck]") {
  for (const OpCase& op_case : op_table()) {
    Rng rng(7);
    std::vector<Tensor> inputs;
    for (const Tensor& x : op_case.inputs(rng)) inputs.push_back(x.to(DType::f32));
    for (const GradientCheck& check : check_function(op_case.str(), op_case.run, inputs)) {
      INFO(check.str());
      CHECK(check.passed);
    }
  }
}

TEST_CASE("a user's model is checked in f32, parameter by parameter", "[gradcheck]") {
  Rng rng(3);
  const nn::Params params(rng);
  const nn::GPT gpt(params,
                    {.vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
  const Tensor tokens = Tensor::from<std::int32_t>({0, 1, 2, 3, 4, 0, 1, 2}, {1, 8});
  const Tensor targets = Tensor::from<std::int32_t>({1, 2, 3, 4, 10, 1, 2, 3}, {1, 8});
  const Tensor before = params.parameters()[0].second.clone();
  const bool right = GENERATE(true, false);
  const auto loss = [&] {
    const Tensor y = gpt(tokens);
    return cross_entropy(right ? y : off_at(y, 40, 3), targets);
  };
  bool all_passed = true;
  for (const GradientCheck& check : check_function("loss", loss, params.parameters())) {
    INFO(check.str());
    if (right) CHECK(check.passed);
    all_passed = all_passed && check.passed;
    CHECK_THAT(check.op, ContainsSubstring("loss, "));
  }
  CHECK(all_passed == right);
  CHECK(same_bits(before, params.parameters()[0].second));
}
