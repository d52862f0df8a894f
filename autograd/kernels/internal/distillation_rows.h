#pragma once

#include <cmath>
#include <functional>
#include <string_view>

#include "tapegrad/autograd/kernels/internal/loss_rows.h"

namespace tapegrad {

// The softmax of a row's logits at a temperature: what exponentials are of, and their sum.
template <class T>
struct SoftmaxSums {
  T top, inverse;  // 1/temperature
  double total;

  T exponential(T logit) const { return fast_exp((logit - top) * inverse); }
};
template <class T>
SoftmaxSums<T> softmax_sums(const T* logits, double temperature, std::int64_t n) {
  SoftmaxSums<T> sums{max_row(logits, n), static_cast<T>(1 / temperature), 0};
  sums.total = sum_row<double>(
      n, [=](std::int64_t i) { return static_cast<double>(sums.exponential(logits[i])); });
  return sums;
}

// Σ q·(log q − log p) for the softmaxes q of the teacher's logits and p of the model's. Where they
// are nearly equal, as all are at a high temperature, it is a small difference of large sums: in
// f64.
template <class T>
double divergence_of_row(const T* logits, const SoftmaxSums<T>& model, const T* teacher,
                         const SoftmaxSums<T>& taught, std::int64_t n) {
  const double difference = sum_row<double>(n, [=](std::int64_t i) {
    const T above = (teacher[i] - taught.top) - (logits[i] - model.top);
    return static_cast<double>(taught.exponential(teacher[i]) * above * taught.inverse);
  });
  return difference / taught.total + std::log(model.total) - std::log(taught.total);
}

// Makes the teacher's logits of rows [first, first + n) as a tensor (n, V).
using TeacherLogits = std::function<Tensor(std::int64_t first, std::int64_t n)>;

// linear_distillation() of logits (N, V), by primitive ops.
Tensor distillation_of_logits(const Tensor& logits, const Targets& targets,
                              const TeacherLogits& teacher, double weight, double temperature);
// Error for a weight or a temperature that makes no sense.
void check_distillation(std::string_view op, double weight, double temperature);

// The RowLoss (chunked_loss.h) of linear_distillation(): see head_ops.h. What it is made of must
// live as long.
template <class T>
class DistillationRows {
 public:
  DistillationRows(const Targets& targets, std::int64_t classes, const TeacherLogits& logits_of,
                   double weight, double temperature)
      : ids_(targets.ids.data<std::int32_t>()),
        ignored_(targets.ignore_index),
        classes_(classes),
        logits_of_(&logits_of),
        scale_(1 / static_cast<double>(targets.count)),
        weight_(weight),
        temperature_(temperature) {}

  void begin(std::int64_t first, std::int64_t n) {
    teacher_ = (*logits_of_)(first, n);
    check(teacher_.shape() == Shape{n, classes_} && teacher_.dtype() == dtype_of<T>(),
          "[linear_distillation] the teacher's logits are {} {}, not {} {}", teacher_.shape(),
          name_of(teacher_.dtype()), Shape{n, classes_}, name_of(dtype_of<T>()));
    first_ = first;
  }
  bool counts(std::int64_t row) const { return ids_[row] != ignored_; }
  double operator()(std::int64_t row, std::int64_t classes, const T* logits, T* gradient) const {
    const std::int32_t target = ids_[row];
    const T* const teacher = teacher_.data<T>() + (row - first_) * classes;
    const TargetSums<T> plain = target_sums(logits, target, classes);
    const SoftmaxSums<T> model = softmax_sums(logits, temperature_, classes);
    const SoftmaxSums<T> taught = softmax_sums(teacher, temperature_, classes);
    const double loss = (1 - weight_) * loss_of_row(logits, plain, target) +
                        weight_ * temperature_ * temperature_ *
                            divergence_of_row(logits, model, teacher, taught, classes);
    if (gradient) differentiate(target, classes, logits, teacher, plain, model, taught, gradient);
    return loss;
  }

 private:
  // The derivative of the squared temperature's divergence is temperature·(p − q). The target's
  // element of the plain part is minus the sum of the others, as in loss_gradient_row().
  void differentiate(std::int32_t target, std::int64_t classes, const T* logits, const T* teacher,
                     const TargetSums<T>& plain, const SoftmaxSums<T>& model,
                     const SoftmaxSums<T>& taught, T* gradient) const {
    const T of_plain = static_cast<T>(scale_ * (1 - weight_) / plain.total());
    const T of_model = static_cast<T>(scale_ * weight_ * temperature_ / model.total);
    const T of_taught = static_cast<T>(scale_ * weight_ * temperature_ / taught.total);
    const T at_target = -plain.others * of_plain + model.exponential(logits[target]) * of_model -
                        taught.exponential(teacher[target]) * of_taught;
    for (std::int64_t i = 0; i < classes; ++i) {
      gradient[i] = fast_exp(logits[i] - plain.top) * of_plain +
                    model.exponential(logits[i]) * of_model -
                    taught.exponential(teacher[i]) * of_taught;
    }
    gradient[target] = at_target;
  }

  const std::int32_t* ids_;
  std::int32_t ignored_;
  std::int64_t classes_;
  const TeacherLogits* logits_of_;
  double scale_, weight_, temperature_;
  Tensor teacher_;
  std::int64_t first_ = 0;
};

}  // namespace tapegrad
