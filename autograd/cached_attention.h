#pragma once

#include <span>

#include "tapegrad/autograd/kernels/cached_page.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// Causal attention of the T newest positions of B sequences, each of a length of its own. q (B, T,
// C) → (B, T, C): query t of sequence b sees the first cached[b].length − T + t + 1 positions, or
// the last `window` of these. For inference: an Error where a tape tracks q. Each query's result
// has the same bits whatever other queries and sequences there are, and, with CacheType::f32, those
// of attention() of the whole sequence, if that has more than one position.
Tensor attention(const Tensor& q, std::span<const CachedKeys> cached, int n_head,
                 const ScoreOptions& scores = {});

}  // namespace tapegrad
