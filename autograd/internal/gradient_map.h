#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tapegrad/autograd/internal/step.h"

namespace tapegrad {

// The gradients that a backward has so far: those of a tape's results by their places on it, those
// of other tensors by their ids. What the tape records meanwhile has larger ids than its results
// had, and is among the others.
class GradientMap {
 public:
  explicit GradientMap(const ResultIds& results) : results_(results), of_results_(results.size()) {}

  // The gradient of the tensor of that id, undefined if there was none.
  Tensor& operator[](std::uint64_t id) {
    const std::size_t place = results_.place_of(id);
    return place < of_results_.size() ? of_results_[place] : of_others_[id];
  }
  // Null if there is none.
  Tensor* find(std::uint64_t id) {
    const std::size_t place = results_.place_of(id);
    Tensor* found = nullptr;
    if (place < of_results_.size()) {
      found = &of_results_[place];
    } else if (const auto other = of_others_.find(id); other != of_others_.end()) {
      found = &other->second;
    }
    return found != nullptr && found->defined() ? found : nullptr;
  }

 private:
  const ResultIds& results_;
  std::vector<Tensor> of_results_;
  std::unordered_map<std::uint64_t, Tensor> of_others_;
};

}  // namespace tapegrad
