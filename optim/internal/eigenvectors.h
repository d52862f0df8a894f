#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::optim {

// A step of orthogonal iteration: the rows of `basis` (n, n), which are orthonormal, come nearer to
// the eigenvectors of the symmetric `matrix` (n, n), whose eigenvalues are not negative. Rows are
// sorted by rᵀ·matrix·r, the largest first, multiplied by the matrix, and made orthonormal from the
// first one on. It computes in f64. Returns the numbers that the rows had before.
//
// The matrix may have any rank: it is matrix + δ·I, with the same eigenvectors, and δ a millionth
// of the largest rᵀ·matrix·r. A matrix of zeros changes nothing.
std::vector<std::int64_t> iterate_eigenvectors(const Tensor& matrix, Tensor& basis);

}  // namespace tapegrad::optim
