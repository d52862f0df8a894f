#include "nn/gpt.h"

#include <cmath>
#include <numeric>

namespace tapegrad::nn {
namespace {

// The head: of its own, or on the token embedding. nn.Linear draws its weight in either case.
Linear make_head(const Params& p, const GPTConfig& config, const Embedding& wte) {
  if (!config.tied) return Linear(p / "lm_head", config.n_embd, config.vocab_size, false);
  p.skip({config.vocab_size, config.n_embd}, kaiming_uniform(config.n_embd));
  return Linear(wte.weight);
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
  const auto positive = [](std::string_view name, std::int64_t value, std::int64_t most) {
    check(value >= 1 && value <= most, "{} must be from 1 to {}, not {}", name, most, value);
  };
  positive("vocab_size", vocab_size, 1 << 24);
  positive("block_size", block_size, 1 << 24);
  positive("n_layer", n_layer, 4096);
  positive("n_head", n_head, 1 << 16);
  positive("n_embd", n_embd, 1 << 20);
  check(n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd, n_head);
  check(dropout >= 0 && dropout < 1, "dropout must be at least 0 and below 1, not {}", dropout);
}

Block::Block(const Params& p, const GPTConfig& config)
    : ln_1(p / "ln_1", config.n_embd, config.bias),
      attn(p / "attn", config.n_embd, config.n_head, config.bias, config.qkv_bias, config.dropout),
      ln_2(p / "ln_2", config.n_embd, config.bias),
      mlp(p / "mlp", config.n_embd, 4 * config.n_embd, config.bias, config.activation,
          config.dropout) {}

Tensor Block::operator()(const Tensor& x, Rng* rng) const {
  const Tensor y = x + attn(ln_1(x), rng);
  return y + mlp(ln_2(y), rng);
}

GPT::GPT(const Params& p, const GPTConfig& c)
    : config(validated(c)),
      wte(p / "wte", c.vocab_size, c.n_embd),
      wpe(p / "wpe", c.block_size, c.n_embd),
      h(make_blocks(p / "h", c)),
      ln_f(p / "ln_f", c.n_embd, c.bias),
      lm_head(make_head(p, c, wte)) {
  p.check_all_used();
}

Tensor GPT::hidden(const Tensor& ids, Rng* rng) const {
  check(ids.rank() == 2, "[gpt] ids must be (B, T), not {}", ids.shape());
  const std::int64_t T = ids.dim(1);
  check(T <= config.block_size, "[gpt] a sequence of {} tokens is longer than block_size {}", T,
        config.block_size);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(T));
  std::iota(positions.begin(), positions.end(), 0);
  Tensor x = maybe_dropout(wte(ids) + wpe(Tensor::from(positions, {T})), config.dropout, rng);
  for (const Block& block : h) x = block(x, rng);
  return ln_f(x);
}

Tensor GPT::last_logits(const Tensor& ids) const {
  const std::int64_t B = ids.dim(0), T = ids.dim(1);
  return lm_head(reshape(slice(hidden(ids), 1, T - 1, T), {B, config.n_embd}));
}

void init_gpt2(const GPT& gpt, const Params& p, Rng& rng) {
  const auto fill = [&](const Tensor& t, const Init& init) { refill(t, init, rng); };
  const auto ends_with = [](const std::string& name, std::string_view end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  for (const auto& [name, t] : p.parameters()) {
    if (t.rank() == 2) fill(t, normal(0, 0.02));
    if (ends_with(name, ".bias")) fill(t, zeros());
  }
  // A tied weight is visited twice: as the embedding's and as the head's.
  if (gpt.config.tied) fill(gpt.wte.weight, normal(0, 0.02));
  const double projection = 0.02 / std::sqrt(2.0 * gpt.config.n_layer);
  for (const auto& [name, t] : p.parameters()) {
    if (ends_with(name, "c_proj.weight")) fill(t, normal(0, projection));
  }
}

}  // namespace tapegrad::nn
