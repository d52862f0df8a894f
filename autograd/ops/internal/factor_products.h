#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// The product of one or more factors over the product of divisors, elementwise; all broadcast.
// Second derivatives are such products, and a part of one may leave the range of the dtype where
// the whole does not. Where each step of first·(second / divisors · the others) is normal, that is
// the result, and elsewhere what exponents and mantissas of their own give.
Tensor quotient_of_products(const std::vector<Tensor>& factors,
                            const std::vector<Tensor>& divisors = {});

// A function of x, elementwise, written with ops.
using Curvature = Tensor (*)(const Tensor& x);
// dy·slope(x), as one kernel or written with ops.
using TimesSlope = std::function<Tensor(const Tensor& dy, const Tensor& x)>;

// The gradient of an elementwise op, recorded as one op `name`. Its derivative with respect to x is
// the product of the cotangent, dy and the slope's own derivative, `curvature`.
Tensor times_slope(std::string_view name, const Tensor& dy, const Tensor& x,
                   const TimesSlope& values, Curvature curvature);

}  // namespace tapegrad
