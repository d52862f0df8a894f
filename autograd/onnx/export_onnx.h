#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

struct OnnxNames {
  // Of the inputs and outputs: all of them, or none for input_0, input_1 …, output_0 …
  std::vector<std::string> inputs = {}, outputs = {};
  // Of parameters, such as nn::Params::parameters(). Others are parameter_0 …
  std::span<const std::pair<std::string, Tensor>> parameters = {};
};

// Writes a function of tensors as a graph of ONNX (opset 17), for onnxruntime and others:
//
//   export_onnx("net.onnx", [&](Inputs in) { return softmax(net(in[0])); }, {x},
//               {.inputs = {"x"}, .outputs = {"p"}, .parameters = params.parameters()});
//
// It runs f(inputs) on a tape of its own, and writes each recorded op that the results need by the
// op's row (OpOptions::onnx). docs/ops.md lists ops with a row. Parameters, and tensors that f has
// from elsewhere, become initialisers: weights as they are now. Beyond 2 GB they go to a file
// beside it, FILE_data. Shapes in the graph are those of the example inputs, the batch's size
// included. Dtypes are the example's, too; most runtimes compute f32 alone.
//
// A tape records ops on floats. Comparisons, integers and random draws leave constants, which would
// be wrong for other inputs. So f runs twice more, on other values (the example's elements in
// reverse order, floats changed in size and once in sign), and must use the same constants. That
// finds what differs for these values: an example of several elements, unlike each other, finds
// most. A run that throws an Error is not compared. Ids may be inputs: a table from which they
// alone choose must be a parameter that names.parameters has, or that requires a gradient.
//
// Errors, before the file is touched: an op without a row, by its name; an op that uses another
// constant in another run, by its name; a write in place to an input, or to what an op has used or
// made, its detach() and views included; a result without elements; a name that is empty or there
// twice.
void export_onnx(const std::filesystem::path& file,
                 const std::function<std::vector<Tensor>(Inputs)>& f,
                 const std::vector<Tensor>& inputs, const OnnxNames& names = {});
void export_onnx(const std::filesystem::path& file, const std::function<Tensor(Inputs)>& f,
                 const std::vector<Tensor>& inputs, const OnnxNames& names = {});

}  // namespace tapegrad
