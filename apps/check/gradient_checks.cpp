#include "tapegrad/apps/check/gradient_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::checks {
namespace {

// A model with inputs and targets to run it on.
struct Subject {
  const nn::Decoder& gpt;
  NamedTensors parameters;
  Tensor inputs, targets;

  Tensor loss() const { return cross_entropy(gpt(inputs), targets); }
};

Subject on_random_tokens(const nn::Decoder& gpt, const NamedTensors& parameters,
                         std::uint64_t seed) {
  Rng rng(seed);
  const std::int64_t B = 2, T = std::min<std::int64_t>(8, gpt.config.block_size);
  const auto draw = [&] {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(B * T));
    for (auto& id : ids) id = static_cast<std::int32_t>(rng.randint(gpt.config.vocab_size));
    return Tensor::from(ids, {B, T});
  };
  const Tensor inputs = draw(), targets = draw();
  return {gpt, parameters, inputs, targets};
}

// The recorded steps of one forward pass. Steps that have op and shapes in common share a row.
void check_steps(const Subject& subject, CheckReport& report) {
  std::vector<Row> rows;
  Tape tape({.checkable = true});
  subject.loss();
  for (GradientCheck& check : check_gradients(tape, report.options().check)) {
    if (!report.wants(check.op)) continue;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.name == check.op && r.shapes == check.shapes;
    });
    if (row == rows.end()) row = rows.insert(row, {check.op, check.shapes, {}, {}});
    row->first.push_back(std::move(check));
  }
  for (const Row& row : rows) report.add(row);
}

// x ← start + h·v
void move(Tensor x, const Tensor& start, const Tensor& v, double h) {
  double* to = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    to[i] = start.data<double>()[i] + h * v.data<double>()[i];
}

// The slope of the loss along a random direction of unit length in one parameter, whose gradient is
// `grad`. Differences over several lengths: a long one is disturbed by curvature, a short one by
// rounding.
GradientCheck check_slope(const Subject& subject, const std::string& name, const Tensor& x,
                          const Tensor& grad, const GradientCheckOptions& options, Rng& rng) {
  const Tensor start = x.detach().clone();
  Tensor v = Tensor::empty(x.shape(), DType::f64);
  rng.normal(std::span(v.mutable_data<double>(), static_cast<std::size_t>(v.numel())), 0,
             1 / std::sqrt(static_cast<double>(v.numel())));
  GradientCheck result{.op = name, .shapes = x.shape().str()};
  if (grad.defined()) result.analytic = sum(grad * v).item();
  result.error = std::numeric_limits<double>::infinity();
  for (const double h : {1e-3, 1e-4, 1e-5}) {
    move(x, start, v, h);
    const double above = subject.loss().item();
    move(x, start, v, -h);
    const double below = subject.loss().item();
    const double numeric = (above - below) / (2 * h);
    const double rounding = 8 * std::numeric_limits<double>::epsilon() * std::abs(above) / h;
    const double error = gradient_error(result.analytic, numeric, rounding, options);
    if (error < result.error) {
      result.error = error;
      result.numeric = numeric;
    }
  }
  move(x, start, v, 0);
  result.passed = result.error <= options.tolerance;
  return result;
}

void check_parameters(const Subject& subject, CheckReport& report) {
  std::vector<Tensor> tensors;
  for (const auto& [name, t] : subject.parameters) tensors.push_back(t);
  Grads grads;
  {
    Tape tape;
    grads = tape.gradient(subject.loss(), tensors);
  }
  Rng rng(report.options().check.seed);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = subject.parameters[i].first;
    if (!report.wants(name)) continue;
    report.add({name,
                tensors[i].shape().str(),
                {check_slope(subject, name, tensors[i], grads[i], report.options().check, rng)},
                {}});
  }
}

}  // namespace

void check_ops(CheckReport& report) {
  report.section("Ops: first and second derivatives, in f64", "op", true);
  for (const OpCase& op_case : op_table()) {
    if (!report.wants(op_case.op)) continue;
    OpChecks checks = check_op_case(op_case, report.options().check);
    std::string shapes;
    for (const Shape& shape : op_case.shapes) shapes += (shapes.empty() ? "" : ", ") + shape.str();
    report.add({op_case.op, shapes, std::move(checks.first), std::move(checks.second)});
  }
}

void check_gpt(const std::string& title, const nn::Decoder& gpt, const NamedTensors& parameters,
               CheckReport& report) {
  const Subject subject = on_random_tokens(gpt, parameters, report.options().check.seed);
  report.section(fmt::format("{}: every step, on {} random tokens", title, subject.inputs.shape()),
                 "step", false);
  check_steps(subject, report);
  report.section(title + ": the slope of the loss along each parameter", "parameter", false);
  check_parameters(subject, report);
}

}  // namespace tapegrad::checks
