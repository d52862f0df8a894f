#include "tapegrad/autograd/check/gradcheck.h"

#include <array>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/base/random.h"
#include "tapegrad/autograd/step.h"

namespace tapegrad {
namespace {

Tensor random_like(const Step::Slot& slot, Rng& rng) {
  Tensor t = Tensor::empty(slot.shape, DType::f64);
  rng.normal(std::span(t.mutable_data<double>(), static_cast<std::size_t>(t.numel())), 0.0, 1.0);
  return t.to(slot.dtype);
}

// Undefined tensors count as zeros. So do infinities in b: a small move leaves them what they are.
double dot(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return 0;
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += std::isinf(b.at(i)) ? 0 : a.at(i) * b.at(i);
  return sum;
}

// v with zeros where x is infinite, and so cannot be moved.
Tensor movable(const Tensor& x, Tensor v) {
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      if (std::isinf(x.data<T>()[i])) v.mutable_data<T>()[i] = 0;
    }
  });
  return v;
}

// x + h·v.
Tensor moved(const Tensor& x, const Tensor& v, double h) {
  Tensor y = x.clone();
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = y.mutable_data<T>();
    const T* from = v.data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) to[i] += static_cast<T>(h) * from[i];
  });
  return y;
}

class StepCheck {
 public:
  StepCheck(const Step& step, const Needs& needs, const GradientCheckOptions& options)
      : step_(step), needs_(needs), options_(options), rng_(options.seed) {
    for (const Step::Slot& output : step.outputs) {
      directions_.push_back(output.id == 0 ? Tensor() : random_like(output, rng_));
    }
  }

  void run(std::vector<GradientCheck>& results) {
    Saved saved(step_.name, needs_);
    const std::vector<Tensor> outputs = step_.forward(step_.input_tensors, saved);
    const Grads grads = step_.vjp(directions_, saved, needs_);
    double size = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) continue;
      for (std::int64_t k = 0; k < outputs[i].numel(); ++k) {
        const double term = directions_[i].at(k) * outputs[i].at(k);
        size += std::isfinite(term) ? std::abs(term) : 0;
      }
    }
    for (std::size_t i = 0; i < step_.inputs.size(); ++i) {
      if (needs_[i]) results.push_back(check_input(i, grads.at(i), size));
    }
  }

 private:
  GradientCheck check_input(std::size_t i, const Tensor& grad, double size) {
    const Tensor v = movable(step_.input_tensors[i], random_like(step_.inputs[i], rng_));
    GradientCheck result{.op = std::string(step_.name), .input = i, .shapes = shapes()};
    result.analytic = dot(grad, v);
    result.error = std::numeric_limits<double>::infinity();
    const bool f32 = step_.inputs[i].dtype == DType::f32;
    const double unit =
        f32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    // Several steps: a large one is disturbed by curvature and kinks, a small one by rounding.
    for (const double h : f32 ? std::array{3e-2, 1e-2, 3e-3} : std::array{1e-4, 1e-5, 1e-6}) {
      const double numeric = (along(i, v, h) - along(i, v, -h)) / (2 * h);
      const double error = gradient_error(result.analytic, numeric, 8 * unit * size / h, options_);
      if (error < result.error) {
        result.error = error;
        result.numeric = numeric;
      }
    }
    result.passed = result.error <= options_.tolerance;
    return result;
  }

  // ⟨u, f(x + h·v)⟩ with input i moved.
  double along(std::size_t i, const Tensor& v, double h) const {
    std::vector<Tensor> inputs = step_.input_tensors;
    inputs[i] = moved(inputs[i], v, h);
    Saved saved;
    const std::vector<Tensor> outputs = step_.forward(inputs, saved);
    double sum = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) sum += dot(directions_[k], outputs[k]);
    return sum;
  }

  std::string shapes() const {
    std::string text;
    for (const Step::Slot& slot : step_.inputs) {
      text += (text.empty() ? "" : ", ") + (slot.id == 0 ? "-" : slot.shape.str());
    }
    text += " →";
    for (const Step::Slot& slot : step_.outputs) {
      text += " " + (slot.id == 0 ? "-" : slot.shape.str());
    }
    return text;
  }

  const Step& step_;
  const Needs& needs_;
  const GradientCheckOptions& options_;
  Rng rng_;
  std::vector<Tensor> directions_;
};

}  // namespace

double gradient_error(double analytic, double numeric, double rounding,
                      const GradientCheckOptions& options) {
  const double gap = std::abs(analytic - numeric);
  // Scaled so that a difference of `rounding` is an error of exactly the tolerance.
  const double scale =
      std::max(std::max(std::abs(analytic), std::abs(numeric)), rounding / options.tolerance);
  return gap == 0 ? 0 : gap / scale;
}

std::string GradientCheck::str() const {
  return fmt::format("[{}] input {} of {}: analytic {:.9g}, numeric {:.9g}, error {:.2e}: {}", op,
                     input, shapes, analytic, numeric, error, passed ? "ok" : "WRONG");
}

std::vector<GradientCheck> check_gradients(const Tape& tape, const GradientCheckOptions& options) {
  check(options.tolerance > 0, "[check_gradients] the tolerance must be above 0, not {}",
        options.tolerance);
  std::vector<GradientCheck> results;
  const TapePause pause;
  const TapeRecord& record = tape.record();
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    const auto& step = record.steps[i];
    check(step != nullptr,
          "[check_gradients] the tape has run backward: check it before, or pass "
          "{{.keep = true}} to backward");
    check(step->input_tensors.size() == step->inputs.size(),
          "[check_gradients] step {} ({}) cannot be run again: make the tape with "
          "{{.checkable = true}}",
          i, step->name);
    StepCheck(*step, record.needs[i], options).run(results);
  }
  return results;
}

std::vector<GradientCheck> check_function(const std::string& name,
                                          const std::function<Tensor(Inputs)>& f,
                                          const std::vector<Tensor>& inputs,
                                          const GradientCheckOptions& options) {
  const TapePause pause;
  Step step;
  step.name = name;
  for (const Tensor& x : inputs) step.inputs.push_back(Step::slot_of(x));
  step.outputs = {Step::slot_of(f(inputs))};
  step.input_tensors = inputs;
  step.forward = [&](Inputs in, Saved&) { return std::vector{f(in)}; };
  step.vjp = [&](Inputs dys, const Saved&, const Needs&) {
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = f(inputs);
    return tape.tracks(y) ? tape.gradient(y, inputs, {.seeds = {dys[0]}}) : Grads(inputs.size());
  };
  std::vector<GradientCheck> results;
  StepCheck(step, Needs(inputs.size(), true), options).run(results);
  return results;
}

}  // namespace tapegrad
