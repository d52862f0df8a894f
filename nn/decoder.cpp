#include "tapegrad/nn/decoder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/decoder_names.h"

namespace tapegrad::nn {
namespace {

NormOptions norm_options(const DecoderConfig& c) {
  return {.kind = c.norm_kind(), .bias = c.with_bias(), .eps = c.norm_eps};
}

Norm make_norm(const Params& p, const char* name, const DecoderConfig& c, bool present = true) {
  return present ? Norm(p / name, c.n_embd, norm_options(c)) : Norm();
}
bool norms_before(const DecoderConfig& c) { return c.norm_place != NormPlace::after; }
bool norms_after(const DecoderConfig& c) { return c.norm_place != NormPlace::before; }

AttentionConfig attention_config(const DecoderConfig& c, int block) {
  AttentionConfig a{.n_head = c.n_head,
                    .n_kv_head = c.kv_heads(),
                    .head_size = c.channels_per_head(),
                    .bias = c.with_bias(),
                    .qkv_bias = c.with_qkv_bias(),
                    .separate_qkv = c.projects_apart(),
                    .rope = c.rotary(),
                    .rope_base = c.rope_base,
                    .rope_scaling = c.scaling(),
                    .scores = c.scores_of(block),
                    .dropout = c.dropout,
                    .out_dropout = c.attn_out_dropout ? c.dropout : 0,
                    .names = decoder_names(c).in_attention};
  if (c.qk_norm) a.qk_norm = norm_options(c);
  return a;
}

FeedForwardConfig feed_forward_config(const DecoderConfig& c) {
  return {.hidden = c.inner(),
          .bias = c.with_bias(),
          .gated = c.with_gate(),
          .activation = c.activation_kind(),
          .dropout = c.dropout,
          .hidden_dropout = c.ff_dropout ? c.dropout : 0,
          .names = decoder_names(c).in_mlp};
}

std::vector<Block> make_blocks(const Params& p, const DecoderConfig& c) {
  std::vector<Block> blocks;
  for (int i = 0; i < c.n_layer; ++i) blocks.emplace_back(p / i, c, i);
  return blocks;
}

Embedding make_positions(const Params& p, const DecoderConfig& c) {
  if (c.position_kind() != Positions::learned) return {};
  return {p.unpacked() / decoder_names(c).positions, c.block_size, c.n_embd};
}

// The head: of its own, or on the token embedding. Then its draws replace the embedding's, as where
// PyTorch code sets wte.weight = lm_head.weight.
Linear make_head(const Params& p, const DecoderConfig& c, const Embedding& tokens) {
  if (!c.tied) {
    return Linear(p.unadapted() / decoder_names(c).head, c.n_embd, c.vocab_size, false);
  }
  if (tokens.packed == nullptr) p.redraw(tokens.weight, kaiming_uniform(c.n_embd));
  return {p, tokens};
}

DecoderConfig validated(const DecoderConfig& config) {
  config.validate();
  return config.settled();
}

Tensor maybe_norm(const Norm& norm, Tensor x) {
  if (norm.exists()) return norm(x);
  return x;
}

// The positions of ids (B, T) whose rows begin at `firsts`: (B, T), or (T) if all begin at one.
Tensor positions_of(const Tensor& ids, const std::vector<std::int64_t>& firsts) {
  const std::int64_t T = ids.dim(1), rows = std::max<std::int64_t>(1, std::ssize(firsts));
  std::vector<std::int32_t> positions;
  for (std::int64_t b = 0; b < rows; ++b) {
    const std::int64_t first = firsts.empty() ? 0 : firsts[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < T; ++t) positions.push_back(static_cast<std::int32_t>(first + t));
  }
  return Tensor::from(positions, rows == 1 ? Shape{T} : ids.shape());
}

// x (B, T, C) → its last position, (B, C).
Tensor last_position(const Tensor& x) {
  const std::int64_t T = x.dim(1);
  return reshape(slice(x, 1, T - 1, T), {x.dim(0), x.dim(2)});
}

}  // namespace

Block::Block(const Params& p, const DecoderConfig& c, int index)
    : ln_1(make_norm(p, decoder_names(c).before_attention, c, norms_before(c))),
      attn(p / decoder_names(c).attention, c.n_embd, attention_config(c, index)),
      ln_1_after(make_norm(p, decoder_names(c).after_attention, c, norms_after(c))),
      ln_2(make_norm(p, decoder_names(c).before_mlp, c, norms_before(c))),
      mlp(p / decoder_names(c).mlp, c.n_embd, feed_forward_config(c)),
      ln_2_after(make_norm(p, decoder_names(c).after_mlp, c, norms_after(c))) {}

template <class Attend>
Tensor Block::sublayers(const Tensor& x, const Attend& attend, Rng* rng) const {
  const Tensor y = x + maybe_norm(ln_1_after, attend(maybe_norm(ln_1, x)));
  return y + maybe_norm(ln_2_after, mlp(maybe_norm(ln_2, y), rng));
}

Tensor Block::operator()(const Tensor& x, Rng* rng) const {
  return sublayers(
      x, [&](const Tensor& normed) { return attn(normed, rng); }, rng);
}

Tensor Block::operator()(const Tensor& x, CachedLayer caches) const {
  return sublayers(
      x, [&](const Tensor& normed) { return attn(normed, caches); }, nullptr);
}

Tensor Block::attention_weights(const Tensor& x) const { return attn.weights(maybe_norm(ln_1, x)); }

Decoder::Decoder(const Params& p, const DecoderConfig& c)
    : config(validated(c)),
      wte(p / decoder_names(c).tokens, c.vocab_size, c.n_embd),
      wpe(make_positions(p, c)),
      h(make_blocks(p / decoder_names(c).blocks, c)),
      ln_f(make_norm(p, decoder_names(c).last_norm, c)),
      lm_head(make_head(p, c, wte)) {
  p.check_all_used();
}

Tensor Decoder::embed(const Tensor& ids, const std::vector<std::int64_t>& firsts) const {
  check(ids.rank() == 2, "[decoder] ids must be (B, T), not {}", ids.shape());
  check(firsts.empty() || std::ssize(firsts) == ids.dim(0),
        "[decoder] ids {} are not those of {} sequences", ids.shape(), firsts.size());
  const std::int64_t last = firsts.empty() ? 0 : *std::max_element(firsts.begin(), firsts.end());
  check(last + ids.dim(1) <= config.block_size,
        "[decoder] a sequence of {} tokens is longer than block_size {}", last + ids.dim(1),
        config.block_size);
  Tensor x = wte(ids);
  if (config.embedding_scale != 1) x = x * config.embedding_scale;
  return wpe.exists() ? x + wpe(positions_of(ids, firsts)) : x;
}

Tensor Decoder::run_blocks(Tensor x, bool again, Rng* rng) const {
  for (const Block& block : h) {
    const auto run = [&block](Inputs in, Rng* r) { return block(in[0], r); };
    x = again ? checkpoint(run, {x}, rng) : block(x, rng);
  }
  return x;
}

std::vector<Tensor> Decoder::residual_stream(const Tensor& embedded) const {
  std::vector<Tensor> states = {embedded};
  for (const Block& block : h) states.push_back(block(states.back()));
  return states;
}

Tensor Decoder::hidden(const Tensor& ids, Rng* rng) const {
  return ln_f(run_blocks(maybe_dropout(embed(ids), config.dropout, rng), recompute, rng));
}

// linear_cross_entropy() for a head that has no tensor: the logits of some rows at a time.
Tensor Decoder::packed_loss(const Tensor& normed, const Tensor& targets,
                            std::int32_t ignore_index) const {
  const Tensor x = reshape(normed, {-1, normed.dim(-1)}), all = targets.view({-1});
  std::int64_t counted = 0;
  Tensor sum = Tensor::scalar(0);
  for (std::int64_t first = 0; first < x.dim(0); first += kLossChunk) {
    const std::int64_t end = std::min(first + kLossChunk, x.dim(0));
    const Tensor of_rows = all.rows(first, end);
    const auto ids = of_rows.values<std::int32_t>();
    const auto ignored = std::count(ids.begin(), ids.end(), ignore_index);
    if (ignored == std::ssize(ids)) continue;
    const Tensor mean = cross_entropy(head(slice(x, 0, first, end)), of_rows, ignore_index);
    sum = sum + mean * static_cast<double>(std::ssize(ids) - ignored);
    counted += std::ssize(ids) - ignored;
  }
  return sum / static_cast<double>(counted);
}

Tensor Decoder::loss_of(const Tensor& normed, const Tensor& targets,
                        std::int32_t ignore_index) const {
  if (lm_head.packed != nullptr) return packed_loss(normed, targets, ignore_index);
  return linear_cross_entropy(normed, lm_head.weight, targets, ignore_index, lm_head.precision,
                              config.logit_softcap);
}

Tensor Decoder::last_logits(const Tensor& ids) const {
  return logits_of(last_position(run_blocks(embed(ids), false, nullptr)));
}

Tensor Decoder::last_logits(const Tensor& ids, std::span<KVCache* const> caches) const {
  const TapePause pause;
  Tensor x = embed(ids, lengths_of(caches));
  std::optional<RowsApart> apart;
  if (ids.dim(0) > 1 && ids.dim(1) == 1) apart.emplace();
  for (std::size_t i = 0; i < h.size(); ++i) x = h[i](x, CachedLayer(caches, i));
  return logits_of(last_position(x));
}

void Decoder::drop(KVCache& cache, std::int64_t begin, std::int64_t end) const {
  check(can_move(), "[decoder] learned positions are a part of what a cache holds");
  const TapePause pause;
  cache.drop(begin, end, [&](std::size_t layer, const Tensor& keys) {
    return h[layer].attn.moved_keys(keys, end, begin);
  });
}

Tensor Decoder::attention_weights(int layer, const Tensor& state) const {
  check(layer >= 0 && layer < config.n_layer, "[attention_weights] there is no block {} of {}",
        layer, config.n_layer);
  return h[static_cast<std::size_t>(layer)].attention_weights(state);
}

Tensor Decoder::input_gradient(const Tensor& ids, const Tensor& targets,
                               std::int32_t ignore_index) const {
  const Tensor x = embed(ids);
  Tape tape;
  tape.watch(x);
  const Tensor loss = loss_of(ln_f(residual_stream(x).back()), targets, ignore_index);
  return tape.gradient(loss, {x})[0];
}

void init_gpt2(const Decoder& model, const Params& p, Rng& rng) {
  const DecoderNames names = decoder_names(model.config);
  const auto projects_into_residual = [&](std::string_view name) {
    return name.ends_with(std::string(names.in_attention.out) + ".weight") ||
           name.ends_with(std::string(names.in_mlp.out) + ".weight");
  };
  for (const auto& [name, t] : p.parameters()) {
    if (t.rank() == 2) refill(t, normal(0, 0.02), rng);
    if (name.ends_with(".bias")) refill(t, zeros(), rng);
  }
  // A tied weight is visited twice: as the embedding's and as the head's.
  if (model.config.tied) refill(model.wte.weight, normal(0, 0.02), rng);
  const double projection = 0.02 / std::sqrt(2.0 * model.config.n_layer);
  for (const auto& [name, t] : p.parameters()) {
    if (projects_into_residual(name)) refill(t, normal(0, projection), rng);
  }
}

}  // namespace tapegrad::nn
