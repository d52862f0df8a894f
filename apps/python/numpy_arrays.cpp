// Tensors from arrays of NumPy's and back.

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/python/internal/op_support.h"
#include "tapegrad/autograd/tensor/tracked.h"

namespace tapegrad::python {
namespace {

py::dtype numpy_dtype(DType dtype) {
  return dispatch_all(dtype, [](auto zero) { return py::dtype::of<decltype(zero)>(); });
}

std::string text_of(const py::object& object) { return py::cast<std::string>(py::str(object)); }

// Error for those that tensors do not have.
DType dtype_of_array(std::string_view function, const py::array& a) {
  for (const DType d :
       {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    if (a.dtype().equal(numpy_dtype(d))) return d;
  }
  fail(
      "[{}] an array of {} becomes no tensor: float32, float64, int32, int64, uint8 and bool do, "
      "in "
      "this machine's byte order; convert with astype()",
      function, text_of(a.dtype()));
}

// Of a contiguous array of bool: an element that is a view of another dtype may have any bits.
void check_bits(std::string_view function, DType dtype, const py::array& a) {
  const auto* const bytes = static_cast<const std::uint8_t*>(a.data());
  check(dtype != DType::boolean ||
            std::all_of(bytes, bytes + a.size(), [](std::uint8_t byte) { return byte <= 1; }),
        "[{}] an element of bool has another byte than 0 and 1: convert with astype(), not with "
        "view()",
        function);
}

Shape shape_of(const py::array& a) {
  return Shape(std::span<const std::int64_t>(a.shape(), static_cast<std::size_t>(a.ndim())));
}

// Keeps the array. It may be let go of in a thread without the GIL, or after Python's end.
std::shared_ptr<void> keeper_of(const py::array& a) {
  a.inc_ref();
  return {a.ptr(), [](void* array) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire locked;
            Py_DECREF(static_cast<PyObject*>(array));
          }};
}

Tensor from_numpy(const py::array& a) {
  const DType dtype = dtype_of_array("from_numpy", a);
  constexpr std::string_view kCopy = "tensor() copies it";
  check(
      a.writeable(),
      "[from_numpy] the array is read-only, and the tensor that shared its memory would not be: {}",
      kCopy);
  check((a.flags() & py::array::c_style) != 0,
        "[from_numpy] the array of shape {} is not contiguous in C's order, as tensors are: {}",
        shape_of(a), kCopy);
  check_bits("from_numpy", dtype, a);
  return Tensor::from_blob(py::array(a).mutable_data(), shape_of(a), dtype, keeper_of(a));
}

// What NumPy makes of nested lists, numbers and whatever has __array__.
py::array read_array(const py::object& data, bool& is_array) {
  const py::module_ numpy = py::module_::import("numpy");
  is_array = py::isinstance<py::array>(data) || py::isinstance(data, numpy.attr("generic"));
  const py::object a = numpy.attr("asarray")(data);
  check(!a.attr("dtype").attr("hasobject").cast<bool>(),
        "[tensor] lists of different lengths, or of what are no numbers, make no tensor");
  return numpy.attr("require")(a, py::none(), "CA").attr("reshape")(a.attr("shape"));
}

Tensor copied(const py::array& a) {
  const DType dtype = dtype_of_array("tensor", a);
  check_bits("tensor", dtype, a);
  return dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::span values(static_cast<const T*>(a.data()), static_cast<std::size_t>(a.size()));
    return Tensor::from(values, shape_of(a));
  });
}

Tensor tensor(const py::object& data, std::optional<DType> dtype, bool requires_grad) {
  Tensor t;
  if (py::isinstance<Tensor>(data)) {
    t = py::cast<Tensor>(data);
    check_untracked("tensor", "data", t);
    t = t.detach().clone();
  } else {
    bool is_array = false;
    t = copied(read_array(data, is_array));
    // Python's floats become f32, as in PyTorch. Arrays keep their dtype.
    if (!dtype && !is_array && t.dtype() == DType::f64) dtype = DType::f32;
  }
  if (dtype && *dtype != t.dtype()) t = t.to(*dtype);
  return requires_grad ? t.set_requires_grad() : t;
}

py::object checked_view(const Tensor& t) {
  check_untracked("numpy", "x", t);
  return array_view(t);
}

// As NumPy 2 asks for it: `copy` is True, None (if needed) or False (never).
py::object as_array(const Tensor& t, const py::object& dtype, const std::optional<bool>& copy) {
  const py::object array = checked_view(t);
  const bool is_same = dtype.is_none() || py::dtype::from_args(dtype).equal(array.attr("dtype"));
  if (is_same) return copy.value_or(false) ? array.attr("copy")() : array;
  if (copy == false) throw py::value_error("an array of another dtype is a copy");
  return array.attr("astype")(dtype);
}

// For pickle and copy, which find functions of a Python file alone.
py::tuple reduced(const Tensor& t) {
  const py::object make = py::module_::import("tapegrad").attr("_unpickled");
  return py::make_tuple(make, py::make_tuple(checked_view(t), t.requires_grad()));
}

}  // namespace

py::object array_view(const Tensor& t) {
  return dispatch_all(t.dtype(), [&](auto zero) -> py::object {
    const std::vector<py::ssize_t> shape(t.shape().begin(), t.shape().end());
    py::array a(numpy_dtype(t.dtype()), shape, t.data<decltype(zero)>(), py::cast(t));
    a.attr("flags").attr("writeable") = false;
    return a;
  });
}

void bind_numpy(py::module_& m, TensorClass& c) {
  m.def(
      "from_numpy", &from_numpy, py::arg("array"),
      "A tensor that shares the array's memory and keeps it alive. Writing to the array changes "
      "the "
      "tensor; a tape does not notice. Error for an array that is read-only, not contiguous, or of "
      "another dtype: tensor() copies.");
  m.def("tensor", &tensor, py::arg("data"), py::arg("dtype") = py::none(),
        py::arg("requires_grad") = false,
        "A tensor of a number, nested lists, or an array of NumPy's, copied. Floats of Python's "
        "become "
        "f32, whole numbers i64; arrays keep their dtype.");
  c.def(
      "numpy", &checked_view,
      "The elements as an array of NumPy's that shares the memory, keeps the tensor alive, and is "
      "read-only, since a tape would not notice a change. Error for a tensor that a live tape "
      "tracks: detach() it.");
  c.def("__array__", &as_array, py::arg("dtype") = py::none(), py::arg("copy") = py::none());
  c.def("__reduce__", &reduced);
  c.def(
      "tolist", [](const Tensor& t) { return array_view(t).attr("tolist")(); },
      "The elements as nested lists, or one number.");
}

}  // namespace tapegrad::python
