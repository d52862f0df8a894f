#include "tapegrad/optim/lbfgs/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/optim/lbfgs/internal/strong_wolfe.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kChunk = 16384;

// The largest |element|; NaN if one is NaN.
double largest(const Tensor& t) {
  return dispatch(t.dtype(), [&](auto zero) {
    auto result = zero;
    for (const auto x : t.values<decltype(zero)>()) {
      if (std::isnan(x)) return static_cast<double>(x);
      result = std::max(result, std::abs(x));
    }
    return static_cast<double>(result);
  });
}

// a += factor·b.
void add_scaled(Tensor& a, const Tensor& b, double factor) {
  dispatch(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* x = a.mutable_data<T>();
    const T *y = b.data<T>(), f = static_cast<T>(factor);
    parallel_for(a.numel(), kChunk, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] += f * y[i];
    });
  });
}

// A copy of the parameters' elements, or what `of` makes of each, in one row.
template <class Of>
Tensor in_a_row(const NamedTensors& parameters, std::int64_t size, const Of& of) {
  Tensor row = Tensor::zeros({size}, parameters[0].second.dtype());
  dispatch(row.dtype(), [&](auto zero) {
    auto* to = row.mutable_data<decltype(zero)>();
    for (const auto& [name, parameter] : parameters) {
      const Tensor t = of(parameter);
      if (t.defined()) std::copy_n(t.data<decltype(zero)>(), t.numel(), to);
      to += parameter.numel();
    }
  });
  return row;
}

}  // namespace

LBFGS::LBFGS(NamedTensors parameters, const LBFGSOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  check_numbers("LBFGSOptions", {{"lr", options.lr, at_least(0)},
                                 {"max_iter", number(options.max_iter), at_least(1)},
                                 {"max_eval", number(options.max_eval), at_least(0)},
                                 {"tolerance_grad", options.tolerance_grad, at_least(0)},
                                 {"tolerance_change", options.tolerance_change, at_least(0)},
                                 {"history_size", number(options.history_size), at_least(1)}});
  check(!parameters_.empty(), "[LBFGS] there are no parameters");
  const DType dtype = parameters_[0].second.dtype();
  for (const auto& [name, parameter] : parameters_) {
    check(parameter.dtype() == dtype, "[LBFGS] parameters need one dtype: {} is {}, {} is {}",
          parameters_[0].first, name_of(dtype), name, name_of(parameter.dtype()));
    size_ += parameter.numel();
  }
}

double LBFGS::inner(const Tensor& a, const Tensor& b) {
  std::vector<double> sums(static_cast<std::size_t>((a.numel() + kChunk - 1) / kChunk), 0.0);
  dispatch(a.dtype(), [&](auto zero) {
    const auto *x = a.data<decltype(zero)>(), *y = b.data<decltype(zero)>();
    parallel_for(a.numel(), kChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sums[static_cast<std::size_t>(i / kChunk)] +=
            static_cast<double>(x[i]) * static_cast<double>(y[i]);
      }
    });
  });
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

Tensor LBFGS::flat() const {
  return in_a_row(parameters_, size_, [](const Tensor& p) { return p; });
}

// Sets the parameters to from + t·direction.
void LBFGS::place(const Tensor& from, double t) {
  Tensor to = from.clone();
  if (t != 0) add_scaled(to, memory_.direction, t);
  dispatch(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* next = to.data<T>();
    for (const auto& [name, parameter] : parameters_) {
      Tensor p = parameter;
      std::copy_n(next, p.numel(), p.mutable_data<T>());
      next += p.numel();
    }
  });
}

LBFGS::Point LBFGS::evaluate(const Closure& closure) {
  for (auto& [name, parameter] : parameters_) parameter.zero_grad();
  ++memory_.evaluations;
  const double loss = closure();
  return {loss, in_a_row(parameters_, size_, [](const Tensor& p) { return p.grad(); })};
}

void LBFGS::learn(Tensor gradient_change, Tensor parameter_change) {
  const double product = inner(gradient_change, parameter_change);
  if (!(product > kLeastProduct)) return;
  auto& changes = memory_.changes;
  if (std::ssize(changes) == options_.history_size) changes.erase(changes.begin());
  changes.push_back({std::move(gradient_change), std::move(parameter_change), product});
}

// The gradient's negative times the approximate inverse of the Hessian (algorithm 7.4).
void LBFGS::set_direction(const Tensor& gradient) {
  if (++memory_.iterations > 1) {
    learn(gradient - memory_.gradient, memory_.direction * memory_.length);
  }
  memory_.gradient = gradient;
  Tensor d = -gradient;
  const auto& changes = memory_.changes;
  std::vector<double> alpha(changes.size());
  for (std::size_t i = changes.size(); i-- > 0;) {
    alpha[i] = inner(changes[i].parameters, d) / changes[i].product;
    add_scaled(d, changes[i].gradient, -alpha[i]);
  }
  if (!changes.empty()) {
    const Change& newest = changes.back();
    d = d * (newest.product / inner(newest.gradient, newest.gradient));
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const double beta = inner(changes[i].gradient, d) / changes[i].product;
    add_scaled(d, changes[i].parameters, alpha[i] - beta);
  }
  memory_.direction = std::move(d);
}

// Goes along the direction, and returns where that leads.
LBFGS::Point LBFGS::advance(const Closure& closure, const Point& from, double slope,
                            std::int64_t evaluations_left, bool last) {
  const Tensor x = flat();
  Point to = from;
  try {
    if (options_.line_search == LBFGSOptions::LineSearch::strong_wolfe) {
      const auto at = [&](double t) -> LinePoint {
        place(x, t);
        Point p = evaluate(closure);
        return {t, p.loss, inner(p.gradient, memory_.direction), p.gradient};
      };
      const LinePoint found =
          strong_wolfe(at, {0, from.loss, slope, from.gradient}, memory_.length,
                       {evaluations_left, options_.tolerance_change, largest(memory_.direction)});
      memory_.length = found.t;
      to = {found.loss, found.gradient};
      place(x, found.t);
    } else {
      place(x, memory_.length);
      // Nobody needs the loss behind the last iteration.
      if (!last) to = evaluate(closure);
    }
    check_finite(to);
  } catch (...) {
    place(x, 0);
    throw;
  }
  return to;
}

void LBFGS::check_finite(const Point& point) {
  check(std::isfinite(point.loss), "[LBFGS] the loss is {}", point.loss);
  check(std::isfinite(largest(point.gradient)), "[LBFGS] a gradient is not finite");
}

double LBFGS::step(const Closure& closure) {
  const std::int64_t max_eval =
      options_.max_eval > 0 ? options_.max_eval : options_.max_iter * 5 / 4;
  const std::int64_t before = memory_.evaluations;
  const auto left = [&] { return max_eval - (memory_.evaluations - before); };
  Point at = evaluate(closure);
  check_finite(at);
  const double first_loss = at.loss;
  for (std::int64_t i = 1; i <= options_.max_iter; ++i) {
    if (largest(at.gradient) <= options_.tolerance_grad || (i > 1 && left() <= 0)) break;
    set_direction(at.gradient);
    memory_.length = options_.lr;
    if (memory_.iterations == 1) memory_.length *= std::min(1.0, 1 / sum(abs(at.gradient)).item());
    const double slope = inner(at.gradient, memory_.direction);
    if (slope > -options_.tolerance_change) break;
    const double loss = at.loss;
    at = advance(closure, at, slope, left(), i == options_.max_iter);
    if (largest(memory_.direction) * memory_.length <= options_.tolerance_change) break;
    if (std::abs(at.loss - loss) < options_.tolerance_change) break;
  }
  return first_loss;
}

}  // namespace tapegrad::optim
