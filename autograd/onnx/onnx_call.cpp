#include "tapegrad/autograd/onnx/onnx_call.h"

#include <utility>

namespace tapegrad {

OnnxAttribute::OnnxAttribute(std::string_view given_name, std::int64_t whole)
    : name(given_name), value(whole) {}
OnnxAttribute::OnnxAttribute(std::string_view given_name, double real)
    : name(given_name), value(real) {}
OnnxAttribute::OnnxAttribute(std::string_view given_name, OnnxWholes wholes)
    : name(given_name), value(std::move(wholes)) {}
OnnxAttribute::OnnxAttribute(const OnnxAttribute&) = default;
OnnxAttribute::~OnnxAttribute() = default;

OnnxValue OnnxCall::in(std::size_t i) {
  return tensors.at(i).defined() ? value(tensors[i]) : OnnxValue();
}

std::vector<OnnxValue> OnnxCall::inputs() {
  std::vector<OnnxValue> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) all.push_back(in(i));
  return all;
}

OnnxValue OnnxCall::sizes(const Shape& shape) { return wholes({shape.begin(), shape.end()}); }

}  // namespace tapegrad
