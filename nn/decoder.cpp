#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn::decoder {

Linear make_head(const Params& p, const GPTConfig& config, const Embedding& tokens) {
  if (!config.tied) {
    return Linear(p.unadapted() / "lm_head", config.n_embd, config.vocab_size, false);
  }
  p.redraw(tokens.weight, kaiming_uniform(config.n_embd));
  return {p, tokens.weight};
}

void check_ids(const Tensor& ids, std::int64_t first, const GPTConfig& config) {
  check(ids.rank() == 2, "[gpt] ids must be (B, T), not {}", ids.shape());
  check(first + ids.dim(1) <= config.block_size,
        "[gpt] a sequence of {} tokens is longer than block_size {}", first + ids.dim(1),
        config.block_size);
}

Tensor last_position(const Tensor& x) {
  const std::int64_t T = x.dim(1);
  return reshape(slice(x, 1, T - 1, T), {x.dim(0), x.dim(2)});
}

}  // namespace tapegrad::nn::decoder
