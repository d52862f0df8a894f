#include "tapegrad/autograd/quantized/internal/quantized_products.h"

#include <algorithm>
#include <optional>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/internal/batch_invariant.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/quantized/internal/exact_products.h"
#include "tapegrad/autograd/quantized/internal/weight_layouts.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

// Products of one x with several matrices, as one loop over the panels of all.
class QuantizedProducts {
 public:
  QuantizedProducts(const Tensor& x, std::span<const WeightAndBias> by) : x_(x) {
    for (const WeightAndBias& one : by) {
      const QuantizedMatrix& w = *one.weight.quantized;
      results_.push_back(Tensor::empty(x.shape().with(-1, w.out())));
      add(w, one.bias, results_.back());
    }
  }

  std::vector<Tensor> run() {
    if (columns() > 0 && !ends_.empty()) {
      // A thread gets enough bytes to be worth waking.
      const std::int64_t bytes = std::max<std::int64_t>(1, bytes_ / ends_.back());
      const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / (bytes * columns()));
      parallel_for(ends_.back(), grain, [&](auto begin, auto end) { run_panels(begin, end); });
    }
    return std::move(results_);
  }

 private:
  static constexpr std::int64_t kGrainBytes = 64 << 10;

  std::int64_t columns() const { return x_.numel() / x_.dim(-1); }

  void add(const QuantizedMatrix& w, const Tensor& bias, Tensor& y) {
    if (w.layout_->rounds_x && !rounded_) {
      const std::int64_t blocks = x_.numel() / quantized::kRounded;
      rounded_.emplace(static_cast<std::size_t>(blocks) * sizeof(quantized::RoundedBlock));
      quantized::round_to_blocks(x_.data<float>(), columns(), w.in_, blocks_of_x());
    }
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + w.out_ / quantized::kRows +
                    (w.out_ % quantized::kRows != 0));
    bytes_ += static_cast<std::int64_t>(w.bytes());
    kernels_.push_back(quantized::kernel_of(*w.layout_));
    products_.push_back({.panels = static_cast<const std::uint8_t*>(w.panels_->data()),
                         .panel_bytes = w.panel_bytes_,
                         .in = w.in_,
                         .out = w.out_,
                         .first = 0,
                         .last = 0,
                         .columns = columns(),
                         .x = x_.data<float>(),
                         .rounded = rounded_ ? blocks_of_x() : nullptr,
                         .bias = bias.defined() ? bias.data<float>() : nullptr,
                         .y = y.mutable_data<float>()});
  }

  quantized::RoundedBlock* blocks_of_x() const {
    return static_cast<quantized::RoundedBlock*>(rounded_->data());
  }

  void run_panels(std::int64_t begin, std::int64_t end) const {
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const std::int64_t before = i == 0 ? 0 : ends_[i - 1];
      quantized::Product part = products_[i];
      part.first = std::max(begin, before) - before;
      part.last = std::min(end, ends_[i]) - before;
      if (part.first < part.last) kernels_[i](part);
    }
  }

  const Tensor& x_;
  std::vector<Tensor> results_;
  std::vector<quantized::Product> products_;
  std::vector<quantized::Multiply> kernels_;
  std::vector<std::int64_t> ends_;  // of the panels of each, counted through
  std::int64_t bytes_ = 0;
  std::optional<Scratch> rounded_;
};

namespace {

using Weights = std::vector<Weight>;

Tensor dequantized_f64(const QuantizedMatrix& w) { return w.dequantized().to(DType::f64); }

std::vector<Tensor> exact_products(const Tensor& x, std::span<const WeightAndBias> by,
                                   Precision precision) {
  const std::int64_t in = x.dim(-1), rows = x.numel() / in;
  const Operand<float> of_x(x.data<float>(), rows, in, in, precision);
  std::vector<Tensor> outputs;
  for (const auto& [weight, bias] : by) {
    outputs.push_back(Tensor::empty(x.shape().with(-1, weight.quantized->out())));
    float* const y = outputs.back().mutable_data<float>();
    if (bias.defined()) lay_rows(bias.data<float>(), bias.numel(), rows, y);
    quantized::multiply(of_x, rows, *weight.quantized, precision, bias.defined(), y);
  }
  return outputs;
}

// Σ dy·W over the outputs that have a gradient: the gradient of x.
Tensor gradient_of_x(Inputs dys, const Weights& weights) {
  return apply_many(
      "quantized_linear_backward", dys,
      [weights](Inputs in, Saved&) -> std::vector<Tensor> {
        Tensor dx;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (!in[i].defined()) continue;
          const QuantizedMatrix& w = *weights[i].quantized;
          const bool adds = dx.defined();
          if (in[i].dtype() == DType::f64) {
            const Tensor part = matmul(in[i], dequantized_f64(w));
            dx = adds ? dx + part : part;
            continue;
          }
          if (!adds) dx = Tensor::empty(in[i].shape().with(-1, w.in()));
          quantized::multiply_back(in[i].data<float>(), dx.numel() / w.in(), w,
                                   weights[i].precision, adds, dx.mutable_data<float>());
        }
        return {dx};
      },
      [weights](Inputs gs, const Saved&, const Needs& needs) -> Grads {
        Grads grads(weights.size());
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (needs[i])
            grads[i] = linear(gs[0], Weight::exactly(weights[i].quantized, weights[i].precision));
        }
        return grads;
      })[0];
}

void check_operands(const Tensor& x, std::span<const WeightAndBias> by) {
  const auto kind = [](const Weight& w) { return std::pair(w.exact, w.precision); };
  for (const auto& [weight, bias] : by) {
    const QuantizedMatrix& w = *weight.quantized;
    check(is_float(x.dtype()), "[quantized_linear] x must be of f32 or f64, not of {}",
          name_of(x.dtype()));
    check(x.rank() >= 1 && x.dim(-1) == w.in(),
          "[quantized_linear] x {} does not fit weight {} (out, in)", x.shape(), w.shape());
    check(!bias.defined() || bias.shape() == Shape{w.out()},
          "[quantized_linear] bias {} does not fit weight {}",
          bias.defined() ? bias.shape() : Shape{}, w.shape());
    check(kind(weight) == kind(by.front().weight),
          "[quantized_linear] products of one x differ in precision");
  }
}

std::vector<Tensor> run_products(Inputs in, const Weights& weights) {
  if (!weights.empty()) ProfiledOp::multiplies_by(weights.front().quantized.get());
  std::vector<WeightAndBias> parts;
  for (std::size_t i = 0; i < weights.size(); ++i) parts.push_back({weights[i], in[i + 1]});
  if (in[0].dtype() == DType::f32) {
    const bool exact = !weights.empty() && weights.front().exact && !is_batch_invariant();
    return exact ? exact_products(in[0], parts, weights.front().precision)
                 : QuantizedProducts(in[0], parts).run();
  }
  std::vector<Tensor> outputs;
  for (const auto& [weight, bias] : parts) {
    outputs.push_back(linear(in[0], dequantized_f64(*weight.quantized), bias));
  }
  return outputs;
}

}  // namespace

std::vector<Tensor> quantized::products(const Tensor& x, std::span<const WeightAndBias> by) {
  check_operands(x, by);
  std::vector<Tensor> inputs = {x};
  Weights weights;
  for (const auto& [weight, bias] : by) {
    inputs.push_back(bias);
    weights.push_back(weight);
  }
  return apply_many(
      "quantized_linear", inputs,
      [weights](Inputs in, Saved&) { return run_products(in, weights); },
      [weights](Inputs dys, const Saved&, const Needs& needs) -> Grads {
        Grads grads(weights.size() + 1);
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (!dys[i].defined() || !needs[i + 1]) continue;
          grads[i + 1] = sum(reshape(dys[i], {-1, weights[i].quantized->out()}), {0});
        }
        if (needs[0]) grads[0] = gradient_of_x(dys, weights);
        return grads;
      });
}

}  // namespace tapegrad
