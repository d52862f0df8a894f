#pragma once

#include <functional>

#include "tapegrad/autograd/onnx/internal/onnx_graph.h"

namespace tapegrad {

// The nodes of an elementwise function, in f32, by the rows of the ops that it runs: y = f(x) for x
// of any shape. Numbers are the only constants that f may have.
OnnxValue recorded_nodes(OnnxGraph& graph, const OnnxValue& x,
                         const std::function<Tensor(const Tensor&)>& f);

}  // namespace tapegrad
