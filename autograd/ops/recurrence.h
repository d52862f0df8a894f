#pragma once

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Along dim, r[k] = b[k] + x[k]·r[k − 1]; or, from the end on, r[k] = b[k] + x[k + 1]·r[k + 1]. b
// and x have one shape.
Tensor recurrence(const Tensor& b, const Tensor& x, int dim, bool from_end);

}  // namespace tapegrad
