#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::testing {

// A matrix p and a vector b with the loss Σp³/t + Σb·p[0], which is different at each step t. The
// literals in the tests are what PyTorch 2.6's optimisers make of the same in float64.
struct TwoTensors {
  explicit TwoTensors(DType dtype = DType::f64)
      : p(Tensor::from<double>({1, -2, 0.5, 3}, {2, 2}).to(dtype)),
        b(Tensor::from<double>({0.25, -1}, {2}).to(dtype)) {
    p.set_requires_grad();
    b.set_requires_grad();
  }

  Tensor p, b;

  NamedTensors named() const { return {{"p", p}, {"b", b}}; }

  // Adds the gradients of step t.
  void backward(int t) const {
    Tape tape;
    tape.backward(sum(p * p * p) / t + sum(b * slice(p, 0, 0, 1)));
  }

  std::vector<double> values() const {
    std::vector<double> all;
    for (const Tensor& tensor : {p, b}) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i) all.push_back(tensor.at(i));
    }
    return all;
  }
};

// "" if the values agree to 1e-12 of themselves.
inline std::string differences(const std::vector<double>& values,
                               const std::vector<double>& expected, double rtol = 1e-12) {
  std::string text = values.size() == expected.size() ? "" : "sizes differ";
  for (std::size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    if (!(std::abs(values[i] - expected[i]) <= rtol * std::abs(expected[i]))) {
      text += fmt::format("value {} is {}, not {}; ", i, values[i], expected[i]);
    }
  }
  return text;
}

}  // namespace tapegrad::testing
