// Operators between tensors, and between a tensor and a number on either side. They broadcast.

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/ops.h"

namespace tapegrad::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

// x ∘ y, x ∘ number and number ∘ x: a number is a scalar of x's dtype, as in C++.
template <Binary op>
void bind_binary(TensorClass& c, const char* name, const char* reversed) {
  c.def(
      name,
      [](const Tensor& a, const Tensor& b) {
        return run_op(elements(a, b), [&] { return op(a, b); });
      },
      py::is_operator());
  c.def(
      name,
      [](const Tensor& a, Number b) {
        return run_op(elements(a), [&] { return op(a, scalar_like(a, b)); });
      },
      py::is_operator());
  c.def(
      reversed,
      [](const Tensor& a, Number b) {
        return run_op(elements(a), [&] { return op(scalar_like(a, b), a); });
      },
      py::is_operator());
}

using Comparison = Tensor (*)(const Tensor&, double);

// Python turns 1 < x into x > 1 by itself.
template <Binary op, Comparison with_number>
void bind_comparison(TensorClass& c, const char* name) {
  c.def(
      name,
      [](const Tensor& a, const Tensor& b) {
        return run_op(elements(a, b), [&] { return op(a, b); });
      },
      py::is_operator());
  c.def(
      name,
      [](const Tensor& a, Number b) {
        return run_op(elements(a), [&] { return with_number(a, b); });
      },
      py::is_operator());
}

template <Tensor& (*op)(Tensor&, const Tensor&)>
void bind_in_place(TensorClass& c, const char* name) {
  constexpr auto kSame = py::return_value_policy::reference;
  c.def(
      name,
      [](Tensor& a, const Tensor& b) -> Tensor& {
        return run_op(elements(a, b), [&]() -> Tensor& { return op(a, b); });
      },
      py::is_operator(), kSame);
  c.def(
      name,
      [](Tensor& a, Number b) -> Tensor& {
        return run_op(elements(a), [&]() -> Tensor& { return op(a, scalar_like(a, b)); });
      },
      py::is_operator(), kSame);
}

// & | ^ ~ of whole numbers mean their bits, for which there is no op.
void check_truths(const Tensor& t) {
  check(t.dtype() == DType::boolean,
        "&, | and ~ take tensors of bool, not of {}: use logical_and, logical_or, logical_not",
        name_of(t.dtype()));
}

template <Binary op>
void bind_logical(TensorClass& c, const char* name) {
  c.def(
      name,
      [](const Tensor& a, const Tensor& b) {
        check_truths(a);
        check_truths(b);
        return run_op(elements(a, b), [&] { return op(a, b); });
      },
      py::is_operator());
}

}  // namespace

void bind_operators(TensorClass& c) {
  // Tensors compare element by element, so that equality is none of objects.
  c.def("__hash__", &Tensor::id);
  bind_binary<add>(c, "__add__", "__radd__");
  bind_binary<sub>(c, "__sub__", "__rsub__");
  bind_binary<mul>(c, "__mul__", "__rmul__");
  bind_binary<div>(c, "__truediv__", "__rtruediv__");
  c.def(
      "__pow__",
      [](const Tensor& a, const Tensor& b) {
        return run_op(elements(a, b), [&] { return pow(a, b); });
      },
      py::is_operator());
  c.def(
      "__pow__",
      [](const Tensor& a, Number b) { return run_op(elements(a), [&] { return pow(a, b); }); },
      py::is_operator());
  c.def(
      "__rpow__",
      [](const Tensor& a, Number b) {
        return run_op(elements(a), [&] { return pow(scalar_like(a, b), a); });
      },
      py::is_operator());
  c.def(
      "__matmul__",
      [](const Tensor& a, const Tensor& b) {
        return run_op(elements(a, b), [&] { return matmul(a, b); });
      },
      py::is_operator());
  c.def("__neg__", [](const Tensor& a) { return run_op(elements(a), [&] { return neg(a); }); });
  c.def("__abs__", [](const Tensor& a) { return run_op(elements(a), [&] { return abs(a); }); });
  bind_comparison<eq, eq>(c, "__eq__");
  bind_comparison<ne, ne>(c, "__ne__");
  bind_comparison<lt, lt>(c, "__lt__");
  bind_comparison<le, le>(c, "__le__");
  bind_comparison<gt, gt>(c, "__gt__");
  bind_comparison<ge, ge>(c, "__ge__");
  bind_in_place < operator+=>(c, "__iadd__");
  bind_in_place < operator-=>(c, "__isub__");
  bind_in_place < operator*=>(c, "__imul__");
  bind_in_place < operator/=>(c, "__itruediv__");
  bind_logical<logical_and>(c, "__and__");
  bind_logical<logical_or>(c, "__or__");
  c.def("__invert__", [](const Tensor& a) {
    check_truths(a);
    return run_op(elements(a), [&] { return logical_not(a); });
  });
  c.attr("__array_ufunc__") = py::none();  // NumPy's arrays leave x ∘ tensor to the tensor
}

}  // namespace tapegrad::python
