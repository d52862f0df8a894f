#pragma once

// What tests of graphs of ONNX share: rows of tokens, and comparisons with the library's own
// numbers.

#include <limits>
#include <set>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/run/models/onnx/onnx_support.h"

namespace tapegrad::testing {

using Rows = std::vector<std::vector<std::int64_t>>;
inline OnnxArray array_of(const Rows& rows) {
  OnnxArray a{{std::ssize(rows), std::ssize(rows[0])}, {}};
  for (const auto& row : rows) a.data.insert(a.data.end(), row.begin(), row.end());
  return a;
}

inline Rows cut(const Rows& rows, std::ptrdiff_t begin, std::ptrdiff_t end) {
  Rows part;
  for (const auto& row : rows) part.emplace_back(row.begin() + begin, row.begin() + end);
  return part;
}

inline Tensor ids_of(const Rows& rows) {
  std::vector<std::int32_t> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return Tensor::from(flat, {std::ssize(rows), std::ssize(rows[0])});
}

// The largest there is; infinite if a logit is not a number.
inline double difference(const OnnxArray& logits, const Tensor& ours) {
  double most = 0;
  for (std::int64_t i = 0; i < ours.numel(); ++i) {
    const double d = std::abs(logits.data[static_cast<std::size_t>(i)] - ours.at(i));
    most = std::max(most, std::isnan(d) ? std::numeric_limits<double>::infinity() : d);
  }
  return most;
}

inline void check_close(const OnnxArray& logits, const Tensor& ours) {
  REQUIRE(std::ssize(logits.data) == ours.numel());
  CHECK(difference(logits, ours) < 2e-5);
}

template <class Values>
std::vector<std::string> value_names(const Values& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.name());
  return names;
}

// Each node comes behind those whose outputs it takes, no value has two sources, and all ops are
// ONNX's own.
inline void check_sorted(const onnx::GraphProto& graph) {
  std::set<std::string> known;
  for (const auto& input : graph.input()) CHECK(known.insert(input.name()).second);
  for (const auto& t : graph.initializer()) CHECK(known.insert(t.name()).second);
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) CHECK(known.count(input) == 1);
    for (const std::string& output : node.output()) CHECK(known.insert(output).second);
    CHECK(node.domain().empty());
  }
  for (const auto& output : graph.output()) CHECK(known.count(output.name()) == 1);
}

}  // namespace tapegrad::testing
