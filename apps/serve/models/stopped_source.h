#pragma once

#include <atomic>
#include <memory>

#include "tapegrad/autograd/formats/tensor_source.h"

namespace tapegrad::serve {

// The same tensors; each is an Error from when `stops` is true, so that loading a large model ends
// soon. `stops` must outlive the result. Null of null.
std::shared_ptr<const TensorSource> until(const std::atomic<bool>& stops,
                                          std::shared_ptr<const TensorSource> source);

}  // namespace tapegrad::serve
