#include <set>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Names = std::set<std::string>;

// x² with a vjp that claims the derivative is x.
Tensor wrong_square(const Tensor& x) {
  return apply(
      "test.wrong_square", {x}, [](Inputs in, Saved& saved) { return saved.keep(in[0]) * in[0]; },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads { return {dy * saved[0]}; });
}

// x³, whose derivative is right but depends on x behind the tape's back.
Tensor unrecorded_cube(const Tensor& x) {
  return apply(
      "test.unrecorded_cube", {x},
      [](Inputs in, Saved& saved) { return saved.keep(in[0]) * in[0] * in[0]; },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {dy * (saved[0] * saved[0] * 3).detach()};
      });
}

Names failed(const std::vector<GradientCheck>& checks) {
  Names names;
  for (const GradientCheck& check : checks) {
    if (!check.passed) names.insert(check.op);
  }
  return names;
}

}  // namespace

TEST_CASE("first and second derivatives of every op agree with differences", "[op_table]") {
  Names wholes;
  for (const OpCase& op_case : op_table()) {
    const OpChecks checks = check_op_case(op_case);
    for (const auto* list : {&checks.first, &checks.second}) {
      for (const GradientCheck& check : *list) {
        INFO(op_case.str() << (list == &checks.first ? ": " : ", second derivative: ")
                           << check.str());
        CHECK(check.passed);
        wholes.insert(check.op);
      }
    }
    // Each case as a whole, in both orders.
    CHECK(wholes.count(op_case.str()) == 1);
    CHECK(wholes.count("gradient of " + op_case.str()) == 1);
  }
  const std::map<std::string, OpCoverage> coverage = op_coverage();
  CHECK(coverage.size() >= 40);
  CHECK(missing_cases(ops_that_ran(), coverage) == std::vector<std::string>{});
  for (const char* name : {"add", "sub", "mul", "div", "pow", "maximum"}) {
    INFO("op " << name << ": the op table needs a line with inputs that broadcast");
    CHECK(coverage.at(name).broadcast);
  }
}

TEST_CASE("what adds a gradient to a sum adds what the vjp returns", "[op_table]") {
  std::set<std::string_view> seen;
  for (const OpCase& op_case : op_table()) {
    Rng rng(12);
    const std::vector<Tensor> inputs = op_case.inputs(rng);
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    op_case.run(inputs);
    const TapePause pause;
    for (const auto& step : tape.record().steps) {
      if (!step->add) continue;
      INFO(op_case.str() << ": " << step->name);
      seen.insert(step->name);
      const Tensor dy = normal(rng, step->outputs[0].shape);
      Tensor sum = normal(rng, step->inputs[0].shape);
      const std::vector<Tensor> dys = {dy};
      const Tensor expected = sum + step->vjp(dys, step->saved, {true})[0];
      step->add(dy, step->saved, sum);
      CHECK(difference(sum, expected, 1e-14, 1e-14) == "");
    }
  }
  CHECK(seen == std::set<std::string_view>{"gather_rows"});
}

TEST_CASE("a wrong vjp fails the gradient check, which names that op alone", "[op_table]") {
  Rng rng(1);
  const Tensor x = parameter(rng, {3});
  Tape tape({.checkable = true});
  tanh(wrong_square(exp(x)) * x);
  const auto checks = check_gradients(tape);
  CHECK(checks.size() == 5);
  CHECK(failed(checks) == Names{"test.wrong_square"});
  for (const GradientCheck& check : checks) {
    if (check.passed) continue;
    CHECK(check.numeric == Approx(2 * check.analytic));
    CHECK_THAT(check.str(), ContainsSubstring("[test.wrong_square] input 0 of (3) → (3)") &&
                                ContainsSubstring("WRONG"));
  }
}

TEST_CASE("a vjp that hides a dependency from the tape fails the check of its second derivative",
          "[op_table]") {
  const OpCase op_case{
      "unrecorded_cube", {{3}}, Draw::normal, [](Inputs x) { return unrecorded_cube(x[0]); }};
  const OpChecks checks = check_op_case(op_case);
  CHECK(failed(checks.first).empty());
  CHECK(failed(checks.second) == Names{"gradient of unrecorded_cube (3)"});
}

TEST_CASE("a gradient check holds f32 ops to f32's accuracy", "[op_table]") {
  Rng rng(2);
  const Tensor x = parameter(rng, {4, 5}, DType::f32), w = parameter(rng, {3, 5}, DType::f32);
  Tape tape({.checkable = true});
  sum(wrong_square(linear(x, w)));
  CHECK(failed(check_gradients(tape, {.tolerance = 1e-2})) == Names{"test.wrong_square"});
}

TEST_CASE("a gradient check needs the forwards of a tape that has not run", "[op_table]") {
  Rng rng(2);
  const Tensor x = parameter(rng, {4});
  {
    Tape tape({.checkable = true});
    const Tensor y = sum(x);
    CHECK(check_gradients(tape).size() == 2);  // sum and reshape
    tape.backward(y);
    CHECK_THROWS_WITH(check_gradients(tape), ContainsSubstring("the tape has run backward"));
  }
  Tape tape;
  sum(x);
  CHECK_THROWS_WITH(check_gradients(tape),
                    ContainsSubstring("step 0 (sum)") && ContainsSubstring("{.checkable = true}"));
}
