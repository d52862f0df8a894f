#include "tapegrad/autograd/check/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/base/random.h"

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
    saved = Saved();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) continue;
      for (std::int64_t k = 0; k < outputs[i].numel(); ++k) {
        const double term = directions_[i].at(k) * outputs[i].at(k);
        if (!std::isfinite(term)) continue;
        sum_ += std::abs(term);
        squares_ += term * term;
      }
    }
    for (std::size_t i = 0; i < step_.inputs.size(); ++i) {
      if (needs_[i]) results.push_back(check_input(i, grads.at(i)));
    }
  }

 private:
  // The input, the direction that it moves in, and its gradient.
  struct Line {
    std::size_t input;
    Tensor v, grad;
  };
  // A difference quotient along a line.
  struct Quotient {
    double value, step;
  };

  GradientCheck check_input(std::size_t i, const Tensor& grad) {
    const Tensor v = movable(step_.input_tensors[i], random_like(step_.inputs[i], rng_));
    GradientCheck result{.op = std::string(step_.name), .input = i, .shapes = shapes()};
    const Line line{i, v, grad};
    result.analytic = dot(grad, v);
    if (step_.inputs[i].dtype == DType::f32) {
      compare_f32(line, result);
    } else {
      compare_f64(line, result);
    }
    if (!result.passed) find_worst(line, result);
    return result;
  }

  void compare_f64(const Line& line, GradientCheck& result) const {
    constexpr double unit = std::numeric_limits<double>::epsilon();
    result.error = std::numeric_limits<double>::infinity();
    // Several steps: a large one is disturbed by curvature and kinks, a small one by rounding.
    for (const double h : {1e-4, 1e-5, 1e-6}) {
      const double numeric = quotient(line, h);
      const double error = gradient_error(result.analytic, numeric, 8 * unit * sum_ / h, options_);
      if (error < result.error || result.step == 0) {
        result.error = error;
        result.numeric = numeric;
        result.step = h;
      }
    }
    result.passed = result.error <= options_.tolerance;
  }

  // In f32 the tolerance is what can be measured of the disturbances: the noise of the function and
  // of its gradient, from inputs a few roundings apart, and the curvature, from quotients over
  // steps of different lengths. The step is that of the least sum.
  void compare_f32(const Line& line, GradientCheck& result) const {
    constexpr double unit = std::numeric_limits<float>::epsilon(), ratio = 4;
    const Tensor& x = step_.input_tensors[line.input];
    double squares = 0, terms = 0;
    for (std::int64_t k = 0; k < x.numel(); ++k) {
      squares += std::isfinite(x.at(k)) ? x.at(k) * x.at(k) : 0;
      terms += line.grad.defined() ? std::abs(line.grad.at(k) * line.v.at(k)) : 0;
    }
    const double rms = std::sqrt(squares / static_cast<double>(x.numel()));
    const double scale = rms > 0 ? rms : 1;
    const double noise = value_noise(line, 4 * unit * scale);
    double wider = quotient(line, scale), curvature = 0;
    double least = std::numeric_limits<double>::infinity();
    for (double h = scale / ratio; h > 1e-5 * scale; h /= ratio) {
      const double numeric = quotient(line, h);
      // A kink disturbs in proportion to the step. Two quotients may agree by chance.
      const double bend = std::abs(wider - numeric);
      curvature = std::isfinite(curvature) ? std::max(bend, curvature / ratio) : bend;
      const double disturbance = curvature + 6 * noise / h;
      if (disturbance < least || result.step == 0) {
        if (!std::isnan(disturbance)) least = disturbance;
        result.numeric = numeric;
        result.step = h;
      }
      wider = numeric;
    }
    const double gap = std::abs(result.analytic - result.numeric);
    const double tolerance = least + 4 * slope_noise(line, 4 * unit * scale) + 8 * unit * terms;
    result.error = gap / std::max(std::abs(result.analytic), std::abs(result.numeric));
    if (gap == 0) result.error = 0;
    result.passed = gap <= tolerance && std::isfinite(tolerance);
  }

  // The standard deviation of the function's rounding errors: the fourth differences of values so
  // near each other that all else in them is a straight line, whose differences are 0 (Moré and
  // Wild, "Estimating Computational Noise", 2011). At least that of rounding the outputs, which
  // does not show where all these values are rounded to the same.
  double value_noise(const Line& line, double h) const {
    constexpr double kFourth = 70;  // Σ of the squares of 1, −4, 6, −4, 1
    std::vector<double> values;
    for (int k = -4; k <= 4; ++k) values.push_back(along(line.input, line.v, k * h));
    for (int order = 0; order < 4; ++order) {
      for (std::size_t k = 0; k + 1 < values.size(); ++k) values[k] = values[k + 1] - values[k];
      values.pop_back();
    }
    double squares = 0;
    for (const double difference : values) squares += difference * difference;
    const double measured = std::sqrt(squares / static_cast<double>(values.size()) / kFourth);
    return std::max(measured, 0.5 * std::numeric_limits<float>::epsilon() * std::sqrt(squares_));
  }

  // How far the analytic slope moves with inputs a few roundings away.
  double slope_noise(const Line& line, double h) const {
    const double here = dot(line.grad, line.v);
    double largest = 0;
    for (const double step : {-2 * h, -h, h, 2 * h}) {
      std::vector<Tensor> inputs = step_.input_tensors;
      inputs[line.input] = moved(inputs[line.input], line.v, step);
      Saved saved(step_.name, needs_);
      step_.forward(inputs, saved);
      const Grads grads = step_.vjp(directions_, saved, needs_);
      largest = std::max(largest, std::abs(dot(grads.at(line.input), line.v) - here));
    }
    return largest;
  }

  double quotient(const Line& line, double h) const {
    return (along(line.input, line.v, h) - along(line.input, line.v, -h)) / (2 * h);
  }

  // The line with a direction of zeros outside of elements [begin, end).
  static Line part(const Line& line, std::int64_t begin, std::int64_t end) {
    Line result = line;
    result.v = Tensor::zeros(line.v.shape(), line.v.dtype());
    dispatch(line.v.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::copy(line.v.data<T>() + begin, line.v.data<T>() + end,
                result.v.mutable_data<T>() + begin);
    });
    return result;
  }

  // How far the two slopes along the line are apart. NaN is further than anything.
  double gap(const Line& line, double h) const {
    const double gap = std::abs(dot(line.grad, line.v) - quotient(line, h));
    return std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap;
  }

  // Halves the input, going on with the half that is further off, and compares the elements of what
  // is left one by one.
  void find_worst(const Line& line, GradientCheck& result) const {
    constexpr std::int64_t few = 64;
    std::int64_t begin = 0, end = line.v.numel();
    while (end - begin > few) {
      const std::int64_t middle = begin + (end - begin) / 2;
      const bool first =
          gap(part(line, begin, middle), result.step) >= gap(part(line, middle, end), result.step);
      (first ? end : begin) = middle;
    }
    double worst = -1;
    for (std::int64_t k = begin; k < end; ++k) {
      const Line one = part(line, k, k + 1);
      const double v = one.v.at(k), off = gap(one, result.step) / std::abs(v);
      if (v == 0 || !(off > worst)) continue;
      worst = off;
      result.worst = {k, place_of(k, line.v.shape()), line.grad.defined() ? line.grad.at(k) : 0,
                      quotient(one, result.step) / v, result.step * std::abs(v)};
    }
  }

  static std::string place_of(std::int64_t k, const Shape& shape) {
    Shape place = shape;
    for (int d = shape.rank(); d-- > 0; k /= shape[d]) place[d] = k % shape[d];
    return place.str();
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
  double sum_ = 0, squares_ = 0;  // of the terms of ⟨u, f(x)⟩
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
  std::string text =
      fmt::format("[{}] input {} of {}: analytic {:.9g}, numeric {:.9g}, error {:.2e}: {}", op,
                  input, shapes, analytic, numeric, error, passed ? "ok" : "WRONG");
  if (worst.index >= 0) {
    text +=
        fmt::format("; most at element {}: analytic {:.9g}, numeric {:.9g} over a step of {:.1e}",
                    worst.place, worst.analytic, worst.numeric, worst.step);
  }
  return text;
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
  for (const Tensor& x : inputs) step.add_input(x);
  step.add_output(f(inputs));
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

std::vector<GradientCheck> check_function(
    const std::string& name, const std::function<Tensor()>& f,
    std::span<const std::pair<std::string, Tensor>> parameters,
    const GradientCheckOptions& options) {
  const TapePause pause;
  std::vector<Tensor> targets, start;
  for (const auto& [parameter_name, t] : parameters) {
    targets.push_back(t);
    start.push_back(t.clone());
  }
  const auto set = [&](Inputs values) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      dispatch(targets[i].dtype(), [&](auto zero) {
        using T = decltype(zero);
        std::copy_n(values[i].template data<T>(), values[i].numel(), targets[i].mutable_data<T>());
      });
    }
  };
  struct Restore {  // also if f throws
    std::function<void()> run;
    ~Restore() { run(); }
  } const restore{[&] { set(start); }};

  Step step;
  step.name = name;
  for (const Tensor& t : start) step.add_input(t);
  step.add_output(f());
  step.input_tensors = start;
  std::vector<Tensor> at = start;  // where the vjp is taken
  step.forward = [&](Inputs in, Saved&) {
    at.assign(in.begin(), in.end());
    set(in);
    return std::vector{f()};
  };
  step.vjp = [&](Inputs dys, const Saved&, const Needs&) {
    set(at);
    Tape tape;
    for (const Tensor& t : targets) tape.watch(t);
    const Tensor y = f();
    return tape.tracks(y) ? tape.gradient(y, targets, {.seeds = {dys[0]}}) : Grads(targets.size());
  };
  std::vector<GradientCheck> results;
  StepCheck(step, Needs(targets.size(), true), options).run(results);
  for (GradientCheck& check : results) check.op += ", " + parameters[check.input].first;
  return results;
}

}  // namespace tapegrad
