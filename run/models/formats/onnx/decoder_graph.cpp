#include "tapegrad/run/models/formats/onnx/internal/decoder_graph.h"

#include <algorithm>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/run/models/formats/onnx/internal/onnx_layers.h"

namespace tapegrad::run {
namespace {

constexpr std::string_view kB = "batch_size", kT = "sequence_length",
                           kPast = "past_sequence_length", kS = "total_sequence_length";

// A table for all positions, made by rope() itself, some rows at a time: of pairs (1, 0) it makes
// (cos, sin), with its scaling and its rounding, of which this is the half that begins at `begin`.
// A runtime's own sine may be a coarse one where angles are large.
OnnxWeight angle_table(const std::string& name, std::int64_t positions, std::int64_t turned,
                       std::int64_t begin, RopeOptions options) {
  const std::int64_t pairs = turned / 2;
  const auto write = [=](FileWriter& file) {
    const TapePause pause;
    RopeOptions at = options;
    for (at.first = 0; at.first < positions; at.first += 4096) {
      const std::int64_t rows = std::min<std::int64_t>(4096, positions - at.first);
      const Tensor x = concat({Tensor::ones({rows, pairs}), Tensor::zeros({rows, pairs})}, 1);
      file.write(bytes_of(slice(rope(x, turned, at), 1, begin, begin + pairs)));
    }
  };
  const auto bytes = static_cast<std::uint64_t>(positions * pairs) * sizeof(float);
  return {name, OnnxType::f32, {positions, pairs}, bytes, write};
}

class DecoderGraph {
 public:
  DecoderGraph(OnnxGraph& graph, const nn::Decoder& model, const NamedTensors& tensors,
               const StoredType& type)
      : g_(graph), model_(model), c_(model.config), layers_(graph, tensors, type) {}

  void build() {
    ids_ = g_.input("input_ids", OnnxType::i64, {kB, kT});
    mask_ = g_.input("attention_mask", OnnxType::i64, {kB, kS});
    positions_ = g_.input("position_ids", OnnxType::i64, {kB, kT});
    g_.output("logits", OnnxType::f32, {kB, kT, c_.vocab_size});
    OnnxValue x = embedded();
    const OnnxValue first = c_.residual_scalars ? rms_norm(g_, x, "", c_.norm_eps) : "";
    for (int i = 0; i < c_.n_layer; ++i) {
      g_.enter(fmt::format("block.{}", i));
      x = block(i, x, first);
    }
    g_.enter("head");
    head(x);
  }

 private:
  OnnxValue embedded();
  OnnxValue block(int index, const OnnxValue& state, const OnnxValue& first);
  OnnxValue attend(int index, const OnnxValue& x);
  OnnxValue heads_of(const OnnxValue& x, std::int64_t heads, const nn::Norm& norm);
  OnnxValue turned(int index, const OnnxValue& x);
  OnnxValue hidden(std::int64_t window);
  OnnxAngles angles(int index);
  void head(const OnnxValue& state);

  OnnxValue add(const OnnxValue& a, const OnnxValue& b) { return g_("Add", {a, b}); }
  OnnxValue both(const OnnxValue& a, const OnnxValue& b) { return g_("And", {a, b}); }

  OnnxGraph& g_;
  const nn::Decoder& model_;
  const nn::DecoderConfig& c_;
  OnnxLayers layers_;
  OnnxValue ids_, mask_, positions_;
};

OnnxValue DecoderGraph::embedded() {
  g_.enter("embedding");
  OnnxValue x = scaled(g_, layers_.embedding(model_.wte.weight, ids_), c_.embedding_scale);
  if (model_.wpe.exists()) {
    x = add(x, rows_of(g_, layers_.parameter(model_.wpe.weight), positions_));
  }
  return layers_.norm(model_.embedding_norm, x);
}

// As nn::Block.
OnnxValue DecoderGraph::block(int index, const OnnxValue& state, const OnnxValue& first) {
  const nn::Block& block = model_.h[static_cast<std::size_t>(index)];
  OnnxValue x = state;
  if (block.state_scale.defined()) {
    x = add(g_("Mul", {state, layers_.parameter(block.state_scale)}),
            g_("Mul", {first, layers_.parameter(block.embedding_scale)}));
  }
  const auto added = [&](const OnnxValue& to, const nn::Norm& norm, const OnnxValue& what) {
    return add(to, scaled(g_, layers_.norm(norm, what), block.residual_scale));
  };
  const OnnxValue y = added(x, block.ln_1_after, attend(index, layers_.norm(block.ln_1, x)));
  const OnnxValue normed = layers_.norm(block.ln_2, y);
  return added(y, block.ln_2_after, layers_.feed_forward(block.mlp, normed));
}

OnnxValue DecoderGraph::attend(int index, const OnnxValue& x) {
  const nn::MultiHeadAttention& a = model_.h[static_cast<std::size_t>(index)].attn;
  const std::int64_t H = c_.n_head, K = c_.kv_heads(), D = c_.channels_per_head();
  const std::vector<OnnxValue> qkv =
      a.config.separate_qkv
          ? std::vector<OnnxValue>{layers_.linear(a.W_query, x), layers_.linear(a.W_key, x),
                                   layers_.linear(a.W_value, x)}
          : split(g_, layers_.linear(a.c_attn, x), {H * D, K * D, K * D});
  const OnnxValue q = turned(index, heads_of(qkv[0], H, a.q_norm));
  const OnnxValue k = turned(index, heads_of(qkv[1], K, a.k_norm));
  const auto with_cache = [&](std::string_view part, const OnnxValue& now) {
    return with_past(g_, fmt::format("{}.{}", index, part), now, {kB, K, kPast, D}, {kB, K, kS, D});
  };
  const OnnxValue keys = with_cache("key", k);
  const OnnxValue values = with_cache("value", heads_of(qkv[2], K, {}));
  const OnnxValue y =
      attention(g_, q, keys, values, hidden(a.config.scores.window), {H, K, D}, a.config.scores);
  return layers_.linear(a.c_proj, reshape(g_, permute(g_, y, {0, 2, 1, 3}), {0, 0, H * D}));
}

// x (B, T, heads·D) → (B, heads, T, D), normed over each head or over all.
OnnxValue DecoderGraph::heads_of(const OnnxValue& x, std::int64_t heads, const nn::Norm& norm) {
  const std::int64_t D = c_.channels_per_head();
  const bool whole = c_.qk_norm_whole;
  const OnnxValue before = whole ? layers_.norm(norm, x) : x;
  const OnnxValue apart = reshape(g_, before, {0, 0, heads, D});
  return permute(g_, whole ? apart : layers_.norm(norm, apart), {0, 2, 1, 3});
}

OnnxValue DecoderGraph::turned(int index, const OnnxValue& x) {
  return c_.turns(index) ? rope(g_, x, c_.channels_per_head(), angles(index)) : x;
}

// (B, 1, T, S).
OnnxValue DecoderGraph::hidden(std::int64_t window) {
  const OnnxValue total = size_of(g_, mask_, 1);
  const OnnxValue distance = distances(g_, g_("Sub", {total, size_of(g_, ids_, 1)}), total);
  OnnxValue seen = g_("GreaterOrEqual", {distance, g_.whole(0)});
  if (window != 0) seen = both(seen, g_("Less", {distance, g_.whole(window)}));
  return hidden_unless(g_, both(seen, seen_by_mask(g_, mask_)));
}

OnnxAngles DecoderGraph::angles(int index) {
  const std::int64_t R = c_.turned_channels();
  const RopeOptions options{.base = c_.rope_base_of(index),
                            .scaling = c_.scaling_of(index),
                            .reversed = c_.rope_reversed};
  const auto half = [&](const std::string& part, std::int64_t begin) {
    const std::string name =
        fmt::format("{}.{}{}", part, options.base, options.scaling ? ".scaled" : "");
    // transformers.js numbers Gemma 3's positions from 1: the last one is block_size.
    const OnnxValue table = g_.weight(angle_table(name, c_.block_size + 1, R, begin, options));
    return g_("Unsqueeze", {rows_of(g_, table, positions_), g_.wholes({1})});
  };
  return {half("cos", 0), half("sin", R / 2), R};
}

void DecoderGraph::head(const OnnxValue& state) {
  const OnnxValue normed = scaled(g_, layers_.norm(model_.ln_f, state), c_.logit_scale);
  OnnxValue logits = c_.tied ? layers_.tied_head(model_.wte.weight, normed, ids_)
                             : layers_.linear(model_.lm_head, normed);
  logits = softcap(g_, logits, c_.logit_softcap);
  const Tensor& ruled_out = model_.ruled_out;
  if (ruled_out.defined()) {
    logits = add(logits,
                 layers_.made("ruled_out", ruled_out.shape(), [ruled_out] { return ruled_out; }));
  }
  g_("Identity", {logits}, {}, "logits");
}

}  // namespace

void check_onnx_config(const nn::DecoderConfig& config) {
  check(!config.with_defaults().moe.exist(), "ONNX export does not know mixtures of experts");
  check(config.with_defaults().mixer_pattern.empty(),
        "ONNX export does not know what stands in place of attention (mixer_pattern)");
  check(config.with_defaults().ff_pattern.empty(),
        "ONNX export does not know blocks without a feed-forward (ff_pattern)");
  check(!config.attn_gate, "ONNX export does not know gates of attention (attn_gate)");
  check(!config.attention_sinks, "ONNX export does not know attention_sinks");
  check(config.activation_kind() != nn::Activation::clamped_swiglu,
        "ONNX export does not know activation clamped-swiglu");
  check(config.ngrams == 1,
        "ONNX export does not know ngrams {}: the graph would need the tokens before its input",
        config.ngrams);
  check(config.rope_scaling != nn::RopeScalingKind::longrope,
        "ONNX export does not know rope_scaling longrope: its angles go by the length of the text");
  check(config.query_scale_beta == 0,
        "ONNX export does not know query_scale_beta {}: queries that grow by their positions",
        config.query_scale_beta);
}

OnnxGraph decoder_graph(const nn::Decoder& model, const nn::Params& params,
                        const StoredType& type) {
  check_onnx_config(model.config);
  OnnxGraph graph;
  DecoderGraph(graph, model, params.tensors(), type).build();
  return graph;
}

}  // namespace tapegrad::run
