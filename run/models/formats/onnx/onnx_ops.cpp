#include "tapegrad/run/models/formats/onnx/internal/onnx_ops.h"

#include <cmath>
#include <numbers>

namespace tapegrad::run {

namespace {

using Wholes = std::vector<std::int64_t>;

OnnxValue mean(OnnxGraph& g, const OnnxValue& x) {
  return g("ReduceMean", {x}, {{"axes", Wholes{-1}}, {"keepdims", std::int64_t{1}}});
}

// x / √(variance + eps), times the weight.
OnnxValue divided(OnnxGraph& g, const OnnxValue& x, const OnnxValue& variance, double eps,
                  const OnnxValue& weight) {
  const OnnxValue y = g("Div", {x, g("Sqrt", {g("Add", {variance, g.real(eps)})})});
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

OnnxValue scaled(OnnxGraph& g, const OnnxValue& x, double by) {
  return by == 1 ? x : g("Mul", {x, g.real(by)});
}
OnnxValue softcap(OnnxGraph& g, const OnnxValue& x, double cap) {
  return cap == 0 ? x : scaled(g, g("Tanh", {scaled(g, x, 1 / cap)}), cap);
}
OnnxValue relu(OnnxGraph& g, const OnnxValue& x) { return g("Relu", {x}); }
OnnxValue relu2(OnnxGraph& g, const OnnxValue& x) {
  const OnnxValue y = relu(g, x);
  return g("Mul", {y, y});
}
OnnxValue silu(OnnxGraph& g, const OnnxValue& x) { return g("Mul", {x, g("Sigmoid", {x})}); }

OnnxValue gelu(OnnxGraph& g, const OnnxValue& x, Gelu form) {
  const OnnxValue one = g.real(1);
  if (form == Gelu::erf) {
    const OnnxValue erf = g("Erf", {g("Div", {x, g.real(std::numbers::sqrt2)})});
    return g("Mul", {g("Mul", {x, g("Add", {erf, one})}), g.real(0.5)});
  }
  const OnnxValue cubic = g("Mul", {g("Pow", {x, g.real(3)}), g.real(0.044715)});
  const OnnxValue inner = g("Mul", {g("Add", {x, cubic}), g.real(std::sqrt(2 / std::numbers::pi))});
  return g("Mul", {g("Mul", {x, g.real(0.5)}), g("Add", {g("Tanh", {inner}), one})});
}

OnnxValue rms_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight, double eps) {
  return divided(g, x, mean(g, g("Pow", {x, g.real(2)})), eps, weight);
}

OnnxValue layer_norm(OnnxGraph& g, const OnnxValue& x, const OnnxValue& weight,
                     const OnnxValue& bias, const LayerNormOptions& options,
                     std::int64_t channels) {
  if (!options.unbiased) {
    std::vector<OnnxValue> inputs = {x, weight};
    if (!bias.empty()) inputs.push_back(bias);
    return g("LayerNormalization", inputs, {{"axis", std::int64_t{-1}}, {"epsilon", options.eps}});
  }
  const OnnxValue d = g("Sub", {x, mean(g, x)});
  const auto n = static_cast<double>(channels);
  const OnnxValue variance = scaled(g, mean(g, g("Pow", {d, g.real(2)})), n / (n - 1));
  const OnnxValue y = divided(g, d, variance, options.eps, weight);
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
