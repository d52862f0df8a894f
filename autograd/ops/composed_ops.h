#pragma once

// Activations, distances and bags of embeddings made of the ops of ops.h, with PyTorch's names,
// defaults and conventions where a derivative does not exist.

#include <cstdint>
#include <optional>
#include <vector>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// x where x > 0, else slope·x; the derivative at 0 is the slope.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// x where x > 0, else alpha·(eˣ − 1) (Clevert et al., "Fast and Accurate Deep Network Learning by
// Exponential Linear Units", 2015).
Tensor elu(const Tensor& x, double alpha = 1);
// x·tanh(softplus(x)) (Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019).
Tensor mish(const Tensor& x);
// 0 for x <= −3, x for x >= 3, else x·(x + 3)/6 (Howard et al., "Searching for MobileNetV3", 2019,
// section 5.2). The derivative is 0 at −3 and 1 at 3.
Tensor hardswish(const Tensor& x);
// x limited to [low, high]. Unlike clamp, it passes no gradient at the edges. relu6 is
// hardtanh(x, 0, 6).
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
// (x + 3)/6, limited to [0, 1] (Courbariaux et al., "BinaryConnect", 2015, with another slope). The
// derivative at −3, 3 and NaN is 0.
Tensor hardsigmoid(const Tensor& x);

// What stands beside the elements of a dimension …, a, b, c: reflect gives …, c, b, a, b, c, b, a,
// …, replicate a, a, a, b, c, c, c, and circular b, c, a, b, c, a, b.
enum class PadMode { reflect, replicate, circular };
// x with more elements at the ends of its dimensions: F.pad of other modes than constant zeros,
// which pad() of movement_ops.h adds. The padding is a pair (before, after) of the last dimension,
// then one of the last but one, and so on. Error for less than 0, and if reflect adds as many as
// there are or circular more.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, PadMode mode);

// x / max(‖x‖, eps), with the norms of order p along dim.
Tensor normalize(const Tensor& x, double p = 2, int dim = 1, double eps = 1e-12);
// Σ(a/max(‖a‖, eps))·(b/max(‖b‖, eps)) along dim, which is removed; a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);
// norm(a − b + eps, p) along the last dimension; a and b broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keepdim = false);

enum class BagMode { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  Tensor offsets = {};             // (B): where each bag begins in ids (N)
  Tensor per_sample_weights = {};  // of ids' shape: factors of the rows, for BagMode::sum
  std::optional<std::int64_t> padding_idx = {};  // ids that do not count; negative: from the end
  bool include_last_offset = false;  // offsets (B + 1) end with the number of ids, as in CSR
};
// The sum, mean or largest elements of the rows of weight (V, C) that each of B bags names.  ids
// (B, L), or (N) with offsets, in i32 or i64 → (B, C). An empty bag gives zeros. Of equal largest
// elements, the first gets the gradient; NaN counts as largest. Memory of max: B times the largest
// bag. Error on an id outside [0, V), and unless offsets rise from 0. PyTorch's max_norm, which
// writes into weight, scale_grad_by_freq and sparse gradients do not exist.
Tensor embedding_bag(const Tensor& weight, const Tensor& ids,
                     const EmbeddingBagOptions& options = {});

}  // namespace tapegrad
