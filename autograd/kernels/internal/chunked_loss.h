#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "tapegrad/autograd/kernels/internal/loss_rows.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

// A loss of what a head makes of rows, some rows at a time, so that the logits of all never exist.
// A Head knows its classes, makes logits of rows [first, first + n), and makes of the logits'
// gradients, if it has a use for them, those of what it is made from:
//
//   std::int64_t classes() const;
//   bool differentiates() const;
//   void logits(std::int64_t first, std::int64_t n, T* to);
//   void add_gradients(std::int64_t first, std::int64_t n, const T* of_logits);
//
// A RowLoss knows which rows count, and the loss of each of them. It learns which rows are next,
// and is called by several threads. A gradient is asked for by a place for it, which may be the
// logits' own:
//
//   void begin(std::int64_t first, std::int64_t n);
//   bool counts(std::int64_t row) const;
//   double operator()(std::int64_t row, std::int64_t classes, const T* logits, T* gradient) const;
template <class T, class Head, class RowLoss>
class ChunkedLoss {
 public:
  // With a cap above 0, logits become softcap(logits, cap).
  ChunkedLoss(Head& head, RowLoss& row_loss, double cap)
      : head_(head), row_loss_(row_loss), classes_(head.classes()), cap_(cap) {}

  // The sum over `rows` rows, of `chunk` at a time.
  double run(std::int64_t rows, std::int64_t chunk) {
    Tensor scratch = Tensor::empty({std::min(chunk, rows), classes_}, dtype_of<T>());
    T* logits = scratch.mutable_data<T>();
    double total = 0;
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t n = std::min(chunk, rows - first);
      head_.logits(first, n, logits);
      row_loss_.begin(first, n);
      total += losses(first, n, logits);
      if (head_.differentiates()) head_.add_gradients(first, n, logits);
    }
    return total;
  }

 private:
  // The sum over rows [first, first + n). If a gradient is wanted, overwrites the logits with
  // theirs.
  double losses(std::int64_t first, std::int64_t n, T* logits) {
    std::vector<double> loss(static_cast<std::size_t>(n), 0.0);
    const bool differentiates = head_.differentiates();
    const std::int64_t grain = std::max<std::int64_t>(1, 4096 / classes_);
    parallel_for(n, grain, [&, classes = classes_](std::int64_t begin, std::int64_t end) {
      Tensor beside = Tensor::empty({cap_ > 0 ? classes : 0}, dtype_of<T>());
      for (std::int64_t r = begin; r < end; ++r) {
        T* row = logits + r * classes;
        if (!row_loss_.counts(first + r)) {
          std::fill_n(row, classes, T{0});
          continue;
        }
        if (cap_ > 0) soft_cap(classes, cap_, row);
        T* const place = cap_ > 0 ? beside.mutable_data<T>() : row;
        T* const gradient = differentiates ? place : nullptr;
        loss[static_cast<std::size_t>(r)] = row_loss_(first + r, classes, row, gradient);
        if (differentiates && cap_ > 0) uncap_gradient(gradient, row);
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

  Head& head_;
  RowLoss& row_loss_;
  std::int64_t classes_;
  double cap_;
};

// A RowLoss: the cross entropy of each target that counts. `scale` is of the gradients.
template <class T>
class CrossEntropyRows {
 public:
  CrossEntropyRows(const Targets& targets, double scale)
      : ids_(targets.ids.data<std::int32_t>()), ignored_(targets.ignore_index), scale_(scale) {}

  void begin(std::int64_t, std::int64_t) {}
  bool counts(std::int64_t row) const { return ids_[row] != ignored_; }
  double operator()(std::int64_t row, std::int64_t classes, const T* logits, T* gradient) const {
    const TargetSums<T> sums = target_sums(logits, ids_[row], classes);
    const double loss = loss_of_row(logits, sums, ids_[row]);
    if (gradient) loss_gradient_row(logits, sums, ids_[row], scale_, classes, gradient);
    return loss;
  }

 private:
  const std::int32_t* ids_;
  std::int32_t ignored_;
  double scale_;
};

// A RowLoss: minus the log-probability of each target that counts, which it writes to out[row].
// Gradients are those of scale[row]·log-probability; without scales, of the log-probability.
template <class T>
class LogProbRows {
 public:
  LogProbRows(const Targets& targets, const T* scale, T* out)
      : ids_(targets.ids.data<std::int32_t>()),
        ignored_(targets.ignore_index),
        scale_(scale),
        out_(out) {}

  void begin(std::int64_t, std::int64_t) {}
  bool counts(std::int64_t row) const { return ids_[row] != ignored_; }
  double operator()(std::int64_t row, std::int64_t classes, const T* logits, T* gradient) const {
    const TargetSums<T> sums = target_sums(logits, ids_[row], classes);
    const double loss = loss_of_row(logits, sums, ids_[row]);
    out_[row] = static_cast<T>(-loss);
    const double scale = scale_ == nullptr ? 1 : static_cast<double>(scale_[row]);
    if (gradient) loss_gradient_row(logits, sums, ids_[row], -scale, classes, gradient);
    return loss;
  }

 private:
  const std::int32_t* ids_;
  std::int32_t ignored_;
  const T* scale_;
  T* out_;
};

}  // namespace tapegrad
