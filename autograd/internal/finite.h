#pragma once

#include "tapegrad/autograd/internal/step.h"

namespace tapegrad {

// The checks of TapeOptions::check_finite. Each is an Error that names the op and the element, what
// was broken before the op, and the module: that of the parameter that the op uses or, if it uses
// none, of the last one that was used before it.

// True if no element is NaN or infinite. Always true of integers, and in a dry run.
bool all_finite(const Tensor& t);
// The name of the first tensor for which that is false; empty if there is none.
std::string broken_tensor(std::span<const std::pair<std::string, Tensor>> tensors);
// The results of an op that the tape is about to record.
void check_finite_results(const TapeRecord& tape, std::string_view op, Inputs inputs,
                          Inputs outputs);
// The gradients that step i of the tape has made from its outputs' gradients, dys.
void check_finite_gradients(const TapeRecord& tape, std::size_t i, Inputs dys, Inputs dxs);

}  // namespace tapegrad
