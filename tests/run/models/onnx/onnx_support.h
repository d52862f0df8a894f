#pragma once

// A runtime for graphs of ONNX, so small that it can be read beside ONNX's Operators.md: in double,
// without this project's ops.

#include <run/models/onnx/onnx.pb.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/tests/run/models/onnx/onnx_arrays.h"
#include "tapegrad/tests/run/models/onnx/onnx_windows.h"
#include "tapegrad/tests/temp_folder.h"

namespace tapegrad::testing {

// A file of ONNX, with its weights, and with those of a file beside it.
class OnnxFile {
 public:
  explicit OnnxFile(const std::filesystem::path& path) : folder_(path.parent_path()) {
    check(model.ParseFromString(TempFolder::get(path)), "{} is no ModelProto", path.string());
    for (const onnx::TensorProto& t : model.graph().initializer()) weights_[t.name()] = array_of(t);
  }

  onnx::ModelProto model;
  const OnnxArray& weight(const std::string& name) const { return weights_.at(name); }

  // All values that the graph computes. Error for an op or a value that is not there.
  using Values = std::map<std::string, OnnxArray>;
  Values run(const Values& feeds) const {
    Values values = feeds;
    for (const auto& [name, array] : weights_) values[name] = array;
    for (const onnx::NodeProto& node : model.graph().node()) {
      std::vector<OnnxArray> in;
      for (const std::string& name : node.input()) in.push_back(values.at(name));
      const std::vector<OnnxArray> out = computed(node, in);
      check(std::ssize(out) == node.output_size(), "{}: {} outputs", node.name(), out.size());
      for (int i = 0; i < node.output_size(); ++i) {
        check(values.emplace(node.output(i), out[static_cast<std::size_t>(i)]).second,
              "{} is there twice", node.output(i));
      }
    }
    return values;
  }

 private:
  OnnxArray array_of(const onnx::TensorProto& t) const {
    OnnxArray a{{t.dims().begin(), t.dims().end()}, {}};
    std::string bytes = t.raw_data();
    if (t.data_location() == 1) {
      std::map<std::string, std::string> place;
      for (const auto& pair : t.external_data()) place[pair.key()] = pair.value();
      bytes = TempFolder::get(folder_ / place.at("location"))
                  .substr(std::stoul(place.at("offset")), std::stoul(place.at("length")));
    }
    const std::map<int, std::string> types = {{1, "f32"},  {2, "u8"},   {6, "i32"}, {7, "i64"},
                                              {9, "bool"}, {10, "f16"}, {11, "f64"}};
    const StoredType& type = stored_type(types.at(t.data_type()));
    const std::int64_t n = a.count(0, a.shape.size());
    check(std::ssize(bytes) == n * type.block_bytes, "'{}' has {} bytes", t.name(), bytes.size());
    a.data.resize(static_cast<std::size_t>(n));
    if (type.to_f64 != nullptr) {
      type.to_f64(reinterpret_cast<const std::byte*>(bytes.data()), n, a.data.data());
      return a;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t whole = 0;  // little-endian
      std::memcpy(&whole, bytes.data() + i * type.block_bytes,
                  static_cast<std::size_t>(type.block_bytes));
      a.data[static_cast<std::size_t>(i)] = static_cast<double>(whole);
    }
    return a;
  }

  using In = std::vector<OnnxArray>;

  static std::vector<OnnxArray> computed(const onnx::NodeProto& node, const In& in) {
    std::map<std::string, onnx::AttributeProto> at;
    for (const onnx::AttributeProto& a : node.attribute()) at[a.name()] = a;
    const std::string& op = node.op_type();
    const auto functions = elementwise_functions();
    if (const auto f = functions.find(op); f != functions.end()) {
      return {elementwise(in, f->second)};
    }
    const OnnxArray& x = in.at(0);
    if (op == "Split") {
      std::vector<OnnxArray> parts;
      std::int64_t begin = 0;
      for (const std::int64_t size : in.at(1).wholes()) {
        parts.push_back(onnx_part(x, x.place(at["axis"].i()), begin, begin + size));
        begin += size;
      }
      return parts;
    }
    if (op == "MatMul") return {onnx_matmul(x, in.at(1))};
    if (op == "Gemm") return {onnx_product(x, in.at(1), at["transB"].i() == 1)};
    if (op == "Transpose") {
      return {onnx_transpose(x, {at["perm"].ints().begin(), at["perm"].ints().end()})};
    }
    if (op == "Concat") return {onnx_concat(in, at["axis"].i())};
    if (op == "MatMulInteger") {
      const auto& minus = functions.at("Sub");
      return {onnx_product(elementwise({x, in.at(2)}, minus),
                           elementwise({in.at(1), in.at(3)}, minus))};
    }
    if (op == "DynamicQuantizeLinear") return onnx_bytes(x);
    if (op == "Softmax") return {onnx_rows(x, onnx_softmax)};
    if (op == "LogSoftmax") {
      return {elementwise({onnx_rows(x, onnx_softmax)}, functions.at("Log"))};
    }
    if (const auto reduced = onnx_reduced(op, at, in)) return {*reduced};
    if (op == "Conv") return {onnx_any_conv(at, in)};
    if (op == "ConvTranspose") return {onnx_conv_transpose(at, in)};
    if (op == "MaxPool" || op == "AveragePool") return {onnx_pool(at, x, op == "MaxPool")};
    if (op == "CumSum") {
      return {onnx_cumsum(x, in.at(1).wholes().at(0), at["reverse"].i() == 1)};
    }
    if (op == "LayerNormalization") {
      const double eps = at["epsilon"].f();
      OnnxArray y = onnx_rows(x, [&](double* r, std::int64_t n) { onnx_normalize(r, n, eps); });
      y = elementwise({y, in.at(1)}, functions.at("Mul"));
      return {in.size() > 2 ? elementwise({y, in[2]}, functions.at("Add")) : y};
    }
    return {moved(op, in, at)};
  }

  // Ops that compute nothing.
  static OnnxArray moved(const std::string& op, const In& in,
                         std::map<std::string, onnx::AttributeProto>& at) {
    OnnxArray x = in.at(0);
    const bool to_floats = op == "Cast" && (at["to"].i() == 1 || at["to"].i() == 11);
    if (op == "Identity" || to_floats) return x;
    if (op == "Pad") return onnx_pad(x, in.at(1).wholes());
    if (op == "GatherElements") {
      return onnx_gather_elements(x, in.at(1), x.place(at["axis"].i()));
    }
    if (op == "Expand") {
      OnnxArray wide{in.at(1).wholes(), {}};
      wide.data.resize(static_cast<std::size_t>(wide.count(0, wide.shape.size())));
      return elementwise({x, wide}, [](const std::vector<double>& v) { return v[0]; });
    }
    if (op == "Squeeze") {
      const std::size_t axis = x.place(in.at(1).wholes().at(0));
      check(x.shape[axis] == 1, "[Squeeze] a size of {}", x.shape[axis]);
      x.shape.erase(x.shape.begin() + static_cast<std::ptrdiff_t>(axis));
      return x;
    }
    if (op == "Cast" && at["to"].i() == 9) {
      return elementwise({x}, [](const std::vector<double>& v) { return v[0] != 0 ? 1 : 0; });
    }
    if (op == "Shape") {
      return onnx_wholes({x.shape.begin() + at["start"].i(), x.shape.end()});
    }
    if (op == "Slice") return onnx_slice(x, in);
    if (op == "Unsqueeze") {
      for (const std::int64_t axis : in.at(1).wholes()) {
        x.shape.insert(axis < 0 ? x.shape.end() + axis + 1 : x.shape.begin() + axis, 1);
      }
      return x;
    }
    if (op == "Range") {
      OnnxArray range;
      for (double v = x.data[0]; v < in.at(1).data.at(0); v += in.at(2).data.at(0)) {
        range.data.push_back(v);
      }
      range.shape = {std::ssize(range.data)};
      return range;
    }
    if (op == "Reshape") {
      std::vector<std::int64_t> shape = in.at(1).wholes();
      std::int64_t known = 1, *open = nullptr;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0) shape[i] = x.shape.at(i);
        if (shape[i] == -1) open = &shape[i];
        if (shape[i] != -1) known *= shape[i];
      }
      if (open != nullptr) *open = std::ssize(x.data) / known;
      x.shape = shape;
      check(x.count(0, shape.size()) == std::ssize(x.data), "[Reshape] {} elements", x.data.size());
      return x;
    }
    if (op == "Gather" && at["axis"].i() != 0) {  // by a row of places
      const std::size_t axis = x.place(at["axis"].i());
      check(in.at(1).shape.size() == 1, "[Gather] places of {} dimensions", in[1].shape.size());
      std::vector<OnnxArray> parts;
      for (const std::int64_t i : in[1].wholes()) parts.push_back(onnx_part(x, axis, i, i + 1));
      return onnx_concat(parts, at["axis"].i());
    }
    if (op == "Gather") {
      OnnxArray rows{in.at(1).shape, {}};
      rows.shape.insert(rows.shape.end(), x.shape.begin() + 1, x.shape.end());
      for (const std::int64_t row : in[1].wholes()) {
        const OnnxArray one = onnx_part(x, 0, row, row + 1);
        rows.data.insert(rows.data.end(), one.data.begin(), one.data.end());
      }
      return rows;
    }
    fail("there is no op {}", op);
  }

  using Function = std::function<double(const std::vector<double>&)>;
  static std::map<std::string, Function> elementwise_functions() {
    using X = const std::vector<double>&;
    return {{"Add", [](X x) { return x.at(0) + x.at(1); }},
            {"Sub", [](X x) { return x.at(0) - x.at(1); }},
            {"Mul", [](X x) { return x.at(0) * x.at(1); }},
            {"Div", [](X x) { return x.at(0) / x.at(1); }},
            {"Pow", [](X x) { return std::pow(x.at(0), x.at(1)); }},
            {"Sqrt", [](X x) { return std::sqrt(x.at(0)); }},
            {"Tanh", [](X x) { return std::tanh(x.at(0)); }},
            {"Neg", [](X x) { return -x.at(0); }},
            {"Exp", [](X x) { return std::exp(x.at(0)); }},
            {"Log", [](X x) { return std::log(x.at(0)); }},
            {"Abs", [](X x) { return std::abs(x.at(0)); }},
            {"Sin", [](X x) { return std::sin(x.at(0)); }},
            {"Cos", [](X x) { return std::cos(x.at(0)); }},
            {"Tan", [](X x) { return std::tan(x.at(0)); }},
            {"Max", [](X x) { return std::max(x.at(0), x.at(1)); }},
            {"Round", [](X x) { return std::nearbyint(x.at(0)); }},
            {"Floor", [](X x) { return std::floor(x.at(0)); }},
            {"Ceil", [](X x) { return std::ceil(x.at(0)); }},
            {"Sign", [](X x) { return x.at(0) > 0   ? 1.0
                                      : x.at(0) < 0 ? -1.0
                                                    : 0.0; }},
            {"Clip", [](X x) { return std::min(std::max(x.at(0), x.at(1)), x.at(2)); }},
            {"Softplus", [](X x) { return std::log1p(std::exp(x.at(0))); }},
            {"HardSwish", [](X x) { return x.at(0) * std::clamp(x.at(0) / 6 + 0.5, 0.0, 1.0); }},
            {"Erf", [](X x) { return std::erf(x.at(0)); }},
            {"Relu", [](X x) { return std::max(x.at(0), 0.0); }},
            {"Sigmoid", [](X x) { return 1 / (1 + std::exp(-x.at(0))); }},
            {"And", [](X x) { return x.at(0) * x.at(1); }},
            {"Less", [](X x) { return x.at(0) < x.at(1) ? 1.0 : 0.0; }},
            {"GreaterOrEqual", [](X x) { return x.at(0) >= x.at(1) ? 1.0 : 0.0; }},
            {"Where", [](X x) { return x.at(0) != 0 ? x.at(1) : x.at(2); }}};
  }

  std::filesystem::path folder_;
  std::map<std::string, OnnxArray> weights_;
};

}  // namespace tapegrad::testing
