#include "tapegrad/nn/gpt.h"

#include <cmath>
#include <numeric>

namespace tapegrad::nn {
namespace {

// The head: of its own, or on the token embedding. Then its draws replace the embedding's, as where
// PyTorch code sets wte.weight = lm_head.weight.
Linear make_head(const Params& p, const GPTConfig& config, const Embedding& wte) {
  if (!config.tied)
    return Linear(p.unadapted() / "lm_head", config.n_embd, config.vocab_size, false);
  p.redraw(wte.weight, kaiming_uniform(config.n_embd));
  return {p, wte.weight};
}

LayerNorm make_norm(const Params& p, const GPTConfig& c) {
  return {p, c.n_embd, c.with_bias(), {.eps = c.norm_eps, .unbiased = c.unbiased_norm}};
}

std::vector<Block> make_blocks(const Params& p, const GPTConfig& config) {
  std::vector<Block> blocks;
  for (int i = 0; i < config.n_layer; ++i) blocks.emplace_back(p / i, config);
  return blocks;
}

const GPTConfig& validated(const GPTConfig& config) {
  config.validate();
  return config;
}

}  // namespace

void GPTConfig::validate() const {
  check_rules(*this);
  check(n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd, n_head);
  check(!rope || n_embd / n_head % 2 == 0,
        "rope needs an even number of channels per head, not {} (n_embd {}, n_head {})",
        n_embd / n_head, n_embd, n_head);
  check(!unbiased_norm || n_embd > 1,
        "unbiased_norm needs n_embd of at least 2: the unbiased "
        "variance of one number does not exist");
}

Block::Block(const Params& p, const GPTConfig& c)
    : ln_1(make_norm(p / "ln_1", c)),
      attn(p / "attn", c.n_embd,
           {.n_head = c.n_head,
            .bias = c.with_bias(),
            .qkv_bias = c.with_qkv_bias(),
            .separate_qkv = c.separate_qkv,
            .rope = c.rope,
            .dropout = c.dropout,
            .out_dropout = c.attn_out_dropout ? c.dropout : 0}),
      ln_2(make_norm(p / "ln_2", c)),
      mlp(p / "mlp", c.n_embd, c.inner(), c.with_bias(), c.activation, c.dropout,
          c.ff_dropout ? c.dropout : 0) {}

Tensor Block::operator()(const Tensor& x, Rng* rng) const {
  const Tensor y = x + attn(ln_1(x), rng);
  return y + mlp(ln_2(y), rng);
}

Tensor Block::operator()(const Tensor& x, KeysAndValues& cache) const {
  const Tensor y = x + attn(ln_1(x), cache);
  return y + mlp(ln_2(y));
}

GPT::GPT(const Params& p, const GPTConfig& c)
    : config(validated(c)),
      wte(p / "wte", c.vocab_size, c.n_embd),
      wpe(c.rope ? Embedding() : Embedding(p / "wpe", c.block_size, c.n_embd)),
      h(make_blocks(p / "h", c)),
      ln_f(make_norm(p / "ln_f", c)),
      lm_head(make_head(p, c, wte)) {
  p.check_all_used();
}

Tensor GPT::embed(const Tensor& ids, std::int64_t first) const {
  check(ids.rank() == 2, "[gpt] ids must be (B, T), not {}", ids.shape());
  const std::int64_t T = ids.dim(1);
  check(first + T <= config.block_size,
        "[gpt] a sequence of {} tokens is longer than block_size {}", first + T, config.block_size);
  if (config.rope) return wte(ids);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(T));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
  return wte(ids) + wpe(Tensor::from(positions, {T}));
}

Tensor GPT::hidden(const Tensor& ids, Rng* rng) const {
  Tensor x = maybe_dropout(embed(ids, 0), config.dropout, rng);
  for (const Block& block : h) {
    const auto run = [&block](Inputs in, Rng* r) { return block(in[0], r); };
    x = recompute ? checkpoint(run, {x}, rng) : block(x, rng);
  }
  return ln_f(x);
}

Tensor GPT::last_of(const Tensor& x) const {
  const std::int64_t T = x.dim(1);
  const Tensor last = reshape(slice(x, 1, T - 1, T), {x.dim(0), config.n_embd});
  return lm_head(ln_f(last));
}

Tensor GPT::last_logits(const Tensor& ids) const {
  Tensor x = embed(ids, 0);
  for (const Block& block : h) x = block(x);
  return last_of(x);
}

Tensor GPT::last_logits(const Tensor& ids, KVCache& cache) const {
  const TapePause pause;
  Tensor x = embed(ids, cache.length());
  cache.layers.resize(h.size());
  for (std::size_t i = 0; i < h.size(); ++i) x = h[i](x, cache.layers[i]);
  return last_of(x);
}

void init_gpt2(const GPT& gpt, const Params& p, Rng& rng) {
  const auto ends_with = [](const std::string& name, std::string_view end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  for (const auto& [name, t] : p.parameters()) {
    if (t.rank() == 2) refill(t, normal(0, 0.02), rng);
    if (ends_with(name, ".bias")) refill(t, zeros(), rng);
  }
  // A tied weight is visited twice: as the embedding's and as the head's.
  if (gpt.config.tied) refill(gpt.wte.weight, normal(0, 0.02), rng);
  const double projection = 0.02 / std::sqrt(2.0 * gpt.config.n_layer);
  for (const auto& [name, t] : p.parameters()) {
    if (ends_with(name, "c_proj.weight")) refill(t, normal(0, projection), rng);
  }
}

}  // namespace tapegrad::nn
