#include "nn/attention.h"

namespace tapegrad::nn {

MultiHeadAttention::MultiHeadAttention(const Params& p, std::int64_t channels, int heads, bool bias,
                                       bool qkv_bias, double drop, bool is_causal)
    : c_attn(p / "c_attn", channels, 3 * channels, qkv_bias),
      c_proj(p / "c_proj", channels, channels, bias),
      n_head(heads),
      dropout(drop),
      causal(is_causal) {}

Tensor MultiHeadAttention::operator()(const Tensor& x, Rng* rng) const {
  const Tensor y = attention(c_attn(x), n_head, {.causal = causal, .dropout = dropout, .rng = rng});
  return maybe_dropout(c_proj(y), dropout, rng);
}

}  // namespace tapegrad::nn
