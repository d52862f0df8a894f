#pragma once

#include <cmath>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/init.h"

namespace tapegrad::nn {

// First biases of the steps of recurrent states, so that softplus of one is from 0.001 to 0.1,
// evenly in its logarithm, as in the code of Mamba-2's authors: the inverse of softplus.
inline Init first_steps() {
  return [](Tensor& t, Rng& rng) {
    uniform(std::log(0.001), std::log(0.1))(t, rng);
    t = log(expm1(exp(t)));
  };
}

}  // namespace tapegrad::nn
