#pragma once

#include <string_view>
#include <vector>

#include "tapegrad/autograd/apply.h"

namespace tapegrad {

// What the gated delta rule and the scan of a state space (recurrent_ops.h) have in common. Of each
// head, from a state S (A, C) of zeros:
//   S ← exp(g_t)·S,  S ← S + k_t·u_tᵀ,  y_t = scale·q_tᵀ·S,
// where u_t is β_t·v_t, or β_t·(v_t − k_tᵀ·S) for a state that corrects itself.
struct StateRule {
  std::string_view name, backward_name;
  bool corrects;
  bool scales;  // by 1/√A
};
inline constexpr StateRule kGatedDeltaRule{"gated_delta_rule", "gated_delta_rule_backward", true,
                                           true};
inline constexpr StateRule kStateSpaceScan{"state_space_scan", "state_space_scan_backward", false,
                                           false};

// Of inputs q, k (B, T, K, A), v (B, T, H, C), g and β (B, T, H), which fit: the fused op, and its
// composed form. `starts` are document_starts or undefined; the op takes a copy.
Tensor apply_state_rule(const StateRule& rule, const std::vector<Tensor>& in, const Tensor& starts);
Tensor state_rule_steps(const StateRule& rule, Inputs in, const Tensor& starts);

}  // namespace tapegrad
