#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// The name of a tensor that a graph of ONNX computes or is given. Empty: an input that a node does
// without.
using OnnxValue = std::string;

using OnnxWholes = std::vector<std::int64_t>;
// Its functions and those of OnnxCall are not inline: the files of ops, which have many rows,
// compile faster.
struct OnnxAttribute {
  OnnxAttribute(std::string_view given_name, std::int64_t whole);
  OnnxAttribute(std::string_view given_name, double real);
  OnnxAttribute(std::string_view given_name, OnnxWholes wholes);
  OnnxAttribute(const OnnxAttribute&);
  ~OnnxAttribute();

  std::string_view name;
  std::variant<std::int64_t, double, OnnxWholes> value;
};

// One recorded op on its way into a graph: what a row (OnnxRow of apply.h) that is a function reads
// and writes with. It returns the value of the op's output. Here y = x·σ(x):
//
//   {.onnx = [](OnnxCall& c) { return c("Mul", {c.in(0), c("Sigmoid", {c.in(0)})}); }}
class OnnxCall {
 public:
  // The tensors of the example that the op was called with; undefined ones are inputs left out.
  std::vector<Tensor> tensors;
  // The shape of the op's output. Rows that read it here need not keep it.
  Shape y_shape;
  // What they are in the graph.
  OnnxValue in(std::size_t i);
  std::vector<OnnxValue> inputs();

  // A node of an op of ONNX (opset 17). Empty inputs at the end are left out.
  virtual OnnxValue operator()(std::string_view op, const std::vector<OnnxValue>& inputs,
                               const std::vector<OnnxAttribute>& attributes = {}) = 0;
  // A tensor that the op uses beside its inputs, such as ids: an input of the function, or a
  // constant.
  virtual OnnxValue value(const Tensor& t) = 0;
  // A constant without dimensions, of the dtype of the op's first input.
  virtual OnnxValue number(double value) = 0;
  // Constants of one dimension: whole numbers, and the sizes of a shape.
  virtual OnnxValue wholes(const OnnxWholes& values) = 0;
  OnnxValue sizes(const Shape& shape);
  virtual OnnxValue cast(const OnnxValue& x, DType to) = 0;
  // The same function of the op's inputs, made of ops that have rows.
  virtual OnnxValue composed(const std::function<Tensor(Inputs)>& f) = 0;

 protected:
  ~OnnxCall() = default;
};

}  // namespace tapegrad
