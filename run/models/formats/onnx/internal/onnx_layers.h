#pragma once

#include <functional>
#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/run/models/formats/onnx/internal/onnx_ops.h"

namespace tapegrad::run {

// The type for which matrices are stored in 8 bits: see onnx_rounded().
inline constexpr std::string_view kOnnxBytes = "q8_0";

// Layers of nn as nodes of a graph, with their weights. Matrices are stored as `type`, all other
// weights as f32. Everything is computed in f32, which any runtime can do, but for products with
// matrices in 8 bits.
class OnnxLayers {
 public:
  // `tensors` are those of the model, by their names. They must outlive the writing of the graph.
  OnnxLayers(OnnxGraph& graph, const NamedTensors& tensors, const StoredType& type);

  // Rows of a table (V, C): ids (…) → (…, C).
  OnnxValue embedding(const Tensor& table, const OnnxValue& ids);
  OnnxValue linear(const nn::Linear& layer, const OnnxValue& x);
  // The same for an x that may have no rows, of which nothing can be rounded to bytes by its range:
  // a matrix in 8 bits is widened first.
  OnnxValue linear_of_any(const nn::Linear& layer, const OnnxValue& x);
  // A linear layer on the table of an embedding: x (B, T, C) for ids (B, T) → (B, T, V).
  OnnxValue tied_head(const Tensor& table, const OnnxValue& x, const OnnxValue& ids);
  // x itself for a norm that is absent.
  OnnxValue norm(const nn::Norm& norm, const OnnxValue& x);
  OnnxValue norm(const nn::LayerNorm& norm, const OnnxValue& x);
  OnnxValue feed_forward(const nn::FeedForward& layer, const OnnxValue& x);
  // A parameter of the model as it is, in f32.
  OnnxValue parameter(const Tensor& t);

  // A tensor of f32 that is made when it is written.
  OnnxValue made(const std::string& name, const Shape& shape, std::function<Tensor()> make);

 private:
  const std::string& name_of(const Tensor& t) const;
  OnnxValue matrix(const Tensor& w, bool transposed);  // as it is stored
  OnnxValue scales(const Tensor& w);
  OnnxValue widened(const OnnxValue& stored);
  OnnxValue byte_product(const OnnxValue& x, const Tensor& w, const OnnxValue& stored);
  OnnxValue with_bias(const nn::Linear& layer, const OnnxValue& y);

  OnnxGraph& g_;
  std::map<const void*, std::string> names_;
  const StoredType& type_;
  bool in_bytes_;
};

}  // namespace tapegrad::run
