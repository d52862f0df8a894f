#include "tapegrad/autograd/onnx/internal/onnx_graph.h"

#include <fmt/format.h>

#include "tapegrad/autograd/onnx/internal/onnx_fields.h"
#include "tapegrad/base/version.h"

namespace tapegrad {
namespace {

WireMessage value_message(const std::string& name, OnnxType type,
                          const std::vector<OnnxSize>& sizes) {
  WireMessage shape;
  for (const OnnxSize& size : sizes) {
    WireMessage one;
    if (const auto* known = std::get_if<std::int64_t>(&size)) {
      one.number(OnnxSizeField::value, *known);
    } else {
      one.text(OnnxSizeField::name, std::get<std::string_view>(size));
    }
    shape.message(OnnxShapeField::size, one);
  }
  WireMessage tensor, all;
  tensor.number(OnnxTensorTypeField::element, static_cast<int>(type));
  tensor.message(OnnxTensorTypeField::shape, shape);
  all.text(OnnxValueField::name, name);
  return all.message(OnnxValueField::type, WireMessage().message(OnnxTypeField::tensor, tensor));
}

WireMessage attribute_message(const OnnxAttribute& attribute) {
  WireMessage message;
  message.text(OnnxAttributeField::name, attribute.name);
  if (const auto* real = std::get_if<double>(&attribute.value)) {
    message.real(OnnxAttributeField::real, static_cast<float>(*real));
    return message.number(OnnxAttributeField::type, OnnxAttributeType::real);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&attribute.value)) {
    message.number(OnnxAttributeField::whole, *whole);
    return message.number(OnnxAttributeField::type, OnnxAttributeType::whole);
  }
  for (const std::int64_t whole : std::get<std::vector<std::int64_t>>(attribute.value)) {
    message.number(OnnxAttributeField::wholes, whole);
  }
  return message.number(OnnxAttributeField::type, OnnxAttributeType::wholes);
}

template <class T>
std::string_view bytes_of_values(const T* values, std::size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

// The name, type and shape of a stored tensor.
WireMessage tensor_message(const std::string& name, OnnxType type, const Shape& shape) {
  WireMessage message;
  for (int i = 0; i < shape.rank(); ++i) message.number(OnnxTensorField::size, shape[i]);
  message.number(OnnxTensorField::type, static_cast<int>(type));
  return message.text(OnnxTensorField::name, name);
}

}  // namespace

OnnxValue OnnxGraph::input(const std::string& name, OnnxType type,
                           const std::vector<OnnxSize>& shape) {
  message_.message(OnnxGraphField::input, value_message(name, type, shape));
  return name;
}

void OnnxGraph::output(const std::string& name, OnnxType type, const std::vector<OnnxSize>& shape) {
  message_.message(OnnxGraphField::output, value_message(name, type, shape));
}

OnnxValue OnnxGraph::operator()(std::string_view op, const std::vector<OnnxValue>& inputs,
                                const std::vector<OnnxAttribute>& attributes,
                                const std::string& name) {
  return node(op, inputs, {name}, attributes).front();
}

std::vector<OnnxValue> OnnxGraph::several(std::string_view op, const std::vector<OnnxValue>& inputs,
                                          std::size_t outputs,
                                          const std::vector<OnnxAttribute>& attributes) {
  return node(op, inputs, std::vector<OnnxValue>(outputs), attributes);
}

std::string OnnxGraph::made_name(const std::string& what) {
  for (;;) {
    std::string name = fmt::format("{}_{}", what, ++count_);
    const auto next = reserved_.lower_bound(name);
    if (next == reserved_.end() || !next->starts_with(name)) return name;
  }
}

// `outputs` that have no name yet get one.
std::vector<OnnxValue> OnnxGraph::node(std::string_view op, const std::vector<OnnxValue>& inputs,
                                       std::vector<OnnxValue> outputs,
                                       const std::vector<OnnxAttribute>& attributes) {
  WireMessage message;
  for (const OnnxValue& input : inputs) message.text(OnnxNodeField::input, input);
  message.text(OnnxNodeField::op, op);
  for (const OnnxAttribute& attribute : attributes) {
    message.message(OnnxNodeField::attribute, attribute_message(attribute));
  }
  const auto known = known_.find(message.bytes());
  if (known != known_.end() && outputs.front().empty()) return known->second;

  const std::string name = made_name(fmt::format("{}/{}", part_, op));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) outputs[i] = i == 0 ? name : fmt::format("{}_{}", name, i);
  }
  known_[message.bytes()] = outputs;
  for (const OnnxValue& output : outputs) message.text(OnnxNodeField::output, output);
  message.text(OnnxNodeField::name, name);
  message_.message(OnnxGraphField::node, message);
  return outputs;
}

OnnxValue OnnxGraph::real(double value) {
  const auto number = static_cast<float>(value);
  return constant(OnnxType::f32, {}, bytes_of_values(&number, 1));
}
OnnxValue OnnxGraph::byte(std::uint8_t value) {
  return constant(OnnxType::u8, {}, bytes_of_values(&value, 1));
}
OnnxValue OnnxGraph::whole(std::int64_t value) {
  return constant(OnnxType::i64, {}, bytes_of_values(&value, 1));
}
OnnxValue OnnxGraph::wholes(const std::vector<std::int64_t>& values) {
  return constant(OnnxType::i64, {std::ssize(values)},
                  bytes_of_values(values.data(), values.size()));
}

OnnxValue OnnxGraph::constant(OnnxType type, const Shape& shape, std::string_view bytes) {
  std::string key = tensor_message("", type, shape).bytes();
  key += bytes;
  std::vector<OnnxValue>& known = known_[key];
  if (!known.empty()) return known.front();
  known = {made_name("constant")};
  WireMessage tensor = tensor_message(known.front(), type, shape);
  message_.message(OnnxGraphField::weight, tensor.text(OnnxTensorField::bytes, bytes));
  return known.front();
}

OnnxValue OnnxGraph::weight(OnnxWeight weight) {
  const OnnxValue name = weight.name;
  if (names_of_weights_.emplace(name, name).second) weights_.push_back(std::move(weight));
  return name;
}

namespace {

// Weights in a file of their own begin at whole pages of memory, so that it can be mapped.
constexpr std::uint64_t kPage = 4096;

std::vector<std::uint64_t> places_outside(const std::vector<OnnxWeight>& weights) {
  std::vector<std::uint64_t> places;
  std::uint64_t at = 0;
  for (const OnnxWeight& weight : weights) {
    places.push_back(at);
    at += (weight.bytes + kPage - 1) / kPage * kPage;
  }
  return places;
}

void write_outside(const std::filesystem::path& path, const std::vector<OnnxWeight>& weights) {
  write_file_atomically(path, [&](FileWriter& file) {
    for (const OnnxWeight& weight : weights) {
      weight.write(file);
      file.write(std::string((kPage - weight.bytes % kPage) % kPage, '\0'));
    }
  });
}

// What stands before the bytes of a weight: all of it if they are in the file of that name.
WireMessage head_inside(const OnnxWeight& weight) {
  WireMessage head = tensor_message(weight.name, weight.type, weight.shape);
  return head.begin(OnnxTensorField::bytes, weight.bytes);
}
WireMessage head_outside(const OnnxWeight& weight, const std::string& file, std::uint64_t place) {
  WireMessage head = tensor_message(weight.name, weight.type, weight.shape);
  const std::pair<std::string_view, std::string> words[] = {
      {"location", file},
      {"offset", std::to_string(place)},
      {"length", std::to_string(weight.bytes)}};
  for (const auto& [key, value] : words) {
    WireMessage pair;
    pair.text(OnnxPairField::key, key).text(OnnxPairField::value, value);
    head.message(OnnxTensorField::outside, pair);
  }
  return head.number(OnnxTensorField::place, kOnnxOutside);
}

WireMessage model_message() {
  constexpr int kIrVersion = 8;  // the one that came with opset 17
  WireMessage opset, model;
  opset.text(OnnxOpsetField::domain, "").number(OnnxOpsetField::version, OnnxGraph::kOpset);
  model.number(OnnxModelField::ir_version, kIrVersion);
  model.text(OnnxModelField::producer_name, "tapegrad");
  model.text(OnnxModelField::producer_version, TAPEGRAD_VERSION);
  return model.message(OnnxModelField::opset, opset);
}

}  // namespace

bool write_onnx(const std::filesystem::path& path, const OnnxGraph& graph,
                std::uint64_t most_inside) {
  const std::vector<OnnxWeight>& weights = graph.weights();
  std::uint64_t bytes = 0;
  for (const OnnxWeight& weight : weights) bytes += weight.bytes;
  const bool outside = bytes > most_inside;
  const std::string data_file = path.filename().string() + std::string(kOnnxData);
  if (outside) write_outside(path.parent_path() / data_file, weights);

  // The sizes of all parts stand before them.
  WireMessage name;
  name.text(OnnxGraphField::name, "tapegrad");
  std::uint64_t graph_size = name.bytes().size() + graph.message().bytes().size();
  const std::vector<std::uint64_t> places = places_outside(weights);
  std::vector<std::string> heads;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::uint64_t inside = outside ? 0 : weights[i].bytes;
    const std::string head = outside ? head_outside(weights[i], data_file, places[i]).bytes()
                                     : head_inside(weights[i]).bytes();
    heads.push_back(WireMessage().begin(OnnxGraphField::weight, head.size() + inside).bytes());
    heads.back() += head;
    graph_size += heads.back().size() + inside;
  }
  write_file_atomically(path, [&](FileWriter& file) {
    file.write(model_message().begin(OnnxModelField::graph, graph_size).bytes());
    file.write(name.bytes());
    file.write(graph.message().bytes());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      file.write(heads[i]);
      if (!outside) weights[i].write(file);
    }
  });
  return outside;
}

}  // namespace tapegrad
