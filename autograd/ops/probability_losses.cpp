// Losses between probabilities: binary cross entropies and the Kullback–Leibler divergence.

#include <cmath>
#include <limits>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/wide_math.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/factor_products.h"

namespace tapegrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastLog = -100;  // logarithms are limited to this, as in PyTorch

void check_shapes(std::string_view op, const Tensor& x, const Tensor& target) {
  check(x.shape() == target.shape(), "[{}] shapes differ: {} and {}", op, x.shape(),
        target.shape());
}

void check_probabilities(std::string_view op, const Tensor& t) {
  dispatch(t.dtype(), [&](auto zero) {
    const auto values = t.values<decltype(zero)>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      check(values[i] >= 0 && values[i] <= 1,
            "[{}] {} at position {} is no probability: give logits to {}_with_logits", op,
            values[i], i, op);
    }
  });
}

Tensor reduced(std::string_view op, const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    case Reduction::batchmean:
      check(losses.rank() > 0, "[{}] a scalar has no batch to take the mean over", op);
      return sum(losses) / static_cast<double>(losses.dim(0));
  }
  return {};
}

// The losses times weights that broadcast to them, if there are any.
Tensor weighted(std::string_view op, const Tensor& losses, const Tensor& weight) {
  if (!weight.defined()) return losses;
  check(broadcast_shapes(op, losses.shape(), weight.shape()) == losses.shape(),
        "[{}] weight {} does not broadcast to {}", op, weight.shape(), losses.shape());
  return losses * weight;
}

template <class T>
T limited_log(T log) {
  return log < static_cast<T>(kLeastLog) ? static_cast<T>(kLeastLog) : log;
}

// The logarithm that the loss has, log or log1p of x, made of ops. It is limited and has no slope
// where x is `pole`: the slope of the logarithm itself, times 0, is NaN there.
Tensor limited(Tensor (*logarithm)(const Tensor&), const Tensor& x, double pole) {
  const Tensor infinite = eq(x, pole);
  const Tensor y = logarithm(masked_fill(x, infinite, 1));
  return masked_fill(clamp(y, kLeastLog, kInfinity), infinite, kLeastLog);
}

// −t·log p − (1 − t)·log(1 − p), elementwise.
Tensor cross_entropies(const Tensor& p, const Tensor& target) {
  return apply(
      "binary_cross_entropy", {p, target},
      [](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        saved.keep(in[1]);
        return zip("binary_cross_entropy", in[0], in[1], [](auto q, auto t) {
          return (t - 1) * limited_log(wide_log1p(-q)) - t * limited_log(std::log(q));
        });
      },
      [](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &q = saved[0], &t = saved[1];
        Grads grads(2);
        if (needs[0]) grads[0] = dy * ((q - t) / clamp(q * (1.0 - q), 1e-12, kInfinity));
        if (needs[1]) grads[1] = dy * (limited(log1p, -q, -1) - limited(log, q, 0));
        return grads;
      },
      {.onnx = [](OnnxCall& c) {
        return c.composed([](Inputs in) {
          const auto log_of = [](const Tensor& q) { return clamp(log(q), kLeastLog, kInfinity); };
          return (in[1] - 1.0) * log_of(1.0 - in[0]) - in[1] * log_of(in[0]);
        });
      }});
}

// dy times the slope by the logit. As an op of its own it has derivatives that subtract nothing:
// that of the slope by x is σ(x)·σ(−x), and by the target −1.
Tensor logit_gradient(const Tensor& dy, const Tensor& logits, const Tensor& target) {
  return apply(
      "binary_cross_entropy_with_logits_backward", {dy, logits, target},
      [](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        const Tensor &d = in[0], &x = in[1], &t = in[2];
        return d * ((1.0 - t) * sigmoid(x) - t * sigmoid(-x));
      },
      [](const Tensor& d, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &g = saved[0], &x = saved[1], &t = saved[2];
        Grads grads(3);
        if (needs[0]) grads[0] = logit_gradient(d, x, t);
        if (needs[1]) grads[1] = quotient_of_products({d, g, sigmoid(x), sigmoid(-x)});
        if (needs[2]) grads[2] = -d * g;
        return grads;
      });
}

// The cross entropies with p = σ(x). (1 − t)·σ(x) − t·σ(−x) is σ(x) − t, but loses nothing where
// the two are nearly equal.
Tensor cross_entropies_of_logits(const Tensor& logits, const Tensor& target) {
  return apply(
      "binary_cross_entropy_with_logits", {logits, target},
      [](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        saved.keep(in[1]);
        return zip("binary_cross_entropy_with_logits", in[0], in[1], [](auto x, auto t) {
          // (1 − t)·log(1 + eˣ) + t·log(1 + e⁻ˣ), of which this is a common part:
          const auto rest = wide_softplus(-std::abs(x));
          return (x > 0 ? (1 - t) * x : -t * x) + rest;
        });
      },
      [](const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &x = saved[0], &t = saved[1];
        Grads grads(2);
        if (needs[0]) grads[0] = logit_gradient(dy, x, t);
        if (needs[1]) grads[1] = dy * -x;
        return grads;
      },
      {.onnx = [](OnnxCall& c) {
        return c.composed(
            [](Inputs in) { return relu(in[0]) - in[0] * in[1] + softplus(-abs(in[0])); });
      }});
}

// dy·(log t + 1 − x), the gradient by the target, whose own is a quotient of all at once.
Tensor divergence_gradient(const Tensor& dy, const Tensor& x, const Tensor& target) {
  return apply(
      "kl_div_backward", {dy, x, target},
      [](Inputs in, Saved& saved) {
        for (const Tensor& t : in) saved.keep(t);
        return in[0] * ((log(in[2]) + 1.0) - in[1]);
      },
      [](const Tensor& d, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor &g = saved[0], &q = saved[1], &t = saved[2];
        Grads grads(3);
        if (needs[0]) grads[0] = sum_to(divergence_gradient(d, q, t), g.shape());
        if (needs[1]) grads[1] = sum_to(-d * g, q.shape());
        if (needs[2]) grads[2] = sum_to(quotient_of_products({d, g}, {t}), t.shape());
        return grads;
      });
}

// t·(log t − x), elementwise, with 0·log 0 = 0.
Tensor divergences(const Tensor& x, const Tensor& target) {
  return apply(
      "kl_div", {x, target},
      [](Inputs in, Saved& saved) {
        saved.keep(in[0]);
        saved.keep(in[1]);
        return zip("kl_div", in[0], in[1], [](auto q, auto t) {
          const auto p = static_cast<double>(t);  // for the difference, which may be small
          return static_cast<decltype(t)>(t == 0 ? -t * q : p * (std::log(p) - q));
        });
      },
      [xs = x.shape(), ts = target.shape()](const Tensor& dy, const Saved& saved,
                                            const Needs& needs) -> Grads {
        const Tensor &q = saved[0], &t = saved[1];
        Grads grads(2);
        if (needs[0]) grads[0] = sum_to(dy * -t, xs);
        if (needs[1]) grads[1] = sum_to(divergence_gradient(dy, q, t), ts);
        return grads;
      },
      {.onnx = [](OnnxCall& c) {
        return c.composed([](Inputs in) {  // 0 · log 0 is to be 0
          return in[1] * (log(clamp(in[1], 1e-37, kInfinity)) - in[0]);
        });
      }});
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                            const BinaryLossOptions& options) {
  const std::string_view op = "binary_cross_entropy";
  check_shapes(op, p, target);
  check(!options.pos_weight.defined(), "[{}] pos_weight is for logits: see weight", op);
  check_probabilities(op, p);
  check_probabilities(op, target);
  return reduced(op, weighted(op, cross_entropies(p, target), options.weight), options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryLossOptions& options) {
  const std::string_view op = "binary_cross_entropy_with_logits";
  check_shapes(op, logits, target);
  Tensor losses = cross_entropies_of_logits(logits, target);
  if (options.pos_weight.defined()) {
    losses = losses + weighted(op, target * softplus(-logits), options.pos_weight - 1.0);
  }
  return reduced(op, weighted(op, losses, options.weight), options.reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options) {
  const Tensor losses = options.log_target ? exp(target) * (target - x) : divergences(x, target);
  return reduced("kl_div", losses, options.reduction);
}

}  // namespace tapegrad
