#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Rows that follow each other in one sequence, which begin with a state.
struct StatePiece {
  std::int64_t begin, end;         // rows
  Tensor state = {};               // before them (H, A, C); undefined: zeros
  std::vector<std::int64_t> keep;  // rows, ascending
  std::vector<Tensor> kept = {};   // set: the states behind each of these rows
};
// The gated delta rule (recurrent_ops.h) for generation, row by row: q, k (N, K, A), v (N, H, C),
// g, beta (N, H) → (N, H, C), 0 where there is no piece. A row gets the same bits whatever stands
// beside it, and however a sequence is cut into pieces. An Error where a tape tracks an argument.
Tensor gated_delta_rule_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                               const Tensor& beta, std::span<StatePiece> pieces);
// The same of the scan of a state space: x (N, H, P), dt (N, H), A (H), B, C (N, G, S) →
// (N, H, P), with states (H, S, P).
Tensor state_space_scan_pieces(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                               const Tensor& C, std::span<StatePiece> pieces);

}  // namespace tapegrad
