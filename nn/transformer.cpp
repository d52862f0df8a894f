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

LayerNorm make_norm(const Params& p, const TransformerConfig& c) {
  return {p, c.n_embd, true, {.eps = 1e-6, .unbiased = true, .eps_outside = true}};
}

MultiHeadAttention make_attention(const Params& p, const TransformerConfig& c, bool causal) {
  return {p,
          c.n_embd,
          {.n_head = c.n_head,
           .bias = false,
           .qkv_bias = false,
           .separate_qkv = true,
           .causal = causal,
           .dropout = c.dropout,
           .out_dropout = c.dropout}};
}

FeedForward make_mlp(const Params& p, const TransformerConfig& c) {
  return {
      p,
      c.n_embd,
      {.hidden = c.n_hidden, .bias = false, .activation = Activation::relu, .dropout = c.dropout}};
}

}  // namespace

void TransformerConfig::validate() const {
  check_rules(*this);
  check(n_embd % 2 == 0, "n_embd must be even, not {}: sines and cosines share the channels",
        n_embd);
  check(n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd, n_head);
}

Tensor padding_mask(const Tensor& ids, std::int32_t pad) {
  Tensor mask = Tensor::empty(ids.shape(), DType::u8);
  auto* out = mask.mutable_data<std::uint8_t>();
  for (const std::int32_t id : ids.values<std::int32_t>()) *out++ = id == pad ? 1 : 0;
  return mask;
}

EncoderLayer::EncoderLayer(const Params& p, const TransformerConfig& c)
    : ln_1(make_norm(p / "ln_1", c)),
      attn(make_attention(p / "attn", c, false)),
      ln_2(make_norm(p / "ln_2", c)),
      mlp(make_mlp(p / "mlp", c)) {}

Tensor EncoderLayer::operator()(const Tensor& x, const Tensor& padding, Rng* rng) const {
  const Tensor y = x + attn(ln_1(x), rng, padding);
  return y + mlp(ln_2(y), rng);
}

TransformerEncoder::TransformerEncoder(const Params& p, const TransformerConfig& c)
    : h(make_layers<EncoderLayer>(p / "h", c)), ln_f(make_norm(p / "ln_f", c)) {}

Tensor TransformerEncoder::operator()(const Tensor& input, const Tensor& padding, Rng* rng) const {
  Tensor x = input;
  for (const EncoderLayer& layer : h) x = layer(x, padding, rng);
  return ln_f(x);
}

DecoderLayer::DecoderLayer(const Params& p, const TransformerConfig& c)
    : ln_1(make_norm(p / "ln_1", c)),
      attn(make_attention(p / "attn", c, true)),
      ln_2(make_norm(p / "ln_2", c)),
      cross_attn(make_attention(p / "cross_attn", c, false)),
      ln_3(make_norm(p / "ln_3", c)),
      mlp(make_mlp(p / "mlp", c)),
      residual_from_norm(c.residual_from_norm) {}

Tensor DecoderLayer::sublayers(const Tensor& x, const Attend& to_itself, const Attend& to_source,
                               Rng* rng) const {
  const Tensor normed_x = ln_1(x);
  const Tensor y = (residual_from_norm ? normed_x : x) + to_itself(normed_x);
  const Tensor normed_y = ln_2(y);
  const Tensor z = (residual_from_norm ? normed_y : y) + to_source(normed_y);
  return z + mlp(ln_3(z), rng);
}

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks,
                                Rng* rng) const {
  return sublayers(
      x, [&](const Tensor& normed) { return attn(normed, rng, masks.target); },
      [&](const Tensor& normed) { return cross_attn(normed, memory, rng, masks.source); }, rng);
}

Tensor DecoderLayer::step(const Tensor& x, CachedLayer seen, const CrossCache& memory,
                          const Tensor& source_padding) const {
  return sublayers(
      x, [&](const Tensor& normed) { return attn(normed, seen); },
      [&](const Tensor& normed) { return cross_attn.cross_attend(normed, memory, source_padding); },
      nullptr);
}

TransformerDecoder::TransformerDecoder(const Params& p, const TransformerConfig& c)
    : h(make_layers<DecoderLayer>(p / "h", c)), ln_f(make_norm(p / "ln_f", c)) {}

Tensor TransformerDecoder::operator()(const Tensor& input, const Tensor& memory,
                                      const PaddingMasks& masks, Rng* rng) const {
  Tensor x = input;
  for (const DecoderLayer& layer : h) x = layer(x, memory, masks, rng);
  return ln_f(x);
}

Transformer::Transformer(const Params& p, const TransformerConfig& c)
    : config(validated(c)),
      wte(p / "wte", c.vocab_size, c.n_embd),
      pe(p.buffer("pe", {1, c.block_size, c.n_embd},
                  [&] { return sinusoidal_positions(c.block_size, c.n_embd).to(p.dtype()); })),
      encoder(p / "encoder", c),
      decoder(p / "decoder", c),
      lm_head(p.unadapted() / "lm_head", c.n_embd, c.vocab_size, false) {
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
    const Tensor part =
        argmax(logits_of(lm_head, x.rows(first, std::min(first + kLossChunk, rows))), -1);
    out = std::copy_n(part.data<std::int32_t>(), part.numel(), out);
  }
  return best;
}

Tensor Transformer::last_logits(const Tensor& source, const Tensor& target,
                                const PaddingMasks& masks) const {
  const std::int64_t T = target.dim(1);
  check(T >= 1, "[transformer] a target without a token has no last position");
  return logits_of(lm_head, slice(hidden(source, target, masks), 1, T - 1, T));
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
