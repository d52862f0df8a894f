#pragma once

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad {

// The gradient of x, made of ops from the gradient of the result y and from x, or from y.
using UnaryVjp = Tensor (*)(const Tensor& dy, const Tensor& x_or_y);

// The op y = f(x), elementwise, with its gradient as a function of dy and x.
template <class F>
Tensor unary(std::string_view name, const Tensor& x, const F& f, UnaryVjp vjp,
             OpOptions options = {}) {
  return apply(
      name, {x}, [f](Inputs in, Saved& saved) { return map(saved.keep(in[0]), f); },
      [vjp](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {vjp(dy, saved[0])};
      },
      std::move(options));
}

// A unary op whose gradient is a function of dy and y.
template <class F>
Tensor unary_of_result(std::string_view name, const Tensor& x, const F& f, UnaryVjp vjp,
                       OpOptions options = {}) {
  return apply(
      name, {x}, [f](Inputs in, Saved& saved) { return saved.keep(map(in[0], f)); },
      [vjp](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {vjp(dy, saved[0])};
      },
      std::move(options));
}

}  // namespace tapegrad
