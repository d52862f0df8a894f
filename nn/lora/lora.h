#pragma once

#include <memory>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// A low-rank adapter beside a linear layer, whose own weights stay as they are (Hu et al., "LoRA:
// Low-Rank Adaptation of Large Language Models", 2021, section 4.1):
//
//   y = x·Wᵀ + b + scale·(x·Aᵀ)·Bᵀ
//
// where the scale is alpha/rank, or as LoraScaling says.
// A is drawn as the weight of an nn.Linear, and B is 0, as in Hugging Face's PEFT: a model with new
// adapters computes what it computes without them. Params::adapt() says which layers have one.
struct Lora {
  Tensor A, B;  // (rank, in), (out, rank); undefined: the layer has no adapter
  double scale = 0;
  Precision precision = Precision::full;
  Lora() = default;
  // The adapter of the layer that p is the prefix of: "lora_A.weight" and "lora_B.weight".
  Lora(const Params& p, std::int64_t in, std::int64_t out);
  bool exists() const { return A.defined(); }
  // The adapter's addend: (…, in) → (…, out).
  Tensor operator()(const Tensor& x) const {
    return linear(linear(x, {A, precision}) * scale, {B, precision});
  }
};

// The adapters of the linear layers of one kind of all experts (layers/experts.h), each with
// matrices of its own.
struct StackedLora {
  Tensor A, B;  // (experts, rank, in), (experts, out, rank); undefined: the layers have none
  double scale = 0;
  Precision precision = Precision::full;
  StackedLora() = default;
  // Error if requests choose among adapters (Params::offer), and one of them is for these layers.
  StackedLora(const Params& p, std::int64_t experts, std::int64_t in, std::int64_t out);
  bool exists() const { return A.defined(); }
  // The addend for rows that are sorted by expert, see grouped_linear(): (N, in) → (N, out).
  Tensor operator()(const Tensor& x, const Tensor& ends) const;
};

// The tensors of a model with adapters as those of one without: W + scale·B·A in place of a
// weight and its adapter. Error, naming the tensor, if an adapter is not whole, is not of
// options.rank, or belongs to no weight.
std::shared_ptr<const TensorSource> merge_adapters(std::shared_ptr<const TensorSource> source,
                                                   const LoraOptions& options);

}  // namespace tapegrad::nn
