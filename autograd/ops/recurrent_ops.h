#pragma once

// Recurrent networks over whole sequences: T steps of a batch of B, H hidden channels. Each layer
// is one op, whose steps are fused. As in ops.h, they work in f32 and f64, and an Error names the
// op, the rule and the shapes. Derivatives of the second and higher orders exist; they go through
// ops of each step.
//
// x (T, B, G·H) is what the input adds to the G gates of each step: linear(input, weight_ih,
// bias_ih) for all steps at once. weight_hh is (G·H, H), bias_hh (G·H) or undefined, h0 (B, H). The
// order of the gates is PyTorch's. Error unless T > 0. The gated delta rule and the scan of a
// state space stand apart: see there.

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

struct LstmSteps {
  Tensor y;     // (T, B, H), the hidden state after each step
  Tensor h, c;  // (B, H), the states after the last
};
// Gates i, f, g, o, G = 4 (Hochreiter & Schmidhuber, "Long Short-Term Memory", 1997; the forget
// gate by Gers et al., 2000). With a = x_t + h·weight_hhᵀ + bias_hh in four parts: c ← σ(a_f)·c +
// σ(a_i)·tanh(a_g), h ← σ(a_o)·tanh(c).  c0 (B, H).
LstmSteps lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_hh,
               const Tensor& bias_hh = {});

struct RecurrentSteps {
  Tensor y;  // (T, B, H), the hidden state after each step
  Tensor h;  // (B, H), that after the last
};
// Gates r, z, n, G = 3 (Cho et al., "Learning Phrase Representations using RNN Encoder–Decoder",
// 2014). With b = h·weight_hhᵀ + bias_hh: r = σ(x_r + b_r), z = σ(x_z + b_z),
// n = tanh(x_n + r·b_n), h ← (1 − z)·n + z·h.
RecurrentSteps gru(const Tensor& x, const Tensor& h0, const Tensor& weight_hh,
                   const Tensor& bias_hh = {});

enum class Nonlinearity { tanh, relu };
// h ← tanh(x_t + h·weight_hhᵀ + bias_hh), or relu of it; G = 1 (Elman, "Finding Structure in Time",
// 1990).
RecurrentSteps rnn(const Tensor& x, const Tensor& h0, const Tensor& weight_hh,
                   const Tensor& bias_hh = {}, Nonlinearity nonlinearity = Nonlinearity::tanh);

// The gated delta rule, a linear attention whose state is a matrix that forgets and corrects itself
// (Yang, Kautz & Hatamizadeh, "Gated Delta Networks", 2024, equation 10), as in Qwen3-Next. Of each
// head, from a state S (A, C) of zeros, with q_t and k_t (A) and v_t (C):
//   S ← exp(g_t)·S,  S ← S + k_t·(β_t·(v_t − k_tᵀ·S)),  y_t = q_tᵀ·S / √A.
// q, k (B, T, K, A), v (B, T, H, C), g, beta (B, T, H) → (B, T, H, C). H/K heads of v in a row
// share one of q and k. Meant for g ≤ 0, β in [0, 1], and k of length 1, otherwise a state may
// grow. With document_starts (B, T) i32, of documents side by side (ScoreOptions), each document
// begins with a state of zeros. Time and memory are linear in T, and the bits of a document are
// those that it has alone.
Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                        const Tensor& beta, const Tensor& document_starts = {});
// The same, composed of ops of each position: slow, and the source of its second derivatives.
Tensor gated_delta_rule_steps(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& document_starts = {});

// The scan of a state space, Mamba-2's linear attention, whose state forgets by a number that the
// input chooses (Dao & Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms
// Through Structured State Space Duality", 2024, section 6), as in Granite 4. Of each head, from a
// state S (N, P) of zeros, with B_t and C_t (N) and x_t (P):
//   S ← exp(dt_t·A)·S + dt_t·B_t·x_tᵀ,  y_t = C_tᵀ·S.
// x (B, T, H, P), dt (B, T, H), A (H), B, C (B, T, G, N) → (B, T, H, P). H/G heads in a row share
// one B and C. Meant for dt ≥ 0 and A ≤ 0, otherwise a state may grow. A decay is a product of
// exp(dt·A), however strong: no exponent of a difference is computed. document_starts, time, memory
// and bits are as of gated_delta_rule.
Tensor state_space_scan(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                        const Tensor& C, const Tensor& document_starts = {});
// The same, composed of ops of each position: slow, and the source of its second derivatives.
Tensor state_space_scan_steps(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B,
                              const Tensor& C, const Tensor& document_starts = {});

}  // namespace tapegrad
