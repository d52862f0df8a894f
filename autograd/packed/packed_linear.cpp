#include <algorithm>
#include <optional>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/rows_apart.h"
#include "tapegrad/autograd/packed/exact_products.h"
#include "tapegrad/autograd/packed/packed_matrix.h"
#include "tapegrad/autograd/packed/packed_ways.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {

// Products of one x with several matrices, as one loop over the panels of all.
class PackedProducts {
 public:
  PackedProducts(const Tensor& x, std::span<const PackedLinear> by) : x_(x) {
    for (const PackedLinear& one : by) {
      Shape shape = x.shape();
      shape = shape.with(-1, one.weight->out());
      results_.push_back(Tensor::empty(shape));
      add(*one.weight, one.bias, results_.back());
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

  void add(const PackedMatrix& w, const Tensor& bias, Tensor& y) {
    if (w.way_->rounds_x && !rounded_) {
      const std::int64_t blocks = x_.numel() / packed::kRounded;
      rounded_.emplace(static_cast<std::size_t>(blocks) * sizeof(packed::RoundedBlock));
      packed::round_to_blocks(x_.data<float>(), columns(), w.in_, blocks_of_x());
    }
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + w.out_ / packed::kRows +
                    (w.out_ % packed::kRows != 0));
    bytes_ += static_cast<std::int64_t>(w.bytes());
    kernels_.push_back(packed::kernel_of(*w.way_));
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

  packed::RoundedBlock* blocks_of_x() const {
    return static_cast<packed::RoundedBlock*>(rounded_->data());
  }

  void run_panels(std::int64_t begin, std::int64_t end) const {
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const std::int64_t before = i == 0 ? 0 : ends_[i - 1];
      packed::Product part = products_[i];
      part.first = std::max(begin, before) - before;
      part.last = std::min(end, ends_[i]) - before;
      if (part.first < part.last) kernels_[i](part);
    }
  }

  const Tensor& x_;
  std::vector<Tensor> results_;
  std::vector<packed::Product> products_;
  std::vector<packed::Multiply> kernels_;
  std::vector<std::int64_t> ends_;  // of the panels of each, counted through
  std::int64_t bytes_ = 0;
  std::optional<Scratch> rounded_;
};

namespace {

using Weights = std::vector<std::shared_ptr<const PackedMatrix>>;

Tensor unpacked_f64(const PackedMatrix& w) { return w.unpacked().to(DType::f64); }

// Lays the bias down in each row, so that a product is added to it in the same pass.
void lay_bias(const Tensor& bias, std::int64_t rows, float* to) {
  const float* const from = bias.data<float>();
  const std::int64_t out = bias.numel();
  parallel_for(rows, 1 + kElementGrain / out, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) std::copy_n(from, out, to + r * out);
  });
}

std::vector<Tensor> exact_products(const Tensor& x, std::span<const PackedLinear> by,
                                   Precision precision) {
  const std::int64_t in = x.dim(-1), rows = x.numel() / in;
  const Operand<float> of_x(x.data<float>(), rows, in, in, precision);
  std::vector<Tensor> outputs;
  for (const auto& [weight, bias, exact] : by) {
    outputs.push_back(Tensor::empty(x.shape().with(-1, weight->out())));
    float* const y = outputs.back().mutable_data<float>();
    if (bias.defined()) lay_bias(bias, rows, y);
    packed::multiply(of_x, rows, *weight, precision, bias.defined(), y);
  }
  return outputs;
}

// Σ dy·W over the outputs that have a gradient: the gradient of x.
Tensor gradient_of_x(Inputs dys, const Weights& weights, Precision precision) {
  return apply_many(
      "packed_linear_backward", dys,
      [weights, precision](Inputs in, Saved&) -> std::vector<Tensor> {
        Tensor dx;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (!in[i].defined()) continue;
          const bool adds = dx.defined();
          if (in[i].dtype() == DType::f64) {
            const Tensor part = matmul(in[i], unpacked_f64(*weights[i]));
            dx = adds ? dx + part : part;
            continue;
          }
          if (!adds) dx = Tensor::empty(in[i].shape().with(-1, weights[i]->in()));
          packed::multiply_back(in[i].data<float>(), dx.numel() / weights[i]->in(), *weights[i],
                                precision, adds, dx.mutable_data<float>());
        }
        return {dx};
      },
      [weights, precision](Inputs gs, const Saved&, const Needs& needs) -> Grads {
        Grads grads(weights.size());
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (needs[i]) grads[i] = linear(gs[0], PackedLinear{weights[i], {}, precision});
        }
        return grads;
      })[0];
}

void check_operands(const Tensor& x, std::span<const PackedLinear> by) {
  for (const PackedLinear& one : by) {
    check(is_float(x.dtype()), "[packed_linear] x must be of f32 or f64, not of {}",
          name_of(x.dtype()));
    check(x.rank() >= 1 && x.dim(-1) == one.weight->in(),
          "[packed_linear] x {} does not fit weight {} (out, in)", x.shape(), one.weight->shape());
    check(!one.bias.defined() || one.bias.shape() == Shape{one.weight->out()},
          "[packed_linear] bias {} does not fit weight {}",
          one.bias.defined() ? one.bias.shape() : Shape{}, one.weight->shape());
    check(one.exact == by.front().exact, "[packed_linear] products of one x differ in precision");
  }
}

}  // namespace

std::vector<Tensor> linears(const Tensor& x, std::span<const PackedLinear> by) {
  check_operands(x, by);
  std::vector<Tensor> inputs = {x};
  Weights weights;
  for (const PackedLinear& one : by) {
    inputs.push_back(one.bias);
    weights.push_back(one.weight);
  }
  const std::optional<Precision> exact = by.empty() ? std::nullopt : by.front().exact;
  return apply_many(
      "packed_linear", inputs,
      [weights, exact](Inputs in, Saved&) {
        std::vector<PackedLinear> parts;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          parts.push_back({weights[i], in[i + 1], exact});
        }
        if (in[0].dtype() == DType::f32) {
          return exact && !rows_are_apart() ? exact_products(in[0], parts, *exact)
                                            : PackedProducts(in[0], parts).run();
        }
        std::vector<Tensor> outputs;
        for (const PackedLinear& part : parts) {
          outputs.push_back(linear(in[0], unpacked_f64(*part.weight), part.bias));
        }
        return outputs;
      },
      [weights, exact](Inputs dys, const Saved&, const Needs& needs) -> Grads {
        Grads grads(weights.size() + 1);
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (!dys[i].defined() || !needs[i + 1]) continue;
          grads[i + 1] = sum(reshape(dys[i], {-1, weights[i]->out()}), {0});
        }
        if (needs[0]) grads[0] = gradient_of_x(dys, weights, exact.value_or(Precision::full));
        return grads;
      });
}

Tensor linear(const Tensor& x, const PackedLinear& by) { return linears(x, {&by, 1})[0]; }

}  // namespace tapegrad
