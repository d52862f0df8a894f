#pragma once

#include "tapegrad/base/error.h"

namespace tapegrad::nn {

// A model gives logits that are NaN, or whose largest is infinite. Who knows the model's file adds
// it to the message.
struct BrokenLogits : Error {
  BrokenLogits()
      : Error(
            "the model's logits are NaN or infinite: its weights are broken, or so large that they "
            "overflow") {}
};

}  // namespace tapegrad::nn
