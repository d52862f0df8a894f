#include "tapegrad/nn/gpt.h"

#include <numeric>

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {
namespace {

LayerNorm make_norm(const Params& p, const GPTConfig& c) {
  return {p, c.n_embd, c.with_bias(), {.eps = c.norm_eps, .unbiased = c.unbiased_norm}};
}

const GPTConfig& validated(const GPTConfig& config) {
  config.validate();
  return config;
}

}  // namespace

namespace {

// Options of the one architecture that the other does not have.
void check_llama(const GPTConfig& c) {
  const auto lacks = [](bool given, std::string_view name) {
    check(!given, "arch llama has no {}", name);
  };
  lacks(c.with_bias(), "bias, only qkv_bias");
  lacks(c.separate_qkv, "separate_qkv: its projections are separate always");
  lacks(c.rope, "rope: its positions are rotary always");
  lacks(c.unbiased_norm, "unbiased_norm");
  lacks(c.ff_dropout, "ff_dropout");
  lacks(!c.attn_out_dropout, "attn_out_dropout false");
  lacks(c.activation != Activation::gelu, "activation: it is silu always");
  check(c.n_head % c.kv_heads() == 0, "n_head {} is not divisible by n_kv_head {}", c.n_head,
        c.kv_heads());
  check(c.rope_high_freq_factor > c.rope_low_freq_factor || c.rope_factor == 1,
        "rope_high_freq_factor {} must be above rope_low_freq_factor {}", c.rope_high_freq_factor,
        c.rope_low_freq_factor);
}

void check_gpt2(const GPTConfig& c) {
  const auto is_llamas = [](bool given, std::string_view name) {
    check(!given, "{} is for arch llama", name);
  };
  is_llamas(c.n_kv_head.has_value(), "n_kv_head");
  is_llamas(c.head_size.has_value(), "head_size");
  is_llamas(c.qk_norm, "qk_norm");
  is_llamas(c.rope_factor != 1, "rope_factor");
  check(!c.unbiased_norm || c.n_embd > 1,
        "unbiased_norm needs n_embd of at least 2: the unbiased "
        "variance of one number does not exist");
}

}  // namespace

void GPTConfig::validate() const {
  check_rules(*this);
  check(head_size || n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd,
        n_head);
  check(!rotary() || channels_per_head() % 2 == 0,
        "rope needs an even number of channels per head, not {} (n_embd {}, n_head {})",
        channels_per_head(), n_embd, n_head);
  is_llama() ? check_llama(*this) : check_gpt2(*this);
}

Block::Block(const Params& p, const GPTConfig& c)
    : ln_1(make_norm(p / "ln_1", c)),
      attn(p / "attn", c.n_embd,
           {.n_head = c.n_head,
            .bias = c.with_bias(),
            .qkv_bias = c.with_qkv_bias(),
            .separate_qkv = c.separate_qkv,
            .rope = c.rope,
            .rope_base = c.rope_base,
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
      h(decoder::make_blocks<Block>(p / "h", c)),
      ln_f(make_norm(p / "ln_f", c)),
      lm_head(decoder::make_head(p, c, wte)) {
  p.check_all_used();
}

Tensor GPT::embed(const Tensor& ids, std::int64_t first) const {
  decoder::check_ids(ids, first, config);
  if (config.rope) return wte(ids);
  const std::int64_t T = ids.dim(1);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(T));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
  return wte(ids) + wpe(Tensor::from(positions, {T}));
}

std::vector<Tensor> GPT::residual_stream(const Tensor& embedded) const {
  return decoder::states_between(h, embedded);
}

Tensor GPT::hidden(const Tensor& ids, Rng* rng) const {
  const Tensor x = maybe_dropout(embed(ids), config.dropout, rng);
  return ln_f(decoder::run_blocks(h, x, recompute, rng));
}

Tensor GPT::last_logits(const Tensor& ids) const {
  const Tensor x = decoder::run_blocks(h, embed(ids), false, nullptr);
  return lm_head(ln_f(decoder::last_position(x)));
}

Tensor GPT::last_logits(const Tensor& ids, KVCache& cache) const {
  const TapePause pause;
  const Tensor x = decoder::run_blocks(h, embed(ids, cache.length()), cache);
  return lm_head(ln_f(decoder::last_position(x)));
}

}  // namespace tapegrad::nn
