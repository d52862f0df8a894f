#include "tapegrad/run/models/formats/onnx/internal/encoder_decoder_graphs.h"

#include <cmath>
#include <limits>

#include "tapegrad/run/models/formats/onnx/internal/onnx_layers.h"

namespace tapegrad::run {
namespace {

constexpr std::string_view kBatch = "batch_size", kSource = "encoder_sequence_length",
                           kTarget = "decoder_sequence_length",
                           kSourcePast = "past_encoder_sequence_length",
                           kTargetPast = "past_decoder_sequence_length",
                           kTargetPresent = "total_decoder_sequence_length";

class HalfGraph {
 public:
  HalfGraph(OnnxGraph& graph, const nn::Transformer& model, const NamedTensors& tensors,
            const StoredType& type)
      : g_(graph), model_(model), c_(model.config), layers_(graph, tensors, type) {}

  void build_encoder() {
    const OnnxValue ids = g_.input("input_ids", OnnxType::i64, {kBatch, kSource});
    const OnnxValue mask = g_.input("attention_mask", OnnxType::i64, {kBatch, kSource});
    g_.output("last_hidden_state", OnnxType::f32, {kBatch, kSource, c_.n_embd});
    hidden_sources_ = hidden_unless(g_, seen_by_mask(g_, mask));
    OnnxValue x = embedded(ids, g_.whole(0));
    for (int i = 0; i < c_.n_layer; ++i) {
      g_.enter(fmt::format("block.{}", i));
      x = encoder_layer(model_.encoder.h[static_cast<std::size_t>(i)], x);
    }
    g_.enter("head");
    g_("Identity", {layers_.norm(model_.encoder.ln_f, x)}, {}, "last_hidden_state");
  }

  void build_decoder() {
    const OnnxValue mask = g_.input("encoder_attention_mask", OnnxType::i64, {kBatch, kSource});
    const OnnxValue ids = g_.input("input_ids", OnnxType::i64, {kBatch, kTarget});
    const OnnxValue states =
        g_.input("encoder_hidden_states", OnnxType::f32, {kBatch, kSource, c_.n_embd});
    g_.output("logits", OnnxType::f32, {kBatch, kTarget, c_.vocab_size});
    const OnnxValue past = size_of(g_, "past_key_values.0.decoder.key", 2);
    const OnnxValue distance = distances(g_, past, add(past, size_of(g_, ids, 1)));
    hidden_targets_ = hidden_unless(g_, g_("GreaterOrEqual", {distance, g_.whole(0)}));
    hidden_sources_ = hidden_unless(g_, seen_by_mask(g_, mask));
    fresh_ = rows_behind(states, size_of(g_, "past_key_values.0.encoder.key", 2));
    OnnxValue x = embedded(ids, past);
    for (int i = 0; i < c_.n_layer; ++i) {
      g_.enter(fmt::format("block.{}", i));
      x = decoder_layer(i, model_.decoder.h[static_cast<std::size_t>(i)], x);
    }
    g_.enter("head");
    x = layers_.norm(model_.decoder.ln_f, x);
    g_("Identity", {layers_.linear(model_.lm_head, x)}, {}, "logits");
  }

 private:
  // ids (B, T) at positions past, past + 1, … → (B, T, C).
  OnnxValue embedded(const OnnxValue& ids, const OnnxValue& past) {
    g_.enter("embedding");
    const Shape shape{c_.block_size, c_.n_embd};
    const OnnxValue table =
        layers_.made("pe", shape, [pe = model_.pe, shape] { return pe.view(shape); });
    const OnnxValue end = add(past, size_of(g_, ids, 1));
    const OnnxValue positions = rows_of(g_, table, g_("Range", {past, end, g_.whole(1)}));
    const double scale = c_.scale_embeddings ? std::sqrt(static_cast<double>(c_.n_embd)) : 1;
    return add(scaled(g_, layers_.embedding(model_.wte.weight, ids), scale), positions);
  }

  // As nn::EncoderLayer.
  OnnxValue encoder_layer(const nn::EncoderLayer& layer, const OnnxValue& x) {
    const OnnxValue normed = layers_.norm(layer.ln_1, x);
    const OnnxValue keys = heads(layers_.linear(layer.attn.W_key, normed));
    const OnnxValue values = heads(layers_.linear(layer.attn.W_value, normed));
    const OnnxValue y = add(x, attend(layer.attn, normed, keys, values, hidden_sources_));
    return add(y, layers_.feed_forward(layer.mlp, layers_.norm(layer.ln_2, y)));
  }

  // As nn::DecoderLayer::step().
  OnnxValue decoder_layer(int index, const nn::DecoderLayer& layer, const OnnxValue& x) {
    const auto cached = [&](std::string_view side, std::string_view part, const OnnxValue& now) {
      const bool is_target = side == "decoder";
      const std::string_view past = is_target ? kTargetPast : kSourcePast;
      const std::string_view present = is_target ? kTargetPresent : kSource;
      return with_past(g_, fmt::format("{}.{}.{}", index, side, part), heads(now),
                       {kBatch, c_.n_head, past, head_size()},
                       {kBatch, c_.n_head, present, head_size()});
    };
    const nn::MultiHeadAttention &own = layer.attn, &cross = layer.cross_attn;
    const OnnxValue normed = layers_.norm(layer.ln_1, x);
    const OnnxValue own_keys = cached("decoder", "key", layers_.linear(own.W_key, normed));
    const OnnxValue own_values = cached("decoder", "value", layers_.linear(own.W_value, normed));
    const OnnxValue y = add(layer.residual_from_norm ? normed : x,
                            attend(own, normed, own_keys, own_values, hidden_targets_));
    const OnnxValue asking = layers_.norm(layer.ln_2, y);
    const OnnxValue keys = cached("encoder", "key", layers_.linear_of_any(cross.W_key, fresh_));
    const OnnxValue values =
        cached("encoder", "value", layers_.linear_of_any(cross.W_value, fresh_));
    const OnnxValue z = add(layer.residual_from_norm ? asking : y,
                            attend(cross, asking, keys, values, hidden_sources_));
    return add(z, layers_.feed_forward(layer.mlp, layers_.norm(layer.ln_3, z)));
  }

  OnnxValue attend(const nn::MultiHeadAttention& layer, const OnnxValue& x, const OnnxValue& keys,
                   const OnnxValue& values, const OnnxValue& hidden) {
    const OnnxValue q = heads(layers_.linear(layer.W_query, x));
    const OnnxValue y = attention(g_, q, keys, values, hidden, {c_.n_head, c_.n_head, head_size()},
                                  layer.config.scores);
    const OnnxValue joined = reshape(g_, permute(g_, y, {0, 2, 1, 3}), {0, 0, c_.n_embd});
    return layers_.linear(layer.c_proj, joined);
  }
  // (B, T, C) → (B, H, T, D).
  OnnxValue heads(const OnnxValue& x) {
    return permute(g_, reshape(g_, x, {0, 0, c_.n_head, head_size()}), {0, 2, 1, 3});
  }
  // x (B, S, C) from row `first` on.
  OnnxValue rows_behind(const OnnxValue& x, const OnnxValue& first) {
    const OnnxValue begin = g_("Unsqueeze", {first, g_.wholes({0})});
    const OnnxValue end = g_.wholes({std::numeric_limits<std::int64_t>::max()});
    return g_("Slice", {x, begin, end, g_.wholes({1})});
  }
  OnnxValue add(const OnnxValue& a, const OnnxValue& b) { return g_("Add", {a, b}); }
  std::int64_t head_size() const { return c_.n_embd / c_.n_head; }

  OnnxGraph& g_;
  const nn::Transformer& model_;
  const nn::TransformerConfig& c_;
  OnnxLayers layers_;
  OnnxValue hidden_sources_, hidden_targets_;  // what attention adds to scores
  OnnxValue fresh_;  // the encoder's states whose keys and values are not there yet: all or none
};

}  // namespace

EncoderDecoderGraphs encoder_decoder_graphs(const nn::Transformer& model, const nn::Params& params,
                                            const StoredType& type) {
  EncoderDecoderGraphs graphs;
  HalfGraph(graphs.encoder, model, params.tensors(), type).build_encoder();
  HalfGraph(graphs.decoder, model, params.tensors(), type).build_decoder();
  return graphs;
}

}  // namespace tapegrad::run
