#pragma once

#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// True if a live tape of this thread would record an op on t, which may be undefined.
bool is_tracked(const Tensor& t);

// For an argument that gets no gradient: Error if t is tracked, naming the function and the
// argument, so that no gradient ends in silence. Whoever means that calls detach().
void check_untracked(std::string_view function, std::string_view argument, const Tensor& t);

}  // namespace tapegrad
