#pragma once

#include "tapegrad/base/error.h"

namespace tapegrad::nn {

// A model gives logits that are NaN. Who knows the model's file adds it to the message.
struct BrokenLogits : Error {
  BrokenLogits()
      : Error(
            "the model's logits are NaN: its weights are broken, or so large that they overflow") {}
};

}  // namespace tapegrad::nn
