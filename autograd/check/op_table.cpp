#include "tapegrad/autograd/check/op_table.h"

#include <cmath>

#include "tapegrad/autograd/internal/step.h"
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

// Calls between() with a tape that has recorded the case, and then with one that has recorded the
// case and its gradient.
template <class F>
void record_case(const OpCase& op_case, const std::vector<Tensor>& inputs, const Tensor& dy,
                 TapeOptions options, const F& between) {
  Tape outer(options);
  for (const Tensor& x : inputs) outer.watch(x);
  outer.watch(dy);
  Tape inner(options);
  for (const Tensor& x : inputs) inner.watch(x);
  const Tensor y = op_case.run(inputs);
  between(inner);
  inner.gradient(y, inputs, {.seeds = {dy}});
  between(outer);
}

void add_coverage(OpCoverage& coverage, const Step& step) {
  std::vector<Shape> seen;
  for (const Step::Slot& input : step.inputs) {
    if (input.id == 0) continue;
    const bool edge = input.shape.rank() == 0 || input.shape.numel() == 0;
    (edge ? coverage.edge : coverage.ordinary) = true;
    coverage.broadcast = coverage.broadcast || (!seen.empty() && seen.back() != input.shape);
    seen.push_back(input.shape);
  }
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
  std::vector<GradientCheck>* into = &checks.first;
  record_case(op_case, inputs, dy, {.checkable = true}, [&](const Tape& tape) {
    *into = check_gradients(tape, options);
    into = &checks.second;
  });
  // The outer tape has recorded the steps of the inner one as well.
  checks.second.erase(checks.second.begin(),
                      checks.second.begin() + static_cast<std::ptrdiff_t>(checks.first.size()));
  const auto add = [](std::vector<GradientCheck>& to, const std::vector<GradientCheck>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  add(checks.first, check_function(op_case.str(), op_case.run, inputs, options));
  inputs.push_back(dy);
  add(checks.second, check_function(
                         "gradient of " + op_case.str(),
                         [&](Inputs in) { return gradient_of(op_case, in); }, inputs, options));
  return checks;
}

std::map<std::string, OpCoverage> op_coverage() {
  std::map<std::string, OpCoverage> coverage;
  for (const OpCase& op_case : op_table()) {
    Rng rng(0);
    const std::vector<Tensor> inputs = op_case.inputs(rng);
    const Tensor dy = random_like(op_case.run(inputs), rng);
    record_case(op_case, inputs, dy, {}, [&](const Tape& tape) {
      for (const auto& step : tape.record().steps) {
        add_coverage(coverage[std::string(step->name)], *step);
      }
    });
  }
  return coverage;
}

std::vector<std::string> missing_cases(const std::vector<std::string>& ops,
                                       const std::map<std::string, OpCoverage>& coverage) {
  // The mean over no targets is NaN, and logits have at least one dimension.
  const std::string no_edge = "cross_entropy";
  std::vector<std::string> missing;
  for (const std::string& op : ops) {
    if (op.rfind("test.", 0) == 0) continue;
    const auto it = coverage.find(op);
    const OpCoverage found = it == coverage.end() ? OpCoverage{} : it->second;
    if (!found.ordinary) {
      missing.push_back("op " + op + ": the op table needs a line for it at ordinary shapes");
    }
    if (!found.edge && op != no_edge) {
      missing.push_back("op " + op +
                        ": the op table needs a line with an input that is empty or of rank 0");
    }
  }
  return missing;
}

}  // namespace tapegrad
