#include "tapegrad/run/models/formats/onnx/internal/onnx_layers.h"

#include "tapegrad/autograd/onnx/internal/recorded_nodes.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/run/models/formats/onnx/internal/onnx_weights.h"

namespace tapegrad::run {
namespace {

OnnxValue activate(OnnxGraph& g, const OnnxValue& x, nn::Activation activation) {
  return recorded_nodes(g, x, [=](const Tensor& t) { return nn::activate(t, activation); });
}

}  // namespace

OnnxLayers::OnnxLayers(OnnxGraph& graph, const NamedTensors& tensors, const StoredType& type)
    : g_(graph), type_(type), in_bytes_(type.name == kOnnxBytes) {
  for (const auto& [name, t] : tensors) names_.emplace(t.data<float>(), name);
}

const std::string& OnnxLayers::name_of(const Tensor& t) const {
  const auto name = names_.find(t.data<float>());
  check(name != names_.end(), "ONNX export: a tensor {} of the model has no name", t.shape());
  return name->second;
}

OnnxValue OnnxLayers::made(const std::string& name, const Shape& shape,
                           std::function<Tensor()> make) {
  return g_.weight(onnx_floats(name, shape, stored_type(DType::f32), std::move(make)));
}

OnnxValue OnnxLayers::parameter(const Tensor& t) {
  return made(name_of(t), t.shape(), [t] { return t; });
}

OnnxValue OnnxLayers::matrix(const Tensor& w, bool transposed) {
  const std::string& name = name_of(w);
  if (in_bytes_) return g_.weight(onnx_rounded(name, w, transposed));
  check_fits(name, w, type_);
  const Shape shape = transposed ? Shape{w.dim(1), w.dim(0)} : w.shape();
  return g_.weight(onnx_floats(name, shape, type_, [w, transposed] {
    const TapePause pause;
    return transposed ? permute(w, {1, 0}) : w;
  }));
}

OnnxValue OnnxLayers::scales(const Tensor& w) {
  return g_.weight(onnx_scales(name_of(w) + "_scale", w));
}

OnnxValue OnnxLayers::widened(const OnnxValue& stored) {
  return type_.is(DType::f32) ? stored : cast(g_, stored, OnnxType::f32);
}

OnnxValue OnnxLayers::embedding(const Tensor& table, const OnnxValue& ids) {
  const OnnxValue rows = widened(rows_of(g_, matrix(table, false), ids));
  if (!in_bytes_) return rows;
  const OnnxValue scale = g_("Unsqueeze", {rows_of(g_, scales(table), ids), g_.wholes({-1})});
  return g_("Mul", {g_("Sub", {rows, g_.real(kOnnxZeroByte)}), scale});
}

// x, rounded to bytes by the range that it has, times a matrix of bytes: the names by which
// runtimes know it as one op.
OnnxValue OnnxLayers::byte_product(const OnnxValue& x, const Tensor& w, const OnnxValue& stored) {
  const std::vector<OnnxValue> bytes = g_.several("DynamicQuantizeLinear", {x}, 3);
  const OnnxValue sums = g_("MatMulInteger", {bytes[0], stored, bytes[2], g_.byte(kOnnxZeroByte)});
  return g_("Mul", {cast(g_, sums, OnnxType::f32), g_("Mul", {bytes[1], scales(w)})});
}

OnnxValue OnnxLayers::with_bias(const nn::Linear& layer, const OnnxValue& y) {
  return layer.bias.defined() ? g_("Add", {y, parameter(layer.bias)}) : y;
}

// A matrix stands there as (in, out), which ONNX's product takes without more ado.
OnnxValue OnnxLayers::linear(const nn::Linear& layer, const OnnxValue& x) {
  if (!in_bytes_) return linear_of_any(layer, x);
  return with_bias(layer, byte_product(x, layer.weight, matrix(layer.weight, true)));
}

OnnxValue OnnxLayers::linear_of_any(const nn::Linear& layer, const OnnxValue& x) {
  OnnxValue w = widened(matrix(layer.weight, true));
  if (in_bytes_) w = g_("Mul", {g_("Sub", {w, g_.real(kOnnxZeroByte)}), scales(layer.weight)});
  return with_bias(layer, g_("MatMul", {x, w}));
}

// Gemm takes the table as the embedding has it: there is no second one in the file, and in f32 none
// in a runtime, which would otherwise transpose it beforehand.
OnnxValue OnnxLayers::tied_head(const Tensor& table, const OnnxValue& x, const OnnxValue& ids) {
  const OnnxValue stored = matrix(table, false);
  if (in_bytes_) return byte_product(x, table, permute(g_, stored, {1, 0}));
  const OnnxValue rows = reshape(g_, x, {-1, table.dim(1)});
  const OnnxValue y = g_("Gemm", {rows, widened(stored)}, {{"transB", std::int64_t{1}}});
  const OnnxValue shape =
      g_("Concat", {g_("Shape", {ids}), g_.wholes({table.dim(0)})}, {{"axis", std::int64_t{0}}});
  return g_("Reshape", {y, shape});
}

OnnxValue OnnxLayers::norm(const nn::Norm& norm, const OnnxValue& x) {
  if (!norm.exists()) return x;
  const nn::NormOptions& how = norm.options;
  if (how.kind == nn::NormKind::rms_bare) return rms_norm(g_, x, "", how.eps);
  const Tensor w = norm.weight;
  if (how.kind == nn::NormKind::rms) return rms_norm(g_, x, parameter(w), how.eps);
  if (how.kind == nn::NormKind::rms_plus) {
    const auto one_more = [w] {
      const TapePause pause;
      return w + 1;
    };
    return rms_norm(g_, x, made(name_of(w) + "+1", w.shape(), one_more), how.eps);
  }
  return layer_norm(g_, x, parameter(w), norm.bias.defined() ? parameter(norm.bias) : "",
                    {.eps = how.eps, .unbiased = how.kind == nn::NormKind::unbiased}, w.dim(0));
}

OnnxValue OnnxLayers::norm(const nn::LayerNorm& norm, const OnnxValue& x) {
  return layer_norm(g_, x, parameter(norm.weight), parameter(norm.bias), norm.options,
                    norm.weight.dim(0));
}

OnnxValue OnnxLayers::feed_forward(const nn::FeedForward& layer, const OnnxValue& x) {
  const nn::FeedForwardConfig& c = layer.config;
  const OnnxValue inner = linear(layer.c_fc, x);
  if (!c.gated) return linear(layer.c_proj, activate(g_, inner, c.activation));
  const std::vector<OnnxValue> parts = c.joined_gate
                                           ? split(g_, inner, {c.hidden, c.hidden})
                                           : std::vector<OnnxValue>{linear(layer.c_gate, x), inner};
  return linear(layer.c_proj, g_("Mul", {activate(g_, parts[0], c.activation), parts[1]}));
}

}  // namespace tapegrad::run
