#pragma once

#include "tapegrad/nn/layers.h"

namespace tapegrad::demo {

// A chain of Linear + activation, with or without a shortcut around each layer that keeps the
// shape: the network of the residual-gradient experiment, after He et al., "Deep Residual Learning"
// (2015). Parameters are named "layers.0.0.weight".
struct ResidualNet {
  std::vector<nn::Linear> layers;
  bool shortcuts;
  nn::Activation activation;
  // sizes: of the input and of each layer's output.
  ResidualNet(const nn::Params& p, const std::vector<std::int64_t>& sizes, bool shortcuts,
              nn::Activation activation = nn::Activation::gelu);
  Tensor operator()(const Tensor& x) const;
};

}  // namespace tapegrad::demo
