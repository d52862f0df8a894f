#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Derivatives of functions, as torch.autograd.functional has them, with its shapes:
//
//   const auto f = [](const Tensor& x) { return sum(x * x * x); };
//   const Tensor h = hessian(f, x);  // (3, 3) for x (3)
//
// They make tapes of their own and touch no grad(). What f returns depends on its arguments alone:
// tensors that it has from elsewhere count as constants. A derivative that does not exist because f
// does not use an argument is 0. Where a tape is live, it records what they do, so that they can be
// differentiated in turn. Error for an argument that is neither f32 nor f64.
//
// Each function exists for one argument and for several; of several, an element of a result belongs
// to each argument.
using TensorFunction = std::function<Tensor(const Tensor& x)>;
using TensorsFunction = std::function<Tensor(Inputs xs)>;

// The derivatives of y = f(x) by x, of the shape of y followed by that of x. Runs f once, and
// backward once for each element of y.
Tensor jacobian(const TensorFunction& f, const Tensor& x);
Grads jacobian(const TensorsFunction& f, const std::vector<Tensor>& xs);

// The second derivatives of a function whose result has one element: Error else. The shape is x's,
// twice. Of several arguments, element [i][j] has the shapes of xs[i] and xs[j]. Runs backward
// once more than x has elements.
Tensor hessian(const TensorFunction& f, const Tensor& x);
std::vector<Grads> hessian(const TensorsFunction& f, const std::vector<Tensor>& xs);

struct ValueAndProduct {
  Tensor value;    // f(x)
  Tensor product;  // of a derivative at x and v
};
struct ValueAndProducts {
  Tensor value;
  Grads products;  // one for each argument
};
// vᵀ·J for v of f(x)'s shape: what backward computes. v may be undefined where f(x) has one
// element, and stands for 1.
ValueAndProduct vjp(const TensorFunction& f, const Tensor& x, const Tensor& v = {});
ValueAndProducts vjp(const TensorsFunction& f, const std::vector<Tensor>& xs, const Tensor& v = {});
// J·v for v of x's shape, by two backward runs: the derivative of vjp, which is linear in its v.
ValueAndProduct jvp(const TensorFunction& f, const Tensor& x, const Tensor& v);
ValueAndProduct jvp(const TensorsFunction& f, const std::vector<Tensor>& xs,
                    const std::vector<Tensor>& vs);
// H·v for v of x's shape and the Hessian H of a function whose result has one element, without H:
// the cost is that of a few runs of f.
ValueAndProduct hvp(const TensorFunction& f, const Tensor& x, const Tensor& v);
ValueAndProducts hvp(const TensorsFunction& f, const std::vector<Tensor>& xs,
                     const std::vector<Tensor>& vs);

// The gradient of each example's loss by itself, as torch.func.vmap of torch.func.grad gives them:
// for each tensor of `wrt`, parameters as a rule, (n, …), of which row i is the gradient of
// loss(i). Runs `loss` and backward n times, one after the other.
Grads per_example_gradients(const std::function<Tensor(std::int64_t example)>& loss, std::int64_t n,
                            const std::vector<Tensor>& wrt);

}  // namespace tapegrad
