#include "tapegrad/nn/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/nn/internal/decoder_norms.h"

namespace tapegrad::nn {
namespace {

std::vector<Block> make_blocks(const Params& p, const DecoderConfig& c) {
  std::vector<Block> blocks;
  for (int i = 0; i < c.n_layer; ++i) blocks.emplace_back(p / i, c, i);
  return blocks;
}

Embedding make_positions(const Params& p, const DecoderConfig& c) {
  if (c.position_kind() != Positions::learned) return {};
  return {p.unquantized() / decoder_names(c).positions, c.block_size, c.n_embd};
}

// The head: of its own, or on the token embedding. Then its draws replace the embedding's, as where
// PyTorch code sets wte.weight = lm_head.weight.
Linear make_head(const Params& p, const DecoderConfig& c, const Embedding& tokens) {
  if (!c.tied) {
    return Linear(p.unadapted() / decoder_names(c).head, c.n_embd, c.vocab_size, false);
  }
  if (tokens.weight.defined()) p.redraw(tokens.weight, kaiming_uniform(c.n_embd));
  return Linear(tokens.weight);
}

DecoderConfig validated(const DecoderConfig& config) {
  config.validate();
  return config.with_defaults();
}

// The positions of tokens (B, T) whose rows begin at `firsts`: (B, T), or (T) if all begin at one.
Tensor positions_of(const TokenRows& tokens, const std::vector<std::int64_t>& firsts) {
  const Tensor &ids = tokens.ids, &starts = tokens.document_starts;
  const std::int64_t T = ids.dim(1);
  const std::int64_t rows = starts.defined() || !firsts.empty() ? ids.dim(0) : 1;
  std::vector<std::int32_t> positions;
  for (std::int64_t b = 0; b < rows; ++b) {
    const std::int64_t first = firsts.empty() ? 0 : firsts[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t start = starts.defined() ? starts.data<std::int32_t>()[b * T + t] : 0;
      positions.push_back(static_cast<std::int32_t>(first + t - start));
    }
  }
  return Tensor::from(positions, rows == 1 ? Shape{T} : ids.shape());
}

}  // namespace

Tensor last_position(const Tensor& x) {
  const std::int64_t T = x.dim(1);
  return reshape(slice(x, 1, T - 1, T), {x.dim(0), x.dim(2)});
}

Decoder::Decoder(const Params& p, const DecoderConfig& c)
    : config(validated(c)),
      wte(p / decoder_names(c).tokens, c.vocab_size, c.n_embd),
      wpe(make_positions(p, c)),
      ngrams(p / decoder_names(c).ngrams, config),
      embedding_norm(make_norm(p, decoder_names(c).embedding_norm, c, c.embedding_norm)),
      h(make_blocks(p / decoder_names(c).blocks, c)),
      ln_f(make_norm(p, decoder_names(c).last_norm, c)),
      lm_head(make_head(p, c, wte)),
      adapters(std::ssize(p.offered())) {
  p.check_all_used();
}

Tensor Decoder::embed(const TokenRows& tokens, std::span<KVCache* const> caches) const {
  const Tensor &ids = tokens.ids, &starts = tokens.document_starts;
  const std::vector<std::int64_t> firsts = lengths_of(caches);
  check(ids.rank() == 2, "[decoder] ids must be (B, T), not {}", ids.shape());
  check(!starts.defined() || (starts.shape() == ids.shape() && starts.dtype() == DType::i32),
        "[decoder] document_starts must be i32 of {}, not {} of {}", ids.shape(),
        starts.defined() ? name_of(starts.dtype()) : "",
        starts.defined() ? starts.shape() : Shape{});
  check(firsts.empty() || std::ssize(firsts) == ids.dim(0),
        "[decoder] ids {} are not those of {} sequences", ids.shape(), firsts.size());
  const std::int64_t last = firsts.empty() ? 0 : *std::max_element(firsts.begin(), firsts.end());
  check(last + ids.dim(1) <= config.block_size,
        "[decoder] a sequence of {} tokens is longer than block_size {}", last + ids.dim(1),
        config.block_size);
  Tensor x = wte(ids);
  if (ngrams.exists()) x = x + ngrams(ids, starts, caches);
  x = scaled(x, config.embedding_scale);
  if (wpe.exists()) x = x + wpe(positions_of(tokens, firsts));
  return maybe_norm(embedding_norm, x);
}

// What routers note comes out of a block behind its output, since a checkpoint has one output.
Tensor Decoder::run_blocks(Tensor x, bool again, Rng* rng, const Tensor& document_starts,
                           RouterLosses* routers) const {
  const Tensor x0 = normed_embedding(x);
  const Shape shape = x.shape();
  for (const Block& block : h) {
    const bool notes = routers != nullptr && block.experts.exists();
    if (!again) {
      x = block(block.entry(x, x0), rng, document_starts, notes ? routers : nullptr);
      continue;
    }
    const auto run = [&block, document_starts, notes](Inputs in, Rng* r) {
      RouterLosses noted;
      const Tensor entry = block.entry(in[0], in.size() > 1 ? in[1] : Tensor());
      const Tensor y = block(entry, r, document_starts, notes ? &noted : nullptr);
      return notes ? concat({reshape(y, {y.numel()}), noted.blocks[0]}, 0) : y;
    };
    std::vector<Tensor> inputs = {x};
    if (x0.defined()) inputs.push_back(x0);
    x = checkpoint(run, inputs, rng);
    if (!notes) continue;
    const std::vector<Tensor> parts = split(x, {shape.numel(), x.numel() - shape.numel()}, 0);
    x = reshape(parts[0], shape);
    routers->blocks.push_back(parts[1]);
  }
  return x;
}

std::vector<Tensor> Decoder::residual_stream(const Tensor& embedded) const {
  const Tensor x0 = normed_embedding(embedded);
  std::vector<Tensor> states;
  Tensor x = embedded;
  for (const Block& block : h) {
    states.push_back(block.entry(x, x0));
    x = block(states.back());
  }
  states.push_back(x);
  return states;
}

Tensor Decoder::hidden(const TokenRows& tokens, Rng* rng, RouterLosses* routers) const {
  if (routers != nullptr) *routers = {};
  const Tensor x = maybe_dropout(embed(tokens), config.dropout, rng);
  const Tensor last = run_blocks(x, recompute, rng, tokens.document_starts, routers);
  if (routers != nullptr && config.moe.exist()) routers->sum_up(config.moe);
  return normed(last);
}

Tensor Decoder::loss(const TokenRows& tokens, const Tensor& targets, Rng* rng,
                     std::int32_t ignore_index, RouterLosses* routers) const {
  RouterLosses own;
  RouterLosses* const noted = rng == nullptr ? nullptr : routers != nullptr ? routers : &own;
  const Tensor loss = loss_of(hidden(tokens, rng, noted), targets, ignore_index);
  return noted == nullptr ? loss : noted->with(loss);
}

// Undefined if no block wants it.
Tensor Decoder::normed_embedding(const Tensor& x) const {
  if (!config.residual_scalars) return {};
  return rms_norm(x, Tensor::ones({x.dim(2)}, x.dtype()), config.norm_eps);
}

Tensor Decoder::normed(const Tensor& state) const {
  return scaled(ln_f(state), config.logit_scale);
}

Tensor Decoder::loss_of(const Tensor& normed, const Tensor& targets,
                        std::int32_t ignore_index) const {
  return linear_cross_entropy(normed, lm_head.weight, targets, ignore_index, config.logit_softcap);
}

Tensor Decoder::logits_of(const Tensor& state) const {
  const Tensor logits = head(normed(state));
  return ruled_out.defined() ? logits + ruled_out.to(logits.dtype()) : logits;
}

void Decoder::rule_out(std::span<const std::int32_t> tokens) {
  std::vector<float> added(static_cast<std::size_t>(config.vocab_size));
  for (const std::int32_t token : tokens) {
    check(token >= 0 && token < config.vocab_size, "[rule_out] token {} is not one of the {}",
          token, config.vocab_size);
    added[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
  check(std::count(added.begin(), added.end(), 0.0F) > 0, "[rule_out] no token is left of {}",
        config.vocab_size);
  ruled_out = tokens.empty() ? Tensor() : Tensor::from(added, {config.vocab_size});
}

Tensor Decoder::last_logits(const Tensor& ids) const {
  return logits_of(last_position(run_blocks(embed(ids), false, nullptr)));
}

Tensor Decoder::states(const Tensor& ids, std::span<KVCache* const> caches) const {
  const TapePause pause;
  Tensor x = embed(ids, caches);
  std::optional<BatchInvariant> apart;
  if (all_quantized() || (ids.dim(0) > 1 && ids.dim(1) == 1)) apart.emplace();
  const Tensor x0 = normed_embedding(x);
  for (std::size_t i = 0; i < h.size(); ++i) x = h[i](h[i].entry(x, x0), CachedLayer(caches, i));
  if (ngrams.exists()) append_tokens(caches, ids);
  return x;
}

Tensor Decoder::last_logits(const Tensor& ids, std::span<KVCache* const> caches) const {
  const TapePause pause;
  const Tensor last = last_position(states(ids, caches));
  std::optional<BatchInvariant> apart;
  if (all_quantized() || (ids.dim(0) > 1 && ids.dim(1) == 1)) apart.emplace();
  return logits_of(last);
}

bool Decoder::all_quantized() const {
  const auto apart = [](std::initializer_list<const Linear*> layers) {
    return std::all_of(layers.begin(), layers.end(),
                       [](const Linear* layer) { return !layer->weight.defined(); });
  };
  const auto dense = [&](const FeedForward& m) { return apart({&m.c_fc, &m.c_gate, &m.c_proj}); };
  return apart({&lm_head}) && std::all_of(h.begin(), h.end(), [&](const Block& block) {
           const MultiHeadAttention& a = block.attn;
           const Experts& e = block.experts;
           const GatedDeltaNet& d = block.delta;
           const bool layers =
               apart({&a.c_attn, &a.W_query, &a.W_key, &a.W_value, &a.c_proj, &block.conv.in_proj,
                      &block.conv.out_proj, &d.in_proj_qkv, &d.in_proj_z, &d.in_proj_b,
                      &d.in_proj_a, &d.out_proj, &block.mamba.in_proj, &block.mamba.out_proj});
           const bool experts = !e.c_fc.weight.tensor.defined() &&
                                !e.c_gate.weight.tensor.defined() &&
                                !e.c_proj.weight.tensor.defined();
           return layers && experts && dense(block.mlp) && dense(e.shared);
         });
}

void Decoder::drop(KVCache& cache, std::int64_t begin, std::int64_t end) const {
  check(can_move(), "[decoder] {} are a part of what a cache holds",
        config.is_recurrent() ? "states of all positions" : "learned positions");
  const TapePause pause;
  cache.drop(begin, end, [&](std::size_t layer, const Tensor& keys) {
    const Block& block = h[layer];  // the states of a convolution have no position
    return block.conv.exists() ? keys : block.attn.moved_keys(keys, end, begin, cache.most());
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
  const Tensor loss = loss_of(normed(residual_stream(x).back()), targets, ignore_index);
  return tape.gradient(loss, {x})[0];
}

void init_gpt2(const Decoder& model, const Params& p, Rng& rng) {
  const DecoderNames names = decoder_names(model.config);
  const auto projects_into_residual = [&](std::string_view name) {
    return name.ends_with(std::string(names.in_attention.out) + ".weight") ||
           name.ends_with(fmt::format("{}.{}.weight", names.conv, names.in_conv.out)) ||
           name.ends_with(fmt::format("{}.{}.weight", names.delta, names.in_delta.out)) ||
           name.ends_with(fmt::format("{}.{}.weight", names.mamba, names.in_mamba.out)) ||
           name.ends_with(std::string(names.in_mlp.out) + ".weight");
  };
  // A convolution is neither linear nor an embedding: it keeps what it drew.
  const std::string kernels[] = {
      fmt::format("{}.{}.weight", names.conv, names.in_conv.conv),
      fmt::format("{}.{}.weight", names.delta, names.in_delta.conv),
      fmt::format("{}.{}.weight", names.mamba, names.in_mamba.conv),
  };
  for (const auto& [name, t] : p.parameters()) {
    const auto is_end = [&name = name](const std::string& kernel) {
      return name.ends_with(kernel);
    };
    const bool is_kernel = std::any_of(std::begin(kernels), std::end(kernels), is_end);
    if (t.rank() >= 2 && !is_kernel) refill(t, normal(0, 0.02), rng);
    if (name.ends_with(".bias")) refill(t, zeros(), rng);
  }
  // A tied weight is visited twice: as the embedding's and as the head's.
  if (model.config.tied) refill(model.wte.weight, normal(0, 0.02), rng);
  const double projection = 0.02 / std::sqrt(model.config.residual_parts());
  for (const auto& [name, t] : p.parameters()) {
    if (projects_into_residual(name)) refill(t, normal(0, projection), rng);
  }
}

}  // namespace tapegrad::nn
