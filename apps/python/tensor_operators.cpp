// Operators between tensors, and between a tensor and a number on either side: C++'s. They
// broadcast.

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::python {
namespace {

// The method `name`, for another operand that is a tensor or a Number.
template <class Other, class Op>
void bind(TensorClass& c, const char* name, Op op) {
  const auto run = [op](const Tensor& a, const Other& b) {
    return run_op(elements(a, b), [&] { return op(a, b); });
  };
  c.def(name, run, py::is_operator());
}
template <class Op>
void bind_both(TensorClass& c, const char* name, Op op) {
  bind<Tensor>(c, name, op);
  bind<Number>(c, name, op);
}

// Those that change the tensor and return it.
template <class Other, class Op>
void bind_in_place(TensorClass& c, const char* name, Op op) {
  const auto run = [op](Tensor& a, const Other& b) -> Tensor& {
    return run_op(elements(a, b), [&]() -> Tensor& { return op(a, b); });
  };
  c.def(name, run, py::is_operator(), py::return_value_policy::reference);
}
template <class Op>
void bind_both_in_place(TensorClass& c, const char* name, Op op) {
  bind_in_place<Tensor>(c, name, op);
  bind_in_place<Number>(c, name, op);
}

void bind_arithmetic(TensorClass& c) {
  bind_both(c, "__add__", [](auto& a, auto& b) { return a + b; });
  bind_both(c, "__sub__", [](auto& a, auto& b) { return a - b; });
  bind_both(c, "__mul__", [](auto& a, auto& b) { return a * b; });
  bind_both(c, "__truediv__", [](auto& a, auto& b) { return a / b; });
  bind_both(c, "__pow__", [](auto& a, auto& b) { return pow(a, b); });
  bind<Number>(c, "__radd__", [](auto& a, auto& b) { return b + a; });
  bind<Number>(c, "__rsub__", [](auto& a, auto& b) { return b - a; });
  bind<Number>(c, "__rmul__", [](auto& a, auto& b) { return b * a; });
  bind<Number>(c, "__rtruediv__", [](auto& a, auto& b) { return b / a; });
  bind<Number>(c, "__rpow__", [](auto& a, auto& b) { return pow(scalar_like(a, b), a); });
  bind<Tensor>(c, "__matmul__", [](auto& a, auto& b) { return matmul(a, b); });
  c.def("__neg__", [](const Tensor& a) { return run_op(elements(a), [&] { return neg(a); }); });
  c.def("__abs__", [](const Tensor& a) { return run_op(elements(a), [&] { return abs(a); }); });
}

// Python turns 1 < x into x > 1 by itself.
void bind_comparisons(TensorClass& c) {
  // Elements are compared, so that equality is none of objects.
  c.def("__hash__", &Tensor::id);
  bind_both(c, "__eq__", [](auto& a, auto& b) { return eq(a, b); });
  bind_both(c, "__ne__", [](auto& a, auto& b) { return ne(a, b); });
  bind_both(c, "__lt__", [](auto& a, auto& b) { return lt(a, b); });
  bind_both(c, "__le__", [](auto& a, auto& b) { return le(a, b); });
  bind_both(c, "__gt__", [](auto& a, auto& b) { return gt(a, b); });
  bind_both(c, "__ge__", [](auto& a, auto& b) { return ge(a, b); });
}

}  // namespace

void bind_operators(TensorClass& c) {
  bind_arithmetic(c);
  bind_comparisons(c);
  bind_both_in_place(c, "__iadd__", [](auto& a, auto& b) -> Tensor& { return a += b; });
  bind_both_in_place(c, "__isub__", [](auto& a, auto& b) -> Tensor& { return a -= b; });
  bind_both_in_place(c, "__imul__", [](auto& a, auto& b) -> Tensor& { return a *= b; });
  bind_both_in_place(c, "__itruediv__", [](auto& a, auto& b) -> Tensor& { return a /= b; });
  c.attr("__array_ufunc__") = py::none();  // NumPy's arrays leave x ∘ tensor to the tensor
}

}  // namespace tapegrad::python
