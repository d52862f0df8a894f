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
#include "tapegrad/tests/temp_folder.h"

namespace tapegrad::testing {

struct OnnxArray {
  std::vector<std::int64_t> shape;
  std::vector<double> data;

  std::int64_t size(std::int64_t axis) const { return shape.at(place(axis)); }
  std::size_t place(std::int64_t axis) const {
    return static_cast<std::size_t>(axis < 0 ? axis + std::ssize(shape) : axis);
  }
  // The product of the sizes of dimensions [begin, end).
  std::int64_t count(std::size_t begin, std::size_t end) const {
    return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                           shape.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1},
                           std::multiplies<>());
  }
  std::vector<std::int64_t> wholes() const { return {data.begin(), data.end()}; }
};

inline OnnxArray onnx_wholes(const std::vector<std::int64_t>& values) {
  return {{std::ssize(values)}, {values.begin(), values.end()}};
}

// NumPy's broadcasting.
template <class F>
OnnxArray elementwise(const std::vector<OnnxArray>& in, const F& f) {
  OnnxArray out;
  for (const OnnxArray& a : in) {
    while (out.shape.size() < a.shape.size()) out.shape.insert(out.shape.begin(), 1);
  }
  for (const OnnxArray& a : in) {
    for (std::size_t i = 0; i < a.shape.size(); ++i) {
      std::int64_t& size = out.shape[out.shape.size() - a.shape.size() + i];
      check(size == 1 || a.shape[i] == 1 || size == a.shape[i], "sizes {} and {}", size,
            a.shape[i]);
      size = size == 1 ? a.shape[i] : size;
    }
  }
  const std::int64_t n = out.count(0, out.shape.size());
  for (std::int64_t at = 0; at < n; ++at) {
    std::vector<double> x;
    for (const OnnxArray& a : in) {
      std::int64_t rest = at, from = 0, stride = 1;
      for (std::size_t i = 1; i <= out.shape.size(); ++i) {
        const std::int64_t size = out.shape[out.shape.size() - i], index = rest % size;
        rest /= size;
        if (i > a.shape.size()) continue;
        const std::int64_t own = a.shape[a.shape.size() - i];
        if (own != 1) from += index * stride;
        stride *= own;
      }
      x.push_back(a.data[static_cast<std::size_t>(from)]);
    }
    out.data.push_back(f(x));
  }
  return out;
}

// (…, M, K) and (…, K, N) or (K, N).
inline OnnxArray onnx_product(const OnnxArray& a, const OnnxArray& b, bool transposed = false) {
  const std::int64_t M = a.size(-2), K = a.size(-1), N = b.size(transposed ? -2 : -1);
  check(b.size(transposed ? -1 : -2) == K, "inner sizes {} and {}", K, b.size(-2));
  OnnxArray out{a.shape, {}};
  out.shape.back() = N;
  const std::int64_t batch = a.count(0, a.shape.size() - 2);
  for (std::int64_t i = 0; i < batch * M; ++i) {
    const std::int64_t first = b.shape.size() > 2 ? i / M * K * N : 0;
    for (std::int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t at = first + (transposed ? j * K + k : k * N + j);
        sum += a.data[static_cast<std::size_t>(i * K + k)] * b.data[static_cast<std::size_t>(at)];
      }
      out.data.push_back(sum);
    }
  }
  return out;
}

inline OnnxArray onnx_transpose(const OnnxArray& x, const std::vector<std::int64_t>& order) {
  OnnxArray out;
  for (const std::int64_t axis : order) out.shape.push_back(x.size(axis));
  for (std::size_t at = 0; at < x.data.size(); ++at) {
    std::vector<std::int64_t> index(x.shape.size());
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t i = order.size(); i-- > 0; rest /= out.shape[i]) {
      index[static_cast<std::size_t>(order[i])] = rest % out.shape[i];
    }
    std::int64_t from = 0;
    for (std::size_t i = 0; i < index.size(); ++i) from = from * x.shape[i] + index[i];
    out.data.push_back(x.data[static_cast<std::size_t>(from)]);
  }
  return out;
}

// Elements [begin, end) of an axis.
inline OnnxArray onnx_part(const OnnxArray& x, std::size_t axis, std::int64_t begin,
                           std::int64_t end) {
  OnnxArray out{x.shape, {}};
  out.shape[axis] = end - begin;
  const std::int64_t inner = x.count(axis + 1, x.shape.size()), size = x.shape[axis];
  for (std::int64_t o = 0; o < x.count(0, axis); ++o) {
    const auto first = x.data.begin() + (o * size + begin) * inner;
    out.data.insert(out.data.end(), first, first + (end - begin) * inner);
  }
  return out;
}

inline OnnxArray onnx_concat(const std::vector<OnnxArray>& in, std::int64_t along) {
  const std::size_t axis = in[0].place(along);
  OnnxArray out{in[0].shape, {}};
  out.shape[axis] = 0;
  for (const OnnxArray& x : in) out.shape[axis] += x.shape[axis];
  for (std::int64_t o = 0; o < in[0].count(0, axis); ++o) {
    for (const OnnxArray& x : in) {
      const std::int64_t n = x.count(axis, x.shape.size());
      out.data.insert(out.data.end(), x.data.begin() + o * n, x.data.begin() + (o + 1) * n);
    }
  }
  return out;
}

// A function of the rows of the last dimension.
inline OnnxArray onnx_rows(OnnxArray x, const std::function<void(double*, std::int64_t)>& f) {
  const std::int64_t n = x.shape.back();
  for (std::size_t i = 0; i < x.data.size(); i += static_cast<std::size_t>(n)) {
    f(x.data.data() + i, n);
  }
  return x;
}

inline void onnx_softmax(double* row, std::int64_t n) {
  const double most = *std::max_element(row, row + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - most);
  for (std::int64_t i = 0; i < n; ++i) row[i] /= sum;
}

inline void onnx_normalize(double* row, std::int64_t n, double eps) {
  const double mean = std::accumulate(row, row + n, 0.0) / static_cast<double>(n);
  double variance = 0;
  for (std::int64_t i = 0; i < n; ++i) variance += (row[i] - mean) * (row[i] - mean);
  variance /= static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) row[i] = (row[i] - mean) / std::sqrt(variance + eps);
}

// DynamicQuantizeLinear: bytes, their scale, and the byte of 0.
inline std::vector<OnnxArray> onnx_bytes(OnnxArray x) {
  const double low = std::min(0.0, *std::min_element(x.data.begin(), x.data.end()));
  const double high = std::max(0.0, *std::max_element(x.data.begin(), x.data.end()));
  const double scale = (high - low) / 255, zero = std::nearbyint(-low / scale);
  for (double& v : x.data) v = std::clamp(std::nearbyint(v / scale) + zero, 0.0, 255.0);
  return {x, {{}, {scale}}, {{}, {zero}}};
}

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
    const std::map<int, std::string> types = {{1, "f32"}, {2, "u8"}, {7, "i64"}, {10, "f16"}};
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
    if (op == "MatMul") return {onnx_product(x, in.at(1))};
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
    if (op == "ReduceMean") {
      OnnxArray mean{x.shape, {}};
      mean.shape.back() = 1;
      onnx_rows(x, [&](double* row, std::int64_t n) {
        mean.data.push_back(std::accumulate(row, row + n, 0.0) / static_cast<double>(n));
      });
      return {mean};
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
    if (op == "Identity" || (op == "Cast" && at["to"].i() == 1)) return x;
    if (op == "Cast" && at["to"].i() == 9) {
      return elementwise({x}, [](const std::vector<double>& v) { return v[0] != 0 ? 1 : 0; });
    }
    if (op == "Shape") {
      return onnx_wholes({x.shape.begin() + at["start"].i(), x.shape.end()});
    }
    if (op == "Slice") {  // to the end
      const std::size_t axis = x.place(in.at(3).wholes().at(0));
      const std::int64_t size = x.shape[axis], begin = in.at(1).wholes().at(0);
      check(in.at(2).data.at(0) >= static_cast<double>(size), "[Slice] an end inside");
      return onnx_part(x, axis, std::min(begin, size), size);
    }
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
    if (op == "Gather" && at["axis"].i() == 0) {
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
