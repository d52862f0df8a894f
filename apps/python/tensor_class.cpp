// The class Tensor: what C++'s has, by the same names.

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"

namespace tapegrad::python {
namespace {

void bind_properties(TensorClass& c) {
  c.def_property_readonly("shape", [](const Tensor& t) { return t.shape(); })
      .def_property_readonly("dtype", &Tensor::dtype)
      .def_property_readonly("ndim", &Tensor::rank, "The number of dimensions.")
      .def_property_readonly("nbytes", &Tensor::bytes)
      .def("dim", &Tensor::rank, "The number of dimensions, as in PyTorch.")
      .def("numel", &Tensor::numel, "The number of elements.")
      .def("id", &Tensor::id, "Tells tensors apart. Newer tensors have larger ids.")
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0) throw py::type_error("a tensor without dimensions has no length");
             return t.shape()[0];
           })
      .def("__repr__", [](const Tensor& t) { return to_string(t); });
}

void bind_values(TensorClass& c) {
  c.def(
       "item",
       [](const Tensor& t) -> py::object {
         const double value = t.item();
         if (t.dtype() == DType::boolean) return py::bool_(value != 0);
         if (t.dtype() == DType::i64) return py::int_(t.data<std::int64_t>()[0]);
         if (is_float(t.dtype())) return py::float_(value);
         return py::int_(static_cast<std::int64_t>(value));
       },
       "The only element, as a number. Error unless there is exactly one.")
      .def("__float__", &Tensor::item)
      .def("__bool__", [](const Tensor& t) {
        check(
            t.numel() == 1,
            "a tensor of shape {} is neither true nor false: ask for allclose(), or for item() of "
            "a sum",
            t.shape());
        return t.item() != 0;
      });
}

void bind_members(TensorClass& c) {
  c.def("detach", &Tensor::detach,
        "A tensor on the same data that no tape tracks: gradients end here.")
      .def(
          "clone", [](const Tensor& t) { return run_op(elements(t), [&] { return t.clone(); }); },
          "A copy, through which gradients flow.")
      .def(
          "to",
          [](const Tensor& t, DType dtype) {
            return run_op(elements(t), [&] { return t.to(dtype); });
          },
          py::arg("dtype"), "Converted. Floats that do not fit a whole number are an Error.")
      .def(
          "view", [](const Tensor& t, const Shape& shape) { return t.view(shape); },
          py::arg("shape"), "The same data under another shape; one size may be -1.")
      .def("rows", &Tensor::rows, py::arg("begin"), py::arg("end"),
           "Rows [begin, end) of the first dimension, sharing the data.")
      .def("allclose", &Tensor::allclose, py::arg("other"), py::arg("rtol") = 1e-5,
           py::arg("atol") = 1e-8, py::arg("equal_nan") = false);
}

void bind_gradients(TensorClass& c) {
  c.def_property(
       "requires_grad", &Tensor::requires_grad, [](Tensor& t, bool on) { t.set_requires_grad(on); },
       "True for a parameter: every tape tracks it, and backward gives it a grad.")
      .def("set_requires_grad", &Tensor::set_requires_grad, py::arg("on") = true,
           py::return_value_policy::reference)
      .def_property(
          "grad", [](const Tensor& t) { return or_none(t.grad()); },
          [](Tensor& t, const Tensor* grad) { t.set_grad(or_undefined(grad)); },
          "The sum of the gradients so far, or None.")
      .def("zero_grad", &Tensor::zero_grad, "Forgets the gradient.");
}

}  // namespace

TensorClass bind_tensor(py::module_& m) {
  TensorClass c(
      m, "Tensor",
      "A handle on shared, contiguous data: numbers of one dtype in a shape. Made by tensor(), "
      "from_numpy(), zeros() and the like, and by ops.");
  bind_properties(c);
  bind_values(c);
  bind_members(c);
  bind_gradients(c);
  return c;
}

}  // namespace tapegrad::python
