#pragma once

#include <array>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/describe.h"
#include "tapegrad/nn/lora.h"

namespace tapegrad::nn {

// Layers are plain structs: tensors, a constructor that asks the store for them, and operator().
// A forward that takes an Rng drops out with it; null means evaluation. A layer made without
// arguments is absent: its weight is undefined, and it must not be called.

// y = x·Wᵀ + b.  (…, in) → (…, out). Initialised as nn.Linear. The store may want an adapter
// beside it.
struct Linear {
  Tensor weight, bias;  // (out, in); (out) or undefined
  Precision precision = Precision::full;
  Lora adapter;
  Linear() = default;
  Linear(const Params& p, std::int64_t in, std::int64_t out, bool with_bias = true);
  // A layer on a weight that belongs to another one, as a tied head does.
  Linear(const Params& p, Tensor shared_weight)
      : weight(std::move(shared_weight)), precision(p.precision()) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = linear(x, weight, bias, precision);
    return adapter.exists() ? y + adapter(x) : y;
  }
};

// Rows of weight (V, C): ids (…) → (…, C). Initialised N(0, 1), as nn.Embedding.
struct Embedding {
  Tensor weight;
  Embedding() = default;
  Embedding(const Params& p, std::int64_t rows, std::int64_t channels);
  Tensor operator()(const Tensor& ids) const { return embedding(weight, ids); }
};

// (…, C) → (…, C), see layer_norm in ops.h. Initialised to weight 1 and bias 0.
struct LayerNorm {
  Tensor weight, bias;  // (C); the bias may be undefined
  LayerNormOptions options;
  LayerNorm() = default;
  LayerNorm(const Params& p, std::int64_t channels, bool with_bias = true,
            const LayerNormOptions& options = {});
  Tensor operator()(const Tensor& x) const { return layer_norm(x, weight, bias, options); }
};

// (…, C) → (…, C), see rms_norm in ops.h. Initialised to weight 1.
struct RMSNorm {
  Tensor weight;  // (C)
  double eps = 1e-5;
  RMSNorm() = default;
  RMSNorm(const Params& p, std::int64_t channels, double eps);
  Tensor operator()(const Tensor& x) const { return rms_norm(x, weight, eps); }
};

enum class Activation { gelu, gelu_erf, relu };
inline constexpr std::array<std::string_view, 3> kActivationNames = {"gelu", "gelu-erf", "relu"};
inline std::span<const std::string_view> names_of(Activation) { return kActivationNames; }
Tensor activate(const Tensor& x, Activation activation);

// C → hidden → C: a linear, the activation, a linear, dropout. With hidden_dropout, also dropout
// after the activation.
struct FeedForward {
  Linear c_fc, c_proj;
  Activation activation;
  double dropout, hidden_dropout;
  FeedForward(const Params& p, std::int64_t channels, std::int64_t hidden, bool bias,
              Activation activation, double dropout, double hidden_dropout = 0);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

// Dropout with probability p if there is an rng; otherwise x.
Tensor maybe_dropout(const Tensor& x, double p, Rng* rng);

}  // namespace tapegrad::nn
