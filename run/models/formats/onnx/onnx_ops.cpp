#include "tapegrad/run/models/formats/onnx/internal/onnx_ops.h"

#include <cmath>

namespace tapegrad::run {

namespace {

using Wholes = std::vector<std::int64_t>;

OnnxValue mean(OnnxGraph& g, const OnnxValue& x) {
  return g("ReduceMean", {x}, {{"axes", Wholes{-1}}, {"keepdims", std::int64_t{1}}});
}

// x / √(variance + eps), or x / (√variance + eps), times the weight.
OnnxValue divided(OnnxGraph& g, const OnnxValue& x, const OnnxValue& variance,
                  const LayerNormOptions& how, const OnnxValue& weight) {
  const auto plus_eps = [&](const OnnxValue& v) { return g("Add", {v, g.real(how.eps)}); };
  const OnnxValue divisor =
      how.eps_outside ? plus_eps(g("Sqrt", {variance})) : g("Sqrt", {plus_eps(variance)});
  const OnnxValue y = g("Div", {x, divisor});
  return weight.empty() ? y : g("Mul", {y, weight});
}

}  // namespace

OnnxValue reshape(OnnxGraph& g, const OnnxValue& x, const Wholes& shape) {
  return g("Reshape", {x, g.wholes(shape)});
}
OnnxValue permute(OnnxGraph& g, const OnnxValue& x, const Wholes& order) {
  return g("Transpose", {x}, {{"perm", order}});
}
std::vector<OnnxValue> split(OnnxGraph& g, const OnnxValue& x, const Wholes& sizes) {
  return g.several("Split", {x, g.wholes(sizes)}, sizes.size(), {{"axis", std::int64_t{-1}}});
}

OnnxValue cast(OnnxGraph& g, const OnnxValue& x, OnnxType to) {
  return g("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}
OnnxValue rows_of(OnnxGraph& g, const OnnxValue& table, const OnnxValue& ids) {
  return g("Gather", {table, ids}, {{"axis", std::int64_t{0}}});
}
OnnxValue size_of(OnnxGraph& g, const OnnxValue& x, std::int64_t axis) {
  return rows_of(g, g("Shape", {x}), g.whole(axis));
}
OnnxValue with_past(OnnxGraph& g, const std::string& part, const OnnxValue& now,
                    const std::vector<OnnxSize>& past, const std::vector<OnnxSize>& present) {
  g.output("present." + part, OnnxType::f32, present);
  const OnnxValue before = g.input("past_key_values." + part, OnnxType::f32, past);
  return g("Concat", {before, now}, {{"axis", std::int64_t{2}}}, "present." + part);
}

OnnxValue scaled(OnnxGraph& g, const OnnxValue& x, double by) {
  return by == 1 ? x : g("Mul", {x, g.real(by)});
}
OnnxValue softcap(OnnxGraph& g, const OnnxValue& x, double cap) {
  return cap == 0 ? x : scaled(g, g("Tanh", {scaled(g, x, 1 / cap)}), cap);
}
OnnxValue rms_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight, double eps) {
  return divided(g, x, mean(g, g("Pow", {x, g.real(2)})), {.eps = eps}, weight);
}

OnnxValue layer_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight,
                     const OnnxValue& bias, const LayerNormOptions& options,
                     std::int64_t channels) {
  if (!options.unbiased && !options.eps_outside) {
    std::vector<OnnxValue> inputs = {x, weight};
    if (!bias.empty()) inputs.push_back(bias);
    return g("LayerNormalization", inputs, {{"axis", std::int64_t{-1}}, {"epsilon", options.eps}});
  }
  const OnnxValue d = g("Sub", {x, mean(g, x)});
  const auto n = static_cast<double>(channels);
  const OnnxValue variance =
      scaled(g, mean(g, g("Pow", {d, g.real(2)})), options.unbiased ? n / (n - 1) : 1);
  const OnnxValue y = divided(g, d, variance, options, weight);
  return bias.empty() ? y : g("Add", {y, bias});
}

OnnxValue rope(OnnxGraph& g, const OnnxValue& x, std::int64_t head_size, const OnnxAngles& angles) {
  const std::int64_t pairs = angles.turned / 2, others = head_size - angles.turned;
  std::vector<OnnxValue> parts =
      split(g, x, others == 0 ? Wholes{pairs, pairs} : Wholes{pairs, pairs, others});
  const auto by = [&](const OnnxValue& a, const OnnxValue& b) { return g("Mul", {a, b}); };
  const OnnxValue low = parts[0], high = parts[1];
  parts[0] = g("Sub", {by(low, angles.cos), by(high, angles.sin)});
  parts[1] = g("Add", {by(high, angles.cos), by(low, angles.sin)});
  return g("Concat", parts, {{"axis", std::int64_t{-1}}});
}

// A number that leaves nothing of a score. It is finite: a query of padding may see no key at all,
// and must not make a NaN, which would reach others by its own key.
OnnxValue hidden_unless(OnnxGraph& g, const OnnxValue& seen) {
  return g("Where", {seen, g.real(0), g.real(-1e30)});
}
OnnxValue seen_by_mask(OnnxGraph& g, const OnnxValue& mask) {
  return g("Unsqueeze", {cast(g, mask, OnnxType::boolean), g.wholes({1, 2})});
}
OnnxValue distances(OnnxGraph& g, const OnnxValue& past, const OnnxValue& total) {
  const OnnxValue one = g.whole(1), keys = g("Range", {g.whole(0), total, one});
  const OnnxValue queries = g("Unsqueeze", {g("Range", {past, total, one}), g.wholes({1})});
  return g("Sub", {queries, keys});
}

// The queries that share keys stand below each other, so that no key is copied. A 0 in a shape
// stands for the size that x has there.
OnnxValue attention(OnnxGraph& g, const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                    const OnnxValue& hidden, const OnnxHeads& heads, const ScoreOptions& options) {
  const bool share = heads.queries != heads.keys;
  const auto grouped = [&](const OnnxValue& x, std::int64_t last) {
    return share ? reshape(g, x, {0, heads.keys, -1, last}) : x;
  };
  const auto apart = [&](const OnnxValue& x, std::int64_t last) {
    return share ? reshape(g, x, {0, heads.queries, -1, last}) : x;
  };
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(heads.size));
  const OnnxValue queries = grouped(scaled(g, q, scale), heads.size);
  const OnnxValue products = g("MatMul", {queries, permute(g, k, {0, 1, 3, 2})});
  const OnnxValue scores = softcap(g, apart(products, 0), options.softcap);
  const OnnxValue weights =
      g("Softmax", {g("Add", {scores, hidden})}, {{"axis", std::int64_t{-1}}});
  return apart(g("MatMul", {grouped(weights, 0), v}), heads.size);
}

}  // namespace tapegrad::run
