#include "tapegrad/autograd/check/op_table.h"

#include <cmath>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {
namespace {

Tensor random_like(const Tensor& t, Rng& rng) {
  Tensor r = Tensor::empty(t.shape(), t.dtype());
  rng.normal(std::span(r.mutable_data<double>(), static_cast<std::size_t>(r.numel())), 0, 1);
  return r;
}

// The gradients of all inputs x…, end to end in one tensor, as a function of (x…, dy).
Tensor gradient_of(const OpCase& op_case, Inputs inputs_and_dy) {
  const Inputs inputs = inputs_and_dy.first(inputs_and_dy.size() - 1);
  Tape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Grads grads = tape.gradient(op_case.run(inputs), {inputs.begin(), inputs.end()},
                                    {.seeds = {inputs_and_dy.back()}});
  std::vector<Tensor> flat;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    flat.push_back(grads[i].defined() ? reshape(grads[i], {grads[i].numel()})
                                      : Tensor::zeros({inputs[i].numel()}, DType::f64));
  }
  return concat(flat, 0);
}

// Checks f as if it were one op.
std::vector<GradientCheck> check_whole(const std::string& name, const std::vector<Tensor>& inputs,
                                       const std::function<Tensor(Inputs)>& f,
                                       const GradientCheckOptions& options) {
  Tape tape({.checkable = true});
  for (const Tensor& x : inputs) tape.watch(x);
  checkpoint([&](Inputs in, Rng*) { return f(in); }, inputs);
  std::vector<GradientCheck> checks = check_gradients(tape, options);
  for (GradientCheck& check : checks) check.op = name;
  return checks;
}

}  // namespace

std::string OpCase::str() const {
  std::string text = op;
  for (const Shape& shape : shapes) text += (text == op ? " " : ", ") + shape.str();
  return text;
}

std::vector<Tensor> OpCase::inputs(Rng& rng) const {
  std::int64_t total = 0;
  for (const Shape& shape : shapes) total += shape.numel();
  const std::vector<std::int64_t> order = rng.randperm(std::max<std::int64_t>(1, total));
  std::vector<Tensor> tensors;
  std::size_t next = 0;
  for (const Shape& shape : shapes) {
    Tensor x = random_like(Tensor::empty(shape, DType::f64), rng);
    double* values = x.mutable_data<double>();
    for (std::int64_t i = 0; i < x.numel(); ++i, ++next) {
      if (draw == Draw::positive) values[i] = 0.5 + std::abs(values[i]);
      if (draw == Draw::spread)
        values[i] = 0.25 * static_cast<double>(order[next] - total / 2) + 0.1;
    }
    tensors.push_back(x);
  }
  return tensors;
}

OpChecks check_op_case(const OpCase& op_case, const GradientCheckOptions& options) {
  Rng rng(options.seed);
  std::vector<Tensor> inputs = op_case.inputs(rng);
  const Tensor dy = random_like(op_case.run(inputs), rng);
  OpChecks checks;
  {
    Tape outer({.checkable = true});
    for (const Tensor& x : inputs) outer.watch(x);
    outer.watch(dy);
    Tape inner({.checkable = true});
    for (const Tensor& x : inputs) inner.watch(x);
    const Tensor y = op_case.run(inputs);
    checks.first = check_gradients(inner, options);
    inner.gradient(y, inputs, {.seeds = {dy}});
    checks.second = check_gradients(outer, options);
    // The outer tape has recorded the steps of the inner one as well.
    checks.second.erase(checks.second.begin(),
                        checks.second.begin() + static_cast<std::ptrdiff_t>(checks.first.size()));
  }
  const auto add = [](std::vector<GradientCheck>& to, const std::vector<GradientCheck>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  add(checks.first, check_whole(op_case.str(), inputs, op_case.run, options));
  inputs.push_back(dy);
  add(checks.second, check_whole(
                         "gradient of " + op_case.str(), inputs,
                         [&](Inputs in) { return gradient_of(op_case, in); }, options));
  return checks;
}

}  // namespace tapegrad
