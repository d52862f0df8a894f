#pragma once

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// For configs: Error, naming the value, unless 1 <= value <= most.
inline void check_size(std::string_view field, std::int64_t value, std::int64_t most) {
  check(value >= 1 && value <= most, "{} must be from 1 to {}, not {}", field, most, value);
}

// Layers are plain structs: tensors, a constructor that asks the store for them, and operator().
// Where a forward takes an Rng, it drops out with it; null means evaluation. A layer without
// arguments is absent: its weight is undefined, and it must not be called.

// y = x·Wᵀ + b.  (…, in) → (…, out). Initialised as nn.Linear.
struct Linear {
  Tensor weight, bias;  // (out, in); (out) or undefined
  Precision precision = Precision::full;
  Linear() = default;
  Linear(const Params& p, std::int64_t in, std::int64_t out, bool with_bias = true);
  // A layer on a weight that belongs to another one, as a tied head does.
  Linear(const Params& p, Tensor shared_weight)
      : weight(std::move(shared_weight)), precision(p.precision()) {}
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias, precision); }
};

// Rows of weight (V, C): ids (…) → (…, C). Initialised N(0, 1), as nn.Embedding.
struct Embedding {
  Tensor weight;
  Embedding() = default;
  Embedding(const Params& p, std::int64_t rows, std::int64_t channels);
  Tensor operator()(const Tensor& ids) const { return embedding(weight, ids); }
};

struct LayerNorm {
  Tensor weight, bias;  // (C); the bias may be undefined
  double eps = 1e-5;
  bool unbiased = false;  // divide the squares by C − 1, not by C; NaN for C = 1, as in PyTorch
  LayerNorm() = default;
  LayerNorm(const Params& p, std::int64_t channels, bool with_bias = true, double eps = 1e-5,
            bool unbiased = false);
  Tensor operator()(const Tensor& x) const {
    return layer_norm(x, weight, bias, {.eps = eps, .unbiased = unbiased});
  }
};

enum class Activation { gelu, gelu_erf, relu };
Tensor activate(const Tensor& x, Activation activation);
// "gelu", "gelu-erf" or "relu"; Error, listing these, for another name.
Activation activation_from(const std::string& name);
std::string name_of(Activation activation);

// C → hidden → C, with the activation between and dropout at the end; with hidden_dropout, also
// after the activation.
struct FeedForward {
  Linear c_fc, c_proj;
  Activation activation;
  double dropout, hidden_dropout;
  FeedForward(const Params& p, std::int64_t channels, std::int64_t hidden, bool bias,
              Activation activation, double dropout, double hidden_dropout = 0);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

// Dropout if there is an rng.
Tensor maybe_dropout(const Tensor& x, double p, Rng* rng);

}  // namespace tapegrad::nn
