#include "tapegrad/nn/transformer.h"

#include <algorithm>
#include <cmath>

namespace tapegrad::nn {
namespace {

const TransformerConfig& validated(const TransformerConfig& config) {
  config.validate();
  return config;
}

template <class Layer>
std::vector<Layer> make_layers(const Params& p, const TransformerConfig& config) {
  std::vector<Layer> layers;
  for (int i = 0; i < config.n_layer; ++i) layers.emplace_back(p / i, config);
  return layers;
}

Tensor grown(const Tensor& cached, const Tensor& next) {
  return cached.defined() ? concat({cached, next}, 1) : next;
}

}  // namespace

void TransformerConfig::validate() const {
  check_size("vocab_size", vocab_size, 1 << 24);
  check_size("block_size", block_size, 1 << 24);
  check_size("n_layer", n_layer, 4096);
  check_size("n_head", n_head, 1 << 16);
  check_size("n_embd", n_embd, 1 << 20);
  check_size("n_hidden", n_hidden, 1 << 22);
  check(n_embd % 2 == 0, "n_embd must be even, not {}: sines and cosines share the channels",
        n_embd);
  check(n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd, n_head);
  check(dropout >= 0 && dropout < 1, "dropout must be at least 0 and below 1, not {}", dropout);
}

std::int64_t TransformerConfig::parameter_count(bool with_embeddings) const {
  const std::int64_t C = n_embd, norm = 2 * C, attention = 4 * C * C, mlp = 2 * C * n_hidden;
  const std::int64_t layers = 5 * norm + 3 * attention + 2 * mlp;  // one of each side
  const std::int64_t embeddings = with_embeddings ? vocab_size * C : 0;
  return embeddings + n_layer * layers + 2 * norm + vocab_size * C;
}

StdNorm::StdNorm(const Params& p, std::int64_t channels, double epsilon)
    : a_2(p.parameter("a_2", {channels}, ones())),
      b_2(p.parameter("b_2", {channels}, zeros())),
      eps(epsilon) {}

CrossAttention::CrossAttention(const Params& p, const TransformerConfig& c)
    : wq(p / "wq", c.n_embd, c.n_embd, false),
      wk(p / "wk", c.n_embd, c.n_embd, false),
      wv(p / "wv", c.n_embd, c.n_embd, false),
      wo(p / "wo", c.n_embd, c.n_embd, false),
      n_head(c.n_head),
      dropout(c.dropout) {}

Tensor CrossAttention::attend(const Tensor& x, const Tensor& keys, const Tensor& values,
                              AttentionOptions options) const {
  options.dropout = dropout;
  const Tensor y = attention(wq(x), keys, values, n_head, options);
  return maybe_dropout(wo(y), dropout, options.rng);
}

ReluMLP::ReluMLP(const Params& p, const TransformerConfig& c)
    : w1(p / "w1", c.n_embd, c.n_hidden, false),
      w2(p / "w2", c.n_hidden, c.n_embd, false),
      dropout(c.dropout) {}

Tensor ReluMLP::operator()(const Tensor& x, Rng* rng) const {
  return maybe_dropout(w2(relu(w1(x))), dropout, rng);
}

Tensor padding_mask(const Tensor& ids, std::int32_t pad) {
  Tensor mask = Tensor::empty(ids.shape(), DType::u8);
  auto* out = mask.mutable_data<std::uint8_t>();
  for (const std::int32_t id : ids.values<std::int32_t>()) *out++ = id == pad ? 1 : 0;
  return mask;
}

EncoderLayer::EncoderLayer(const Params& p, const TransformerConfig& c)
    : attention_norm(p / "attention_norm", c.n_embd),
      attention(p / "attention", c),
      fnn_norm(p / "fnn_norm", c.n_embd),
      feed_forward(p / "feed_forward", c) {}

Tensor EncoderLayer::operator()(const Tensor& x, const Tensor& padding, Rng* rng) const {
  const Tensor normed = attention_norm(x);
  const Tensor h =
      x + attention(normed, normed, {.causal = false, .rng = rng, .key_padding_mask = padding});
  return h + feed_forward(fnn_norm(h), rng);
}

Encoder::Encoder(const Params& p, const TransformerConfig& c)
    : layers(make_layers<EncoderLayer>(p / "layers", c)), norm(p / "norm", c.n_embd) {}

Tensor Encoder::operator()(const Tensor& input, const Tensor& padding, Rng* rng) const {
  Tensor x = input;
  for (const EncoderLayer& layer : layers) x = layer(x, padding, rng);
  return norm(x);
}

DecoderLayer::DecoderLayer(const Params& p, const TransformerConfig& c)
    : attention_norm_1(p / "attention_norm_1", c.n_embd),
      mask_attention(p / "mask_attention", c),
      attention_norm_2(p / "attention_norm_2", c.n_embd),
      attention(p / "attention", c),
      ffn_norm(p / "ffn_norm", c.n_embd),
      feed_forward(p / "feed_forward", c),
      residual_from_norm(c.residual_from_norm) {}

Tensor DecoderLayer::sublayers(const Tensor& x, const Attend& to_itself, const Attend& to_source,
                               Rng* rng) const {
  const Tensor normed_x = attention_norm_1(x);
  const Tensor y = (residual_from_norm ? normed_x : x) + to_itself(normed_x);
  const Tensor normed_y = attention_norm_2(y);
  const Tensor h = (residual_from_norm ? normed_y : y) + to_source(normed_y);
  return h + feed_forward(ffn_norm(h), rng);
}

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks,
                                Rng* rng) const {
  const AttentionOptions causal{.rng = rng, .key_padding_mask = masks.target};
  const AttentionOptions full{.causal = false, .rng = rng, .key_padding_mask = masks.source};
  return sublayers(
      x, [&](const Tensor& normed) { return mask_attention(normed, normed, causal); },
      [&](const Tensor& normed) { return attention(normed, memory, full); }, rng);
}

Tensor DecoderLayer::step(const Tensor& x, LayerCache& cache, const Tensor& source_padding) const {
  const auto to_itself = [&](const Tensor& normed) {
    cache.keys = grown(cache.keys, mask_attention.wk(normed));
    cache.values = grown(cache.values, mask_attention.wv(normed));
    return mask_attention.attend(normed, cache.keys, cache.values, {.causal = false});
  };
  const auto to_source = [&](const Tensor& normed) {
    return attention.attend(normed, cache.memory_keys, cache.memory_values,
                            {.causal = false, .key_padding_mask = source_padding});
  };
  return sublayers(x, to_itself, to_source, nullptr);
}

Decoder::Decoder(const Params& p, const TransformerConfig& c)
    : layers(make_layers<DecoderLayer>(p / "layers", c)), norm(p / "norm", c.n_embd) {}

Tensor Decoder::operator()(const Tensor& input, const Tensor& memory, const PaddingMasks& masks,
                           Rng* rng) const {
  Tensor x = input;
  for (const DecoderLayer& layer : layers) x = layer(x, memory, masks, rng);
  return norm(x);
}

Transformer::Transformer(const Params& p, const TransformerConfig& c)
    : config(validated(c)),
      wte(p / "transformer" / "wte", c.vocab_size, c.n_embd),
      pe((p / "transformer" / "wpe")
             .buffer("pe", {1, c.block_size, c.n_embd},
                     [&] {
                       return sinusoidal_positions(c.block_size, c.n_embd).to(wte.weight.dtype());
                     })),
      encoder(p / "transformer" / "encoder", c),
      decoder(p / "transformer" / "decoder", c),
      lm_head(p / "lm_head", c.n_embd, c.vocab_size, false) {
  p.check_all_used();
}

Tensor Transformer::embed(const Tensor& ids, Rng* rng, std::int64_t first) const {
  check(ids.rank() == 2, "[transformer] ids must be (B, T), not {}", ids.shape());
  const std::int64_t end = first + ids.dim(1);
  check(first >= 0 && end <= config.block_size,
        "[transformer] a sequence of {} tokens is longer than block_size {}", end,
        config.block_size);
  const Tensor positions = pe.view({config.block_size, config.n_embd}).rows(first, end);
  const Tensor tokens = wte(ids);
  const double scale = std::sqrt(static_cast<double>(config.n_embd));
  return maybe_dropout((config.scale_embeddings ? tokens * scale : tokens) + positions,
                       config.dropout, rng);
}

Tensor Transformer::encode(const Tensor& source, const Tensor& padding, Rng* rng) const {
  return encoder(embed(source, rng), padding, rng);
}

Tensor Transformer::hidden(const Tensor& source, const Tensor& target, const PaddingMasks& masks,
                           Rng* rng) const {
  const Tensor memory = encode(source, masks.source, rng);
  return decoder(embed(target, rng), memory, masks, rng);
}

Tensor Transformer::likeliest(const Tensor& source, const Tensor& target,
                              const PaddingMasks& masks) const {
  const TapePause pause;
  const std::int64_t rows = target.numel();
  const Tensor x = hidden(source, target, masks).view({rows, config.n_embd});
  Tensor best = Tensor::empty(target.shape(), DType::i32);
  auto* out = best.mutable_data<std::int32_t>();
  for (std::int64_t first = 0; first < rows; first += kLossChunk) {
    const Tensor part = argmax(lm_head(x.rows(first, std::min(first + kLossChunk, rows))), -1);
    out = std::copy_n(part.data<std::int32_t>(), part.numel(), out);
  }
  return best;
}

Tensor Transformer::last_logits(const Tensor& source, const Tensor& target,
                                const PaddingMasks& masks) const {
  const std::int64_t T = target.dim(1);
  check(T >= 1, "[transformer] a target without a token has no last position");
  return lm_head(slice(hidden(source, target, masks), 1, T - 1, T));
}

Tensor Transformer::hidden_of_one(const Tensor& ids, Rng* rng) const {
  const Tensor x = embed(ids, rng);
  return decoder(x, encoder(x, {}, rng), {}, rng);
}

// The angles are rounded to f32 where PyTorch rounds them.
Tensor sinusoidal_positions(std::int64_t length, std::int64_t channels) {
  check(length >= 0 && channels >= 0 && channels % 2 == 0,
        "[sinusoidal_positions] {} positions of {} channels: the channels must be even", length,
        channels);
  Tensor table = Tensor::empty({1, length, channels});
  float* out = table.mutable_data<float>();
  const auto rate = static_cast<float>(-std::log(10000.0) / static_cast<double>(channels));
  for (std::int64_t p = 0; p < length; ++p) {
    for (std::int64_t i = 0; i < channels; i += 2) {
      const float angle = static_cast<float>(p) * std::exp(static_cast<float>(i) * rate);
      *out++ = std::sin(angle);
      *out++ = std::cos(angle);
    }
  }
  return table;
}

void init_transformer(const Params& p, Rng& rng) {
  for (const auto& [name, t] : p.parameters()) {
    if (t.rank() == 2) refill(t, normal(0, 0.02), rng);
  }
}

}  // namespace tapegrad::nn
