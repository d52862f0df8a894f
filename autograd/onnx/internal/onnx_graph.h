#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/autograd/onnx/internal/wire_message.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// TensorProto.DataType of ONNX.
enum class OnnxType { f32 = 1, u8 = 2, i32 = 6, i64 = 7, boolean = 9, f16 = 10, f64 = 11 };

// A size of a tensor, or the name of one that is known when the graph runs.
using OnnxSize = std::variant<std::int64_t, std::string_view>;

// A tensor that is stored with a graph, and written when its turn comes.
struct OnnxWeight {
  std::string name;
  OnnxType type;
  Shape shape;
  std::uint64_t bytes;
  std::function<void(FileWriter&)> write;
};

// A graph of ONNX (github.com/onnx/onnx/blob/main/docs/IR.md) with the ops of opset 17, which grows
// node by node. Each function returns the value that it adds.
class OnnxGraph {
 public:
  static constexpr int kOpset = 17;

  OnnxValue input(const std::string& name, OnnxType type, const std::vector<OnnxSize>& shape);
  // A value of that name must be there, or come.
  void output(const std::string& name, OnnxType type, const std::vector<OnnxSize>& shape);

  // A node with one output, which is called `name` if that is given. Nodes that compute the same of
  // the same inputs are one: a layer may ask anew for what another one has.
  OnnxValue operator()(std::string_view op, const std::vector<OnnxValue>& inputs,
                       const std::vector<OnnxAttribute>& attributes = {},
                       const std::string& name = {});
  // A node with several outputs.
  std::vector<OnnxValue> several(std::string_view op, const std::vector<OnnxValue>& inputs,
                                 std::size_t outputs,
                                 const std::vector<OnnxAttribute>& attributes = {});

  // Constants: a number without dimensions, and a row of whole numbers.
  OnnxValue real(double value);
  OnnxValue byte(std::uint8_t value);
  OnnxValue whole(std::int64_t value);
  OnnxValue wholes(const std::vector<std::int64_t>& values);
  // Any small tensor. Equal ones are one.
  OnnxValue constant(OnnxType type, const Shape& shape, std::string_view bytes);
  // Weights of one name are one, the first.
  OnnxValue weight(OnnxWeight weight);

  // A name that a caller gives: constants and nodes that come later get others.
  void reserve(const std::string& name) { reserved_.insert(name); }
  bool is_reserved(const std::string& name) const { return reserved_.count(name) != 0; }

  // Names of nodes begin with it from now on.
  void enter(std::string part) { part_ = std::move(part); }

  const std::vector<OnnxWeight>& weights() const { return weights_; }
  // GraphProto without weights.
  const WireMessage& message() const { return message_; }

 private:
  std::vector<OnnxValue> node(std::string_view op, const std::vector<OnnxValue>& inputs,
                              std::vector<OnnxValue> outputs,
                              const std::vector<OnnxAttribute>& attributes);

  // `what`_N, with which no reserved name begins: outputs of nodes have longer ones, too.
  std::string made_name(const std::string& what);

  WireMessage message_;
  std::string part_;
  std::set<std::string> reserved_;
  int count_ = 0;  // of names that were made
  std::vector<OnnxWeight> weights_;
  std::map<std::string, std::vector<OnnxValue>> known_;  // nodes and constants, by what they are
  std::map<std::string, OnnxValue> names_of_weights_;
};

// The most bytes of weights in a graph's own file: a message of protobuf ends below 2 GiB.
inline constexpr std::uint64_t kMostInsideOnnx = 2'000'000'000;
// Writes ModelProto. Weights of more than `most_inside` bytes go to a file beside it whose name
// is longer by kOnnxData; then the result is true. Each file appears only when it is complete.
inline constexpr std::string_view kOnnxData = "_data";
bool write_onnx(const std::filesystem::path& path, const OnnxGraph& graph,
                std::uint64_t most_inside = kMostInsideOnnx);

}  // namespace tapegrad
