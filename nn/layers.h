#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/nn/lora/lora.h"
#include "tapegrad/nn/lora/row_adapters.h"

namespace tapegrad::nn {

// Layers are plain structs: tensors, a constructor that asks the store for them, and operator().
// A forward that takes an Rng drops out with it; null means evaluation. A layer made without
// arguments is absent: its weight is undefined, and it must not be called.

// Rows of weight (V, C): ids (…) → (…, C). Initialised N(0, 1), as nn.Embedding. The row of
// padding_idx, which counts from the end if negative, is initialised to 0 and gets no gradient.
struct Embedding {
  Weight weight;
  std::optional<std::int64_t> padding_idx;
  Embedding() = default;
  Embedding(const Params& p, std::int64_t rows, std::int64_t channels,
            std::optional<std::int64_t> padding_idx = {});
  bool exists() const { return weight.exists(); }
  Tensor operator()(const Tensor& ids) const { return embedding(weight, ids, padding_idx); }
};

// y = x·Wᵀ + b.  (…, in) → (…, out). Initialised as nn.Linear. The store may want an adapter
// beside it.
struct Linear {
  Weight weight;  // (out, in)
  Tensor bias;    // (out) or undefined
  Lora adapter;
  std::vector<Lora> offered;  // adapters of which rows choose: see RowAdapters
  Linear() = default;
  Linear(const Params& p, std::int64_t in, std::int64_t out, bool with_bias = true);
  // A layer on the weight of another, as a head on that of an embedding.
  explicit Linear(const Weight& tied) : weight(tied) {}
  Tensor operator()(const Tensor& x) const;
  // y, which the layer's own weights make of x, with what its adapters add.
  Tensor with_adapters(const Tensor& x, const Tensor& y) const;
};
// The product of a head whose logits are asked for, in bf16 where other layers are in int8: the
// gradients of most logits are so much smaller than the largest of their row that 8 bits have no
// number for them. Losses that make their logits themselves need no such care (int8_head.h).
inline Tensor logits_of(const Linear& head, const Tensor& x) {
  Weight weight = head.weight;
  weight.precision = at_least_bf16(weight.precision);
  return linear(x, weight);
}
// The outputs of several layers for one x. If they are quantised, threads share out all of them
// together.
std::vector<Tensor> outputs_of(const Tensor& x, std::initializer_list<const Linear*> layers);

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

// The kinds of norms that a Decoder may have, all over the last dimension.
enum class NormKind {
  layer,     // layer_norm
  unbiased,  // layer_norm, whose variance divides by C − 1
  rms,       // rms_norm
  rms_plus,  // rms_norm with weights 1 + w, as in Gemma; w is initialised to 0
  rms_bare,  // rms_norm without weights, as in nanochat
};
inline constexpr std::array<std::string_view, 5> kNormKindNames = {"layer", "unbiased", "rms",
                                                                   "rms-plus", "rms-bare"};
inline std::span<const std::string_view> names_of(NormKind) { return kNormKindNames; }
struct NormOptions {
  NormKind kind = NormKind::layer;
  bool bias = true;  // of layer norms: RMS norms have none
  double eps = 1e-5;
};
// (…, C) → (…, C).
struct Norm {
  NormOptions options;
  std::int64_t channels = 0;  // 0: there is no norm
  Tensor weight, bias;        // (C); either may be undefined
  Norm() = default;
  Norm(const Params& p, std::int64_t channels, const NormOptions& options);
  bool exists() const { return channels > 0; }
  Tensor operator()(const Tensor& x) const;
};

// The last one is of gated layers alone: see clamped_swiglu in ops.h.
enum class Activation { gelu, gelu_erf, relu, silu, relu2, clamped_swiglu };
inline constexpr std::array<std::string_view, 6> kActivationNames = {
    "gelu", "gelu-erf", "relu", "silu", "relu2", "clamped-swiglu"};
inline std::span<const std::string_view> names_of(Activation) { return kActivationNames; }
Tensor activate(const Tensor& x, Activation activation);
// f(gate)·up.
Tensor activate_gated(const Tensor& gate, const Tensor& up, Activation activation);

// The names of a feed-forward layer's linears.
struct FeedForwardNames {
  const char *gate = "c_gate", *in = "c_fc", *out = "c_proj", *both = "c_gate_fc";
};
struct FeedForwardConfig {
  std::int64_t hidden = 1;
  bool bias = true;
  bool gated = false;
  bool joined_gate = false;  // gate and c_fc are one projection, the gate's rows first
  Activation activation = Activation::gelu;
  double dropout = 0;         // of the result
  double hidden_dropout = 0;  // between the linears
  double gate_scale = 1;      // of the gate, before its activation
  FeedForwardNames names = {};
};
// c_proj(f(c_fc(x))), or gated c_proj(f(c_gate(x))·c_fc(x)) (Shazeer, "GLU Variants Improve
// Transformer", 2020): C → hidden → C.
struct FeedForward {
  FeedForwardConfig config;
  Linear c_gate;  // absent unless gated, and if joined
  Linear c_fc, c_proj;
  FeedForward() = default;
  FeedForward(const Params& p, std::int64_t channels, const FeedForwardConfig& config);
  bool exists() const { return c_fc.weight.exists(); }
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

// Dropout with probability p if there is an rng; otherwise x.
Tensor maybe_dropout(const Tensor& x, double p, Rng* rng);

}  // namespace tapegrad::nn
