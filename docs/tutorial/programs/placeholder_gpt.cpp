#include "placeholder_gpt.h"

#include <numeric>

namespace tapegrad::tutorial {

PlaceholderGPT::PlaceholderGPT(const nn::Params& p, const nn::DecoderConfig& c)
    : wte(p / "wte", c.vocab_size, c.n_embd),
      wpe(p / "wpe", c.block_size, c.n_embd),
      lm_head(p / "lm_head", c.n_embd, c.vocab_size, false),
      dropout(c.dropout) {
  p.check_all_used();
}

Tensor PlaceholderGPT::operator()(const Tensor& ids, Rng* rng) const {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(ids.dim(1)));
  std::iota(positions.begin(), positions.end(), 0);
  const Tensor x = wte(ids) + wpe(Tensor::from(positions, {ids.dim(1)}));
  return lm_head(nn::maybe_dropout(x, dropout, rng));
}

}  // namespace tapegrad::tutorial
