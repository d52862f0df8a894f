#pragma once

#include <cstdint>

#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::optim {

struct SOAPOptions {
  double beta1 = 0.95;
  double beta2 = 0.95;  // of the squares and of L and R
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::int64_t precondition_frequency = 10;
  std::int64_t max_precond_dim = 10000;

  // A run has weight_decay for all optimisers: see GroupRules.
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("soap_beta1", o.beta1, "decay of the mean gradient",
      {.least = 0, .most = 1, .below_most = true});
    t("soap_beta2", o.beta2, "decay of the mean squares, and of the means of G·Gᵀ and Gᵀ·G",
      {.least = 0, .most = 1, .below_most = true});
    t("precondition_frequency", o.precondition_frequency,
      "steps after which the eigenvectors are computed anew",
      {.least = 1, .most = std::int64_t{1} << 40});
    t("max_precond_dim", o.max_precond_dim,
      "a side of a matrix with more rows or columns keeps its own axes",
      {.least = 1, .most = std::int64_t{1} << 40});
  }
};

// SOAP (Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam", arXiv 2409.11321,
// algorithm 3): Adam in the axes of Shampoo. With the names and defaults of its authors' program.
// For each matrix p (rows, columns) with gradient G, and orthonormal rows A and B:
//   M ← β₁·M + (1 − β₁)·G,   V ← β₂·V + (1 − β₂)·(A·G·Bᵀ)²,
//   N = Aᵀ·(A·M·Bᵀ / (√V + eps))·B,
//   p ← p·(1 − lr·decay),   p ← p − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·N,
//   L ← β₂·L + (1 − β₂)·G·Gᵀ,   R ← β₂·R + (1 − β₂)·Gᵀ·G.
// A has approximate eigenvectors of L, and B those of R: after every precondition_frequency steps,
// they are sorted by their eigenvalues, multiplied once by L or R, and made orthonormal from the
// first one on (a step of orthogonal iteration, QR in the paper); V is sorted with them. The first
// step makes L, R, A and B alone, by five iterations from the axes of p, and leaves p: the authors'
// program has an eigendecomposition there. t counts from the second step on.
//
// A checkpoint has M as "exp_avg.<name>", V as "exp_avg_sq.<name>", L and A as "left.<name>" and
// "left_basis.<name>", R and B as "right.<name>" and "right_basis.<name>". A matrix of r rows and c
// columns keeps 2·(r·c + r² + c²) numbers; without the squares of sides beyond max_precond_dim.
//
// Error for a parameter that is not a matrix. make_groups() with GroupRules of the optimiser "soap"
// gives all but hidden matrices to AdamW: see is_hidden_matrix in muon.h.
class SOAP : public OptimizerState {
 public:
  SOAP(NamedTensors parameters, const SOAPOptions& options = {});
};

}  // namespace tapegrad::optim
