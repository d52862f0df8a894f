#pragma once

#include <string>

#include "tapegrad/autograd/gemm/internal/library.h"

namespace tapegrad {

// Tries a library's products of T on small matrices of every kind: a single row, a single column,
// k = 1, sizes beside those of kernels' blocks, each operand transposed or not, stored rows side by
// side or apart, C overwritten or added to. Compares with a plain loop in double. Returns "" if all
// are right, and otherwise which one came out wrong first, and by how much: "1×70×300 (A
// transposed, rows apart) is off by 3.1". Runs on the calling thread, in a few milliseconds.
template <class T>
std::string trial(const Multiplier<T>& by);
// The same for products of 8 bits, which must be exact.
template <>
std::string trial(const Multiplier<std::int8_t>& by);

}  // namespace tapegrad
