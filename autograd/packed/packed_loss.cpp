#include <cmath>

#include "tapegrad/autograd/head_ops.h"
#include "tapegrad/autograd/kernels/chunked_loss.h"
#include "tapegrad/autograd/kernels/distillation_rows.h"
#include "tapegrad/autograd/ops/fused.h"
#include "tapegrad/autograd/packed/exact_products.h"
#include "tapegrad/autograd/packed/packed_matrix.h"

namespace tapegrad {
namespace {

// x (N, C) by a packed head (V, C), for a ChunkedLoss. The gradient of x is made if there is a
// tensor for it.
class PackedHead {
 public:
  PackedHead(const Tensor& x, const PackedLinear& head, Tensor& dx)
      : x_(x), head_(head), dx_(dx.defined() ? dx.mutable_data<float>() : nullptr) {}

  std::int64_t classes() const { return head_.weight->out(); }
  bool differentiates() const { return dx_ != nullptr; }

  void logits(std::int64_t first, std::int64_t n, float* to) const {
    if (head_.exact) {
      const Operand<float> rows(x_.data<float>() + first * channels(), n, channels(), channels(),
                                *head_.exact);
      return packed::multiply(rows, n, *head_.weight, *head_.exact, false, to);
    }
    const Tensor made = linear(x_.rows(first, first + n), head_);
    const auto values = made.values<float>();
    std::copy(values.begin(), values.end(), to);
  }
  void add_gradients(std::int64_t first, std::int64_t n, const float* of_logits) const {
    packed::multiply_back(of_logits, n, *head_.weight, head_.exact.value_or(Precision::full), false,
                          dx_ + first * channels());
  }

 private:
  std::int64_t channels() const { return x_.dim(1); }

  const Tensor& x_;
  const PackedLinear& head_;
  float* dx_;
};

// For checks, by the unpacked matrix in f64.
class ExactHead {
 public:
  ExactHead(const Tensor& x, const PackedLinear& head, Tensor& dx)
      : x_(x), weight_(head.weight->unpacked().to(DType::f64)), dx_(dx) {}

  std::int64_t classes() const { return weight_.dim(0); }
  bool differentiates() const { return dx_.defined(); }
  void logits(std::int64_t first, std::int64_t n, double* to) const {
    copy(linear(x_.rows(first, first + n), weight_), to);
  }
  void add_gradients(std::int64_t first, std::int64_t n, const double* of_logits) const {
    const std::vector<double> values(of_logits, of_logits + n * classes());
    copy(matmul(Tensor::from(values, {n, classes()}), weight_),
         dx_.mutable_data<double>() + first * x_.dim(1));
  }

 private:
  static void copy(const Tensor& from, double* to) {
    const auto values = from.values<double>();
    std::copy(values.begin(), values.end(), to);
  }

  const Tensor& x_;
  Tensor weight_;
  Tensor& dx_;
};

void check_packed_head(std::string_view op, const Tensor& x, const PackedLinear& head,
                       const Tensor& targets, double cap) {
  const PackedMatrix& w = *head.weight;
  check(x.rank() >= 1 && x.dim(-1) == w.in() && targets.shape() == x.shape().without(-1) &&
            !head.bias.defined(),
        "[{}] x {}, weight {} (classes, channels) and targets {} do not fit together", op,
        x.shape(), w.shape(), targets.shape());
  check(cap >= 0 && std::isfinite(cap), "[{}] the cap must be finite and not negative, not {}", op,
        cap);
}

// Runs a row loss over all rows of x, and makes the gradient of x if there is a tensor for it.
// `rows_of` makes the row loss for numbers of a type.
template <class RowsOf>
double run_packed(const Tensor& x, const PackedLinear& head, double cap, Tensor& dx,
                  const RowsOf& rows_of) {
  if (x.dim(0) == 0) return 0;
  const auto run = [&]<class T, class Head>(T zero, Head of) {
    auto rows = rows_of(zero);
    return ChunkedLoss<T, Head, decltype(rows)>(of, rows, cap).run(x.dim(0), kLossChunk);
  };
  return x.dtype() == DType::f32 ? run(0.0F, PackedHead(x, head, dx))
                                 : run(0.0, ExactHead(x, head, dx));
}

Tensor gradient_place(const Tensor& x, bool wanted) {
  return wanted ? Tensor::empty(x.shape(), x.dtype()) : Tensor();
}

// A gradient that forward has made, if it was wanted, times dy, a scalar.
Grads scaled_by(const Tensor& gradient, const Tensor& dy) {
  if (!gradient.defined()) return Grads(1);
  return {dy.item() == 1 ? gradient.alias() : gradient * dy};
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const PackedLinear& head, const Tensor& targets,
                            std::int32_t ignore_index, double cap) {
  check_packed_head("packed_cross_entropy", x, head, targets, cap);
  const Targets t =
      checked_targets("packed_cross_entropy", targets, head.weight->out(), ignore_index);
  return apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)})},
      {.name = "packed_cross_entropy",
       .backward_name = "packed_cross_entropy_backward",
       .forward = [t, head, cap](Inputs in, const Needs& needs) -> FusedOp::Output {
         Tensor dx = gradient_place(in[0], needs[0]);
         if (in[0].dim(0) == 0) return {Tensor::scalar(0, in[0].dtype()), {dx, t.ids}};
         const auto count = static_cast<double>(t.count);
         const double sum = run_packed(
             in[0], head, cap, dx, [&]<class T>(T) { return CrossEntropyRows<T>(t, 1 / count); });
         return {Tensor::scalar(sum / count, in[0].dtype()), {dx, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         return scaled_by(notes[0], dy);
       },
       .reference =
           [t, head, cap](Inputs in) {
             return cross_entropy(softcap(linear(in[0], head), cap), t.ids, t.ignore_index);
           }});
}

Tensor linear_log_probs(const Tensor& x, const PackedLinear& head, const Tensor& targets,
                        std::int32_t ignore_index, double cap) {
  check_packed_head("packed_log_probs", x, head, targets, cap);
  const Targets t = checked_targets("packed_log_probs", targets, head.weight->out(), ignore_index);
  const Tensor flat = apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)})},
      {.name = "packed_log_probs",
       .backward_name = "packed_log_probs_backward",
       .forward = [t, head, cap](Inputs in, const Needs& needs) -> FusedOp::Output {
         Tensor dx = gradient_place(in[0], needs[0]);
         Tensor y = Tensor::zeros(t.ids.shape(), in[0].dtype());
         run_packed(in[0], head, cap, dx,
                    [&]<class T>(T) { return LogProbRows<T>(t, nullptr, y.mutable_data<T>()); });
         return {y, {dx, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         if (!notes[0].defined()) return Grads(1);
         return {notes[0] * reshape(dy, {dy.numel(), 1})};
       },
       .reference =
           [t, head, cap](Inputs in) {
             return target_log_probs_of(softcap(linear(in[0], head), cap), t);
           }});
  return reshape(flat, targets.shape());
}

Tensor linear_distillation(const Tensor& x, const PackedLinear& head, const Tensor& targets,
                           const Teacher& teacher, std::int32_t ignore_index, double cap) {
  const std::string_view op = "packed_distillation";
  check_packed_head(op, x, head, targets, cap);
  check_distillation(op, teacher.weight, teacher.temperature);
  const Targets t = checked_targets(op, targets, head.weight->out(), ignore_index);
  return apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)})},
      {.name = "packed_distillation",
       .backward_name = "packed_distillation_backward",
       .forward = [t, head, teacher, cap](Inputs in, const Needs& needs) -> FusedOp::Output {
         Tensor dx = gradient_place(in[0], needs[0]);
         if (in[0].dim(0) == 0) return {Tensor::scalar(0, in[0].dtype()), {dx, t.ids}};
         const double sum = run_packed(in[0], head, cap, dx, [&]<class T>(T) {
           return DistillationRows<T>(t, head.weight->out(), teacher.logits, teacher.weight,
                                      teacher.temperature);
         });
         const auto count = static_cast<double>(t.count);
         return {Tensor::scalar(sum / count, in[0].dtype()), {dx, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         return scaled_by(notes[0], dy);
       },
       .reference =
           [t, head, teacher, cap](Inputs in) {
             if (in[0].dim(0) == 0) return sum(in[0]);
             return distillation_of_logits(softcap(linear(in[0], head), cap), t, teacher.logits,
                                           teacher.weight, teacher.temperature);
           }});
}

}  // namespace tapegrad
