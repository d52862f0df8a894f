#include <cmath>
#include <numeric>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/kernels/internal/distillation_rows.h"
#include "tapegrad/autograd/kernels/internal/loss_rows.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/ops/internal/ids.h"
#include "tapegrad/autograd/tensor/tracked.h"

namespace tapegrad {
namespace {

// Calls f(row, its target).
template <class F>
void for_rows(const Tensor& logits, const Targets& targets, const F& f) {
  const std::int32_t* id = targets.ids.data<std::int32_t>();
  parallel_for(logits.dim(0), std::max<std::int64_t>(1, 4096 / logits.dim(1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) f(r, id[r]);
               });
}

// `sums` (rows, 3) gets the TargetSums of each row.
template <class T>
Tensor forward_loss(const Tensor& logits, const Targets& targets, Tensor& sums) {
  const std::int64_t n = logits.dim(1);
  const T* in = logits.data<T>();
  T* sum = sums.mutable_data<T>();
  std::vector<double> losses(static_cast<std::size_t>(logits.dim(0)), 0.0);
  for_rows(logits, targets, [&](std::int64_t r, std::int32_t target) {
    if (target == targets.ignore_index) return;
    const TargetSums<T> row = target_sums(in + r * n, target, n);
    sum[3 * r] = row.top;
    sum[3 * r + 1] = row.target;
    sum[3 * r + 2] = row.others;
    losses[static_cast<std::size_t>(r)] = loss_of_row(in + r * n, row, target);
  });
  const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
  // Rounded first: a loss beyond the range is infinite.
  return Tensor::scalar(static_cast<T>(total / static_cast<double>(targets.count)), logits.dtype());
}

// (softmax(logits) − onehot(target))·dy/count, 0 for ignored rows.
template <class T>
Tensor backward_loss(const Tensor& dy, const Tensor& logits, const Targets& targets,
                     const Tensor& sums) {
  const std::int64_t n = logits.dim(1);
  Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype());
  const T *in = logits.data<T>(), *sum = sums.data<T>();
  T* out = dlogits.mutable_data<T>();
  const double scale = dy.item() / static_cast<double>(targets.count);
  for_rows(logits, targets, [&](std::int64_t r, std::int32_t target) {
    if (target == targets.ignore_index) {
      std::fill_n(out + r * n, n, T{0});
      return;
    }
    const TargetSums<T> row{sum[3 * r], sum[3 * r + 1], sum[3 * r + 2]};
    loss_gradient_row(in + r * n, row, target, scale, n, out + r * n);
  });
  return dlogits;
}

// The targets that count, and their rows.
struct Counted {
  Tensor rows, ids;
};

Counted counted_of(const Targets& targets) {
  std::vector<std::int32_t> picked, rows;
  const auto ids = targets.ids.values<std::int32_t>();
  for (std::size_t r = 0; r < ids.size(); ++r) {
    if (ids[r] == targets.ignore_index) continue;
    picked.push_back(ids[r]);
    rows.push_back(static_cast<std::int32_t>(r));
  }
  const Shape n{static_cast<std::int64_t>(picked.size())};
  return {Tensor::from(rows, n), Tensor::from(picked, n)};
}

Tensor cross_entropy_reference(const Tensor& logits, const Targets& targets) {
  const Counted counted = counted_of(targets);
  return -mean(gather(gather_rows(log_softmax(logits), counted.rows), counted.ids, -1));
}

}  // namespace

Targets checked_targets(std::string_view op, const Tensor& given, std::int64_t classes,
                        std::int32_t ignore_index) {
  const Tensor targets = ids_as_i32(op, "targets", given);
  check(classes > 0, "[{}] there are no classes", op);
  Targets result{targets.view({targets.numel()}), ignore_index, 0};
  const auto values = targets.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ignore_index) continue;
    check(values[i] >= 0 && values[i] < classes, "[{}] target {} at position {} is outside [0, {})",
          op, values[i], i, classes);
    ++result.count;
  }
  return result;
}

void check_class_weight(std::string_view op, const Tensor& weight, std::int64_t classes) {
  check_untracked(op, "weight", weight);
  check(!weight.defined() || weight.shape() == Shape{classes},
        "[{}] weight {} does not fit {} classes", op, weight.defined() ? weight.shape() : Shape(),
        classes);
}

Tensor probability_losses(const Tensor& logits, const Tensor& q, const Tensor& weight,
                          double smoothing) {
  const std::string_view op = "cross_entropy";
  check(logits.rank() >= 1 && q.shape() == logits.shape() && q.dtype() == logits.dtype(),
        "[{}] targets that are floats are probabilities like the logits: {} {}, not {} {}", op,
        logits.shape(), name_of(logits.dtype()), q.shape(), name_of(q.dtype()));
  const std::int64_t classes = logits.dim(-1);
  check(classes > 0, "[{}] there are no classes", op);
  check_class_weight(op, weight, classes);
  const Tensor smoothed =
      smoothing > 0 ? q * (1 - smoothing) + smoothing / static_cast<double>(classes) : q;
  const Tensor losses = smoothed * log_softmax(logits);
  return -sum(weight.defined() ? losses * weight.to(losses.dtype()) : losses, {-1});
}

Tensor target_log_probs_of(const Tensor& logits, const Targets& targets) {
  Tensor ignored = Tensor::zeros(targets.ids.shape(), DType::u8);
  std::vector<std::int32_t> known;
  for (const std::int32_t id : targets.ids.values<std::int32_t>()) {
    ignored.mutable_data<std::uint8_t>()[known.size()] = id == targets.ignore_index;
    known.push_back(id == targets.ignore_index ? 0 : id);
  }
  const Tensor picked = gather(log_softmax(logits), Tensor::from(known, targets.ids.shape()), -1);
  return masked_fill(picked, ignored, 0);
}

void check_distillation(std::string_view op, double weight, double temperature) {
  check(weight >= 0 && weight <= 1, "[{}] the teacher's weight must be from 0 to 1, not {}", op,
        weight);
  check(temperature > 0 && std::isfinite(temperature),
        "[{}] the temperature must be finite and above 0, not {}", op, temperature);
}

Tensor distillation_of_logits(const Tensor& logits, const Targets& targets,
                              const TeacherLogits& teacher, double weight, double temperature) {
  const Counted counted = counted_of(targets);
  const double inverse = 1 / temperature;
  const Tensor taught = gather_rows(teacher(0, targets.ids.numel()), counted.rows) * inverse;
  const Tensor own = gather_rows(logits, counted.rows) * inverse;
  const Tensor divergence = kl_div(log_softmax(own), log_softmax(taught),
                                   {.reduction = Reduction::sum, .log_target = true});
  return cross_entropy_reference(logits, targets) * (1 - weight) +
         divergence * (weight * temperature * temperature / static_cast<double>(targets.count));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int32_t ignore_index) {
  if (is_float(targets.dtype())) return mean(probability_losses(logits, targets));
  check(logits.rank() >= 1 && targets.shape() == logits.shape().without(-1),
        "[cross_entropy] targets {} do not fit logits {}", targets.shape(), logits.shape());
  const Targets t = checked_targets("cross_entropy", targets, logits.dim(-1), ignore_index);
  return apply_fused(
      {reshape(logits, {targets.numel(), logits.dim(-1)})},
      {.name = "cross_entropy",
       .backward_name = "cross_entropy_backward",
       .forward = [t](Inputs in, const Needs&) -> FusedOp::Output {
         Tensor sums = Tensor::empty({in[0].dim(0), 3}, in[0].dtype());
         const Tensor loss = dispatch(in[0].dtype(), [&](auto zero) {
           return forward_loss<decltype(zero)>(in[0], t, sums);
         });
         return {loss, {sums, t.ids}};
       },
       .backward = [t](const Tensor& dy, Inputs in, Inputs notes, const Needs&) -> Grads {
         return {dispatch(in[0].dtype(), [&](auto zero) {
           return backward_loss<decltype(zero)>(dy, in[0], t, notes[0]);
         })};
       },
       .reference = [t](Inputs in) { return cross_entropy_reference(in[0], t); }});
}

Tensor mse_loss(const Tensor& x, const Tensor& target) {
  check(x.shape() == target.shape(), "[mse_loss] shapes differ: {} and {}", x.shape(),
        target.shape());
  const Tensor difference = x - target;
  return mean(difference * difference);
}

}  // namespace tapegrad
