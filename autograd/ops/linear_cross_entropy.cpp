#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/gemm/int8_head.h"
#include "tapegrad/autograd/kernels/internal/chunked_loss.h"
#include "tapegrad/autograd/kernels/internal/distillation_rows.h"
#include "tapegrad/autograd/ops/head_ops.h"
#include "tapegrad/autograd/ops/internal/fused.h"
#include "tapegrad/autograd/quantized/internal/exact_products.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"

namespace tapegrad {
namespace {

struct Gradients {
  Tensor x, weight;  // of the loss; undefined if not asked for
};

// x (N, C) by weight (V, C), for a ChunkedLoss. Makes the gradients that `out` has tensors for.
template <class T>
class TensorHead {
 public:
  TensorHead(const Tensor& x, const Tensor& weight, Precision precision, Gradients& out)
      : channels_(x.dim(1)),
        classes_(weight.dim(0)),
        x_(x.data<T>()),
        weight_(weight.data<T>(), classes_, channels_, channels_, precision),
        precision_(precision),
        dx_(out.x.defined() ? out.x.mutable_data<T>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.mutable_data<T>() : nullptr) {}

  std::int64_t classes() const { return classes_; }
  bool differentiates() const { return dx_ != nullptr || dweight_ != nullptr; }

  void logits(std::int64_t first, std::int64_t n, T* to) {
    rows_.emplace(x_ + first * channels_, n, channels_, channels_, precision_);
    gemm({.tb = true, .m = n, .n = classes_, .k = channels_, .c = to, .ldc = classes_}, *rows_,
         weight_);
  }

  // OpenBLAS cuts products to a depth of 384 or less, so that adding up the weight's gradient by
  // chunks of that many rows moves no more memory than one product would.
  void add_gradients(std::int64_t first, std::int64_t n, T* of_logits) {
    const Operand<T> dlogits(of_logits, n, classes_, classes_, precision_);
    if (dx_ != nullptr) {
      gemm({.m = n, .n = channels_, .k = classes_, .c = dx_ + first * channels_, .ldc = channels_},
           dlogits, weight_);
    }
    if (dweight_ != nullptr) {
      gemm({.ta = true,
            .m = classes_,
            .n = channels_,
            .k = n,
            .c = dweight_,
            .ldc = channels_,
            .beta = static_cast<T>(first > 0)},
           dlogits, *rows_);
    }
  }

 private:
  std::int64_t channels_, classes_;
  const T* x_;
  Operand<T> weight_;
  Precision precision_;
  T *dx_, *dweight_;
  std::optional<Operand<T>> rows_;  // whose logits were made last
};

// How rows become logits: by a weight, whose tensor is left out, since it is an input of the op.
struct Head {
  Weight weight;
  double cap;

  Head(const Weight& w, double softcap) : weight(w), cap(softcap) {
    if (weight.quantized) weight.precision = at_least_bf16(w.precision);
    static_cast<Tensor&>(weight) = {};
  }
  std::int64_t classes(Inputs in) const {
    return weight.quantized ? weight.quantized->out() : in[1].dim(0);
  }
  Tensor logits(Inputs in) const {
    if (weight.quantized) return softcap(linear(in[0], weight), cap);
    return softcap(linear(in[0], {in[1], at_least_bf16(weight.precision)}), cap);
  }
};

// x (N, C) by a quantised weight (V, C), for a ChunkedLoss. Makes the gradient of x if `out` has a
// tensor for it.
class QuantizedHead {
 public:
  QuantizedHead(const Tensor& x, const Weight& weight, Gradients& out)
      : x_(x), weight_(weight), dx_(out.x.defined() ? out.x.mutable_data<float>() : nullptr) {}

  std::int64_t classes() const { return weight_.quantized->out(); }
  bool differentiates() const { return dx_ != nullptr; }

  void logits(std::int64_t first, std::int64_t n, float* to) const {
    if (weight_.exact) {
      const std::int64_t channels = x_.dim(1);
      const Operand<float> rows(x_.data<float>() + first * channels, n, channels, channels,
                                weight_.precision);
      return quantized::multiply(rows, n, *weight_.quantized, weight_.precision, false, to);
    }
    const Tensor made = linear(x_.rows(first, first + n), weight_);
    std::copy_n(made.data<float>(), made.numel(), to);
  }
  void add_gradients(std::int64_t first, std::int64_t n, const float* of_logits) const {
    quantized::multiply_back(of_logits, n, *weight_.quantized, weight_.precision, false,
                             dx_ + first * x_.dim(1));
  }

 private:
  const Tensor& x_;
  const Weight& weight_;
  float* dx_;
};

// Runs a row loss over all rows of x. Makes the gradients that `needs` asks for.
template <class T, class RowLoss>
double run_chunks(Inputs in, RowLoss row_loss, const Head& how, const Needs& needs,
                  Gradients& out) {
  const Tensor& x = in[0];
  if (needs[0]) out.x = Tensor::empty(x.shape(), x.dtype());
  if (needs[1]) {
    out.weight = x.dim(0) == 0 ? Tensor::zeros(in[1].shape(), in[1].dtype())
                               : Tensor::empty(in[1].shape(), in[1].dtype());
  }
  const auto run = [&](auto head, std::int64_t chunk = kLossChunk) {
    return ChunkedLoss<T, decltype(head), RowLoss>(head, row_loss, how.cap).run(x.dim(0), chunk);
  };
  if constexpr (std::is_same_v<T, float>) {
    if (how.weight.precision == Precision::int8) {
      return run(Int8Head(x.data<float>(), in[1].data<float>(), in[1].dim(0), in[1].dim(1),
                          out.x.defined() ? out.x.mutable_data<float>() : nullptr,
                          out.weight.defined() ? out.weight.mutable_data<float>() : nullptr),
                 Int8Head::kRows);
    }
  }
  if (!how.weight.quantized) return run(TensorHead<T>(x, in[1], how.weight.precision, out));
  if constexpr (std::is_same_v<T, float>) {
    return run(QuantizedHead(x, how.weight, out));
  } else {  // for checks
    const Tensor unpacked = how.weight.quantized->dequantized().to(DType::f64);
    return run(TensorHead<T>(x, unpacked, Precision::full, out));
  }
}

Tensor mean_cross_entropy(Inputs in, const Targets& targets, const Head& how, const Needs& needs,
                          Gradients& out) {
  return dispatch(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto count = static_cast<double>(targets.count);
    const CrossEntropyRows<T> rows(targets, 1 / count);
    const double mean = run_chunks<T>(in, rows, how, needs, out) / count;
    return Tensor::scalar(static_cast<T>(mean), in[0].dtype());  // which may be infinite
  });
}

// Gradients are those of the sum of scales·log-probabilities; undefined scales are 1.
Tensor log_probs_of(Inputs in, const Targets& targets, const Head& how, const Tensor& scales,
                    const Needs& needs, Gradients& out) {
  Tensor y = Tensor::zeros(targets.ids.shape(), in[0].dtype());
  dispatch(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const LogProbRows<T> rows(targets, scales.defined() ? scales.data<T>() : nullptr,
                              y.mutable_data<T>());
    run_chunks<T>(in, rows, how, needs, out);
  });
  return y;
}

Tensor distillation_of(Inputs in, const Targets& targets, const Head& how, const Teacher& teacher,
                       const Needs& needs, Gradients& out) {
  return dispatch(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const DistillationRows<T> rows(targets, how.classes(in), teacher.logits, teacher.weight,
                                   teacher.temperature);
    const double sum = run_chunks<T>(in, rows, how, needs, out);
    const auto mean = static_cast<T>(sum / static_cast<double>(targets.count));
    return Tensor::scalar(mean, in[0].dtype());
  });
}

// The matrix to multiply by: the classes of the head, or an error.
std::int64_t checked_classes(std::string_view op, const Tensor& x, const Weight& weight,
                             const Tensor& targets, double cap) {
  const DType dtype = weight.quantized ? x.dtype() : weight.dtype();
  const Shape shape = weight.quantized ? weight.quantized->shape() : weight.shape();
  check(shape.rank() == 2 && x.rank() >= 1 && x.dim(-1) == shape[1] &&
            targets.shape() == x.shape().without(-1) && x.dtype() == dtype,
        "[{}] x {} {}, weight {} {} (classes, channels) and targets {} do not fit together", op,
        x.shape(), name_of(x.dtype()), shape, name_of(dtype), targets.shape());
  check(cap >= 0 && std::isfinite(cap), "[{}] the cap must be finite and not negative, not {}", op,
        cap);
  return shape[0];
}

// A gradient that forward has made, times dy. At the end of a model dy is 1, which saves a pass.
Tensor times(const Tensor& gradient, const Tensor& dy) {
  if (!gradient.defined()) return {};
  return dy.item() == 1 ? gradient.detach() : gradient * dy;
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Weight& weight, const Tensor& targets,
                            std::int32_t ignore_index, double cap) {
  const std::int64_t classes = checked_classes("linear_cross_entropy", x, weight, targets, cap);
  const Targets t = checked_targets("linear_cross_entropy", targets, classes, ignore_index);
  const Head how(weight, cap);
  return apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)}), weight},
      {.name = "linear_cross_entropy",
       .backward_name = "linear_cross_entropy_backward",
       .forward = [t, how](Inputs in, const Needs& needs) -> FusedOp::Output {
         Gradients gradients;
         const Tensor loss = mean_cross_entropy(in, t, how, needs, gradients);
         return {loss, {gradients.x, gradients.weight, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         return {times(notes[0], dy), times(notes[1], dy)};
       },
       .reference =
           [t, how](Inputs in) { return cross_entropy(how.logits(in), t.ids, t.ignore_index); }});
}

Tensor linear_log_probs(const Tensor& x, const Weight& weight, const Tensor& targets,
                        std::int32_t ignore_index, double cap) {
  const std::int64_t classes = checked_classes("linear_log_probs", x, weight, targets, cap);
  const Targets t = checked_targets("linear_log_probs", targets, classes, ignore_index);
  const Head how(weight, cap);
  const Tensor flat = apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)}), weight},
      {.name = "linear_log_probs",
       .backward_name = "linear_log_probs_backward",
       // Each row's gradient is known here but for a factor, dy. The weight's adds up rows: it must
       // wait for dy, and the logits are made again.
       .forward = [t, how](Inputs in, const Needs& needs) -> FusedOp::Output {
         Gradients each;
         const Needs now = {needs[0] && !needs[1], false};
         const Tensor y = log_probs_of(in, t, how, {}, now, each);
         return {y, {each.x, t.ids}};
       },
       .backward = [t, how](const Tensor& dy, Inputs in, Inputs notes,
                            const Needs& needs) -> Grads {
         if (notes[0].defined()) return {notes[0] * reshape(dy, {dy.numel(), 1}), Tensor()};
         Gradients gradients;
         log_probs_of(in, t, how, dy, needs, gradients);
         return {gradients.x, gradients.weight};
       },
       .reference = [t, how](Inputs in) { return target_log_probs_of(how.logits(in), t); }});
  return reshape(flat, targets.shape());
}

Tensor linear_distillation(const Tensor& x, const Weight& weight, const Tensor& targets,
                           const Teacher& teacher, std::int32_t ignore_index, double cap) {
  const std::int64_t classes = checked_classes("linear_distillation", x, weight, targets, cap);
  check_distillation("linear_distillation", teacher.weight, teacher.temperature);
  const Targets t = checked_targets("linear_distillation", targets, classes, ignore_index);
  const Head how(weight, cap);
  return apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)}), weight},
      {.name = "linear_distillation",
       .backward_name = "linear_distillation_backward",
       .forward = [t, how, teacher](Inputs in, const Needs& needs) -> FusedOp::Output {
         Gradients gradients;
         const Tensor loss = distillation_of(in, t, how, teacher, needs, gradients);
         return {loss, {gradients.x, gradients.weight, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         return {times(notes[0], dy), times(notes[1], dy)};
       },
       .reference =
           [t, how, teacher](Inputs in) {
             return distillation_of_logits(how.logits(in), t, teacher.logits, teacher.weight,
                                           teacher.temperature);
           }});
}

}  // namespace tapegrad
