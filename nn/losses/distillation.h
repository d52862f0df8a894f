#pragma once

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {

// How a decoder learns from another one of the same tokens: see linear_distillation() in
// autograd/ops/head_ops.h.
struct DistillationOptions {
  double weight = 0.5;  // of the teacher's word; that of the targets is 1 − weight
  double temperature = 2;
};
// Decoder::loss() beside a teacher, which reads the same tokens (B, T), drops nothing out, is
// recorded by no tape, and must live until backward. Routers' losses are as Decoder::loss() has
// them. Error if its vocabulary has another size.
Tensor distillation_loss(const Decoder& model, const Decoder& teacher, const TokenRows& tokens,
                         const Tensor& targets, const DistillationOptions& options,
                         Rng* dropout = nullptr, std::int32_t ignore_index = -100,
                         RouterLosses* routers = nullptr);

}  // namespace tapegrad::nn
