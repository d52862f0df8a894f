#include <numeric>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/kernels/loss_rows.h"
#include "tapegrad/autograd/ops/fused.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

struct Gradients {
  Tensor x, weight;  // of the loss; undefined if not asked for
};

// The loss of x (N, C) and weight (V, C), and its gradients as far as `out` has tensors for them.
template <class T>
class ChunkedLoss {
 public:
  ChunkedLoss(const Tensor& x, const Tensor& weight, const Targets& targets, Precision precision,
              double cap, Gradients& out)
      : rows_(x.dim(0)),
        channels_(x.dim(1)),
        classes_(weight.dim(0)),
        x_(x.data<T>()),
        weight_(weight.data<T>(), classes_, channels_, channels_, precision),
        targets_(targets),
        precision_(precision),
        cap_(cap),
        dx_(out.x.defined() ? out.x.mutable_data<T>() : nullptr),
        dweight_(out.weight.defined() ? out.weight.mutable_data<T>() : nullptr) {}

  Tensor run() {
    Tensor scratch = Tensor::empty({std::min(kLossChunk, rows_), classes_}, dtype_of<T>());
    T* logits = scratch.mutable_data<T>();
    double total = 0;
    for (std::int64_t first = 0; first < rows_; first += kLossChunk) {
      const std::int64_t n = std::min(kLossChunk, rows_ - first);
      const Operand<T> x(x_ + first * channels_, n, channels_, channels_, precision_);
      gemm({.tb = true, .m = n, .n = classes_, .k = channels_, .c = logits, .ldc = classes_}, x,
           weight_);
      total += losses(first, n, logits);
      add_gradients(first, n, x, logits);
    }
    if (rows_ == 0 && dweight_ != nullptr) std::fill_n(dweight_, classes_ * channels_, T{0});
    return Tensor::scalar(total / static_cast<double>(targets_.count), dtype_of<T>());
  }

 private:
  // The sum over rows [first, first + n). If a gradient is wanted, overwrites the logits with
  // theirs.
  double losses(std::int64_t first, std::int64_t n, T* logits) {
    std::vector<double> loss(static_cast<std::size_t>(n), 0.0);
    const std::int32_t* id = targets_.ids.template data<std::int32_t>() + first;
    const double scale = 1 / static_cast<double>(targets_.count);
    const bool differentiates = dx_ != nullptr || dweight_ != nullptr;
    const std::int64_t grain = std::max<std::int64_t>(1, 4096 / classes_);
    parallel_for(n, grain, [&, classes = classes_](std::int64_t begin, std::int64_t end) {
      Tensor beside = Tensor::empty({cap_ > 0 ? classes : 0}, dtype_of<T>());
      for (std::int64_t r = begin; r < end; ++r) {
        T* row = logits + r * classes;
        if (id[r] == targets_.ignore_index) {
          std::fill_n(row, classes, T{0});
          continue;
        }
        if (cap_ > 0) soft_cap(classes, cap_, row);
        const TargetSums<T> sums = target_sums(row, id[r], classes);
        loss[static_cast<std::size_t>(r)] = loss_of_row(row, sums, id[r]);
        if (!differentiates) continue;
        T* const gradient = cap_ > 0 ? beside.mutable_data<T>() : row;
        loss_gradient_row(row, sums, id[r], scale, classes, gradient);
        if (cap_ > 0) uncap_gradient(gradient, row);
      }
    });
    return std::accumulate(loss.begin(), loss.end(), 0.0);
  }

  // From the gradient with respect to a row of capped logits to that with respect to the logits
  // before, which replaces the row. The cap's slope is 1 − tanh².
  void uncap_gradient(const T* __restrict gradient, T* __restrict row) const {
    const T inverse = static_cast<T>(1 / cap_);
    for (std::int64_t i = 0; i < classes_; ++i) {
      const T share = row[i] * inverse;
      row[i] = gradient[i] * (1 - share * share);
    }
  }

  // OpenBLAS cuts products to a depth of 384 or less, so that adding up the weight's gradient by
  // chunks of that many rows moves no more memory than one product would.
  void add_gradients(std::int64_t first, std::int64_t n, const Operand<T>& x, const T* gradients) {
    if (dx_ == nullptr && dweight_ == nullptr) return;
    const Operand<T> dlogits(gradients, n, classes_, classes_, precision_);
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
           dlogits, x);
    }
  }

  std::int64_t rows_, channels_, classes_;
  const T* x_;
  Operand<T> weight_;
  const Targets& targets_;
  Precision precision_;
  double cap_;
  T *dx_, *dweight_;
};

Tensor run_chunks(const Tensor& x, const Tensor& weight, const Targets& targets,
                  Precision precision, double cap, const Needs& needs, Gradients& out) {
  if (needs[0]) out.x = Tensor::empty(x.shape(), x.dtype());
  if (needs[1]) out.weight = Tensor::empty(weight.shape(), weight.dtype());
  return dispatch(x.dtype(), [&](auto zero) {
    return ChunkedLoss<decltype(zero)>(x, weight, targets, precision, cap, out).run();
  });
}

// A gradient that forward has made, times dy. At the end of a model dy is 1, which saves a pass.
Tensor times(const Tensor& gradient, const Tensor& dy) {
  if (!gradient.defined()) return {};
  return dy.item() == 1 ? gradient.alias() : gradient * dy;
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            std::int32_t ignore_index, Precision precision, double cap) {
  check(weight.rank() == 2 && x.rank() >= 1 && x.dim(-1) == weight.dim(1) &&
            targets.shape() == x.shape().without(-1) && x.dtype() == weight.dtype(),
        "[linear_cross_entropy] x {} {}, weight {} {} (classes, channels) and targets {} do not "
        "fit together",
        x.shape(), name_of(x.dtype()), weight.shape(), name_of(weight.dtype()), targets.shape());
  check(cap >= 0 && std::isfinite(cap),
        "[linear_cross_entropy] the cap must be finite and not negative, not {}", cap);
  const Targets t = checked_targets("linear_cross_entropy", targets, weight.dim(0), ignore_index);
  return apply_fused(
      {reshape(x, {targets.numel(), x.dim(-1)}), weight},
      {.name = "linear_cross_entropy",
       .backward_name = "linear_cross_entropy_backward",
       .forward = [t, precision, cap](Inputs in, const Needs& needs) -> FusedOp::Output {
         Gradients gradients;
         const Tensor loss = run_chunks(in[0], in[1], t, precision, cap, needs, gradients);
         return {loss, {gradients.x, gradients.weight, t.ids}};
       },
       .backward = [](const Tensor& dy, Inputs, Inputs notes, const Needs&) -> Grads {
         return {times(notes[0], dy), times(notes[1], dy)};
       },
       .reference =
           [t, precision, cap](Inputs in) {
             const Tensor logits = softcap(linear(in[0], in[1], {}, precision), cap);
             return cross_entropy(logits, t.ids, t.ignore_index);
           }});
}

}  // namespace tapegrad
