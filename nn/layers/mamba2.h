#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// Sizes of a Decoder's Mamba-2, as options.
struct MambaOptions {
  std::optional<int> heads = {};  // [2·n_embd / head_size]
  std::int64_t head_size = 64, state_size = 128;
  int groups = 1;
  int norm_groups = 1;  // parts of the output's channels that have an RMS norm each; 0: no norm
  bool operator==(const MambaOptions&) const = default;
  // The first option that is not as in a new config; empty: there is none.
  std::string_view first_given() const {
    const MambaOptions plain;
    if (heads) return "mamba_heads";
    if (head_size != plain.head_size) return "mamba_head_size";
    if (state_size != plain.state_size) return "mamba_state_size";
    if (groups != plain.groups) return "mamba_groups";
    return norm_groups != plain.norm_groups ? "mamba_norm_groups" : "";
  }

  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    t("mamba_heads", c.heads, "heads of Mamba-2 [2 x --n-embd / --mamba-head-size]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("mamba_head_size", c.head_size, "channels of such a head",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("mamba_state_size", c.state_size, "numbers of a state for each of these channels",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("mamba_groups", c.groups,
      "groups of its heads: those of one write and read their states in the same way",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("mamba_norm_groups", c.norm_groups,
      "parts of its output's channels that are normed by themselves; 0: there is no norm",
      {.least = 0, .most = 1 << 16, .newer = true});
  }
};

// What the gate z, x, B, C and the steps dt are multiplied by.
using MambaScales = std::array<double, 5>;

// The sizes themselves.
struct MambaSizes {
  std::int64_t heads, head_size, groups, state_size;
  std::int64_t channels() const { return heads * head_size; }
  // Those of the convolution: of what is put into states, and two rows of each group's states.
  std::int64_t mixed_channels() const { return channels() + 2 * groups * state_size; }
};

// The scales one by one, of each channel that a Mamba-2 projects: (2·channels() + …).
Tensor scales_of_channels(const MambaSizes& sizes, const MambaScales& scales, DType dtype);

// The names of a Mamba-2's parts.
struct Mamba2Names {
  const char *in = "in_proj", *conv = "conv1d", *step = "dt_bias", *rate = "A_log", *skip = "D";
  const char *norm = "norm", *out = "out_proj";
};
struct Mamba2Config {
  // Heads, channels of one, groups of them that share B and C, and numbers of a state for each
  // channel. Groups divide heads.
  MambaSizes sizes = {1, 1, 1, 1};
  std::int64_t kernel = 4;  // positions that the convolution sees
  bool conv_bias = true;
  std::int64_t norm_groups = 1;  // see MambaOptions
  double norm_eps = 1e-5;
  MambaScales scales = {1, 1, 1, 1, 1};
  double dropout = 0;  // of the result
  Mamba2Names names = {};
};

// Mamba-2 (Dao & Gu, "Transformers are SSMs", 2024, section 7), as in Granite 4: it mixes positions
// by a state of one size. Of x, in_proj makes the gate z, then x', B and C side by side, which
// silu(causal_conv1d(…)) mixes over a few positions, and a step of each head, which becomes
// dt = softplus(step + dt_bias). With A = −exp(A_log), y = state_space_scan(x', dt, A, B, C) +
// D·x', and the result is out_proj(rms_norm(y·silu(z))), normed over the channels of all heads, of
// each of norm_groups parts of them, or not at all. What in_proj makes may be multiplied by numbers
// first (Falcon-H1). (B, T, C) → (B, T, C). Linears and the convolution are initialised as
// nn.Linear and nn.Conv1d, exp(A_log) in [1, 16], D is 1, and dt_bias as GatedDeltaNet's.
struct Mamba2 {
  Mamba2Config config;
  // With M = sizes.mixed_channels() of x', B and C:
  Linear in_proj;            // C → heads·head_size + M + heads
  Tensor weight, bias;       // of the convolution: (M, 1, kernel), and (M) or undefined
  Tensor dt_bias, A_log, D;  // (heads)
  RMSNorm norm;              // over heads·head_size; absent without norm_groups
  Linear out_proj;           // heads·head_size → C
  Tensor scales;             // of what in_proj makes; undefined if all of config.scales are 1
  Mamba2() = default;
  Mamba2(const Params& p, std::int64_t channels, const Mamba2Config& config);
  bool exists() const { return weight.defined(); }
  // With `document_starts` (B, T) i32, of documents side by side (ScoreOptions in ops.h).
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& document_starts = {}) const;
  // Of positions (B, T, C) that follow those in the caches of B sequences, which keep their states:
  // see RecurrentStates. For generation: no tape may record it.
  Tensor operator()(const Tensor& x, CachedLayer caches) const;

 private:
  struct Mixed {
    Tensor x, dt, A, B, C;
  };
  Tensor projected(const Tensor& x) const;
  Mixed mix(const Tensor& xBC, const Tensor& steps, const Tensor& document_starts = {}) const;
  Tensor with_skip(const Tensor& y, const Tensor& x) const;
  Tensor output(const Tensor& y, const Tensor& z) const;
};

}  // namespace tapegrad::nn
