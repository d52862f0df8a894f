#pragma once

// Losses, with PyTorch's names, defaults and conventions where a derivative does not exist.

#include <cstdint>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/autograd/weight.h"

namespace tapegrad {

// Mean of −log softmax(logits)[target] over the targets that are not ignore_index; NaN if all are.
// logits (…, V), targets (…) i32 or i64. Error on a target outside [0, V) with the target and
// its position. Floats as targets are probabilities: see the one with CrossEntropyOptions.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int32_t ignore_index = -100);
// cross_entropy(linear(x, weight), targets) without the logits: kLossChunk rows at a time are made,
// turned into their gradients, and dropped. x (…, C), weight (V, C), targets (…) i32 or i64. The
// softmax is of f32 logits. With a cap, logits become softcap(logits, cap).
inline constexpr std::int64_t kLossChunk = 384;
Tensor linear_cross_entropy(const Tensor& x, const Weight& weight, const Tensor& targets,
                            std::int32_t ignore_index = -100, double cap = 0);
// mean((x − target)²); the shapes must be equal.
Tensor mse_loss(const Tensor& x, const Tensor& target);

// The reduction of the losses of all elements; batchmean is the sum divided by the first dimension.
enum class Reduction { none, mean, sum, batchmean };
struct BinaryLossOptions {
  Tensor weight = {};      // of the elements; broadcasts to them
  Tensor pos_weight = {};  // with logits only: a factor of −t·log p, broadcasts
  Reduction reduction = Reduction::mean;
};

struct CrossEntropyOptions {
  Tensor weight = {};  // (V), of the classes; Error if a live tape tracks it
  std::int32_t ignore_index = -100;
  double label_smoothing = 0;             // from 0 to 1, else Error
  Reduction reduction = Reduction::mean;  // the mean divides by the sum of the targets' weights
};
// With p = softmax(logits), s = label_smoothing (Szegedy et al., 2016, arXiv 1512.00567, section
// 7): −(1 − s)·weight[target]·log p[target] − s/V·Σᵥ weight[v]·log p[v], 0 where the target is
// ignored. Floats q (…, V) as targets are probabilities: −Σᵥ weight[v]·((1 − s)·q[v] + s/V)·log
// p[v], the mean is over rows. Memory, unless all is default: log p. Error for batchmean.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options);

// −t·log p − (1 − t)·log(1 − p) for probabilities p and targets t of one shape. As in PyTorch, the
// logarithms are −100 at least, and p·(1 − p) in the gradient 1e-12 at least. Error on a p or t
// outside [0, 1].
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                            const BinaryLossOptions& options = {});
// binary_cross_entropy() with p = σ(logits), exact for logits of any size.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryLossOptions& options = {});
struct KlDivOptions {
  Reduction reduction = Reduction::mean;  // the divergence of a batch is batchmean
  bool log_target = false;                // the target holds logarithms, too
};
// target·(log target − x), 0 where the target is 0: the Kullback–Leibler divergence of the
// distribution x, given as logarithms, from the target. The two broadcast.
Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});

struct NllLossOptions {
  Tensor weight = {};  // (V), of the classes; Error if a live tape tracks it
  std::int32_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  // the mean divides by the sum of the targets' weights
};
// −weight·log_probs[target], 0 where the target is ignored.  log_probs (…, V), of a log_softmax;
// targets (…) i32 or i64. cross_entropy() of logits is faster. Error on a target outside [0, V),
// and for Reduction::batchmean.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NllLossOptions& options = {});

// Losses of x and target of one shape; the derivative where they are equal is 0. Error for
// Reduction::batchmean.

// |x − target|.
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
// With d = |x − target|: d²/(2·beta) where d < beta, else d − beta/2. Error unless beta > 0.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::mean);
// beta·smooth_l1_loss: d²/2 where d < delta, else delta·(d − delta/2) (Huber, "Robust Estimation of
// a Location Parameter", 1964). Error unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  Reduction reduction = Reduction::mean);

// Losses of a margin, with max(0, z) of derivative 0 at 0 and at NaN. Targets are 1 or −1, else
// Error, and broadcast. Error for Reduction::batchmean.

// x where the target is 1, else max(0, margin − x). Error if a live tape tracks the target.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean);
// max(0, −target·(first − second) + margin): 1 asks for a larger first. They have one shape.
Tensor margin_ranking_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                           double margin = 0, Reduction reduction = Reduction::mean);
// With the cosine of a and b (…, C) along C: 1 − cos where the target (…) is 1, else
// max(0, cos − margin). Error if a live tape tracks the target.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             double margin = 0, Reduction reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1;
  double p = 2, eps = 1e-6;  // of pairwise_distance()
  bool swap = false;         // the negative's distance is also that to the positive, if smaller
  Reduction reduction = Reduction::mean;
};
// max(0, d(anchor, positive) − d(anchor, negative) + margin) with d = pairwise_distance(). The
// three have one shape.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

}  // namespace tapegrad
