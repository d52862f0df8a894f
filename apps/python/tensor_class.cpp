// The class Tensor: what generate_ops.py does not read from tensor.h, in a form for Python.

#include <memory>
#include <string>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/tensor/tracked.h"

namespace tapegrad::python {
namespace {

py::object item(const Tensor& t) {
  const double value = t.item();
  if (t.dtype() == DType::boolean) return py::bool_(value != 0);
  if (t.dtype() == DType::i64) return py::int_(t.data<std::int64_t>()[0]);
  if (is_float(t.dtype())) return py::float_(value);
  return py::int_(static_cast<std::int64_t>(value));
}

bool truth(const Tensor& t) {
  check(t.numel() == 1,
        "a tensor of shape {} is neither true nor false: ask for allclose(), or for item() of a "
        "sum",
        t.shape());
  return t.item() != 0;
}

std::uintptr_t address(const Tensor& t) {
  return dispatch_all(t.dtype(), [&](auto zero) {
    return reinterpret_cast<std::uintptr_t>(t.data<decltype(zero)>());
  });
}

// A tensor on memory that `owner` keeps.
Tensor from_address(std::uintptr_t data, const Shape& shape, DType dtype, const py::object& owner) {
  return Tensor::from_blob(reinterpret_cast<void*>(data), shape, dtype, kept(owner));
}

}  // namespace

TensorClass bind_tensor(py::module_& m) {
  TensorClass c(
      m, "Tensor",
      "A handle on shared, contiguous data: numbers of one dtype in a shape. Made by tensor(), "
      "from_numpy(), zeros() and the like, and by ops.");
  c.def("__repr__", [](const Tensor& t) { return to_string(t); })
      .def("__hash__", &Tensor::id)  // == compares elements, so that equality is none of objects
      .def("__float__", &Tensor::item)
      .def("__bool__", &truth)
      .def("item", &item, "The only element, as a number. Error unless there is exactly one.")
      .def("_address", &address)
      .def_property(
          "requires_grad", &Tensor::requires_grad,
          [](Tensor& t, bool on) { t.set_requires_grad(on); },
          "True for a parameter: every tape tracks it, and backward gives it a grad.")
      .def_property(
          "grad", [](const Tensor& t) { return or_none(t.grad()); },
          [](Tensor& t, const Tensor* grad) { t.set_grad(or_undefined(grad)); },
          "The sum of the gradients so far, or None.");
  c.attr("__array_ufunc__") = py::none();  // NumPy's arrays leave x ∘ tensor to the tensor
  m.def("_from_address", &from_address);
  m.def("_check_untracked",
        [](const std::string& function, const Tensor& t) { check_untracked(function, "x", t); });
  return c;
}

}  // namespace tapegrad::python
