#include "tapegrad/apps/python/internal/casters.h"

namespace tapegrad::python {
namespace {

// A number as NumPy has it, such as float32(2). None where NumPy is not loaded: then there is none.
bool is_numpy_scalar(py::handle object) {
  const auto modules = py::reinterpret_borrow<py::dict>(PyImport_GetModuleDict());
  if (!modules.contains("numpy")) return false;
  const py::object numpy = modules["numpy"];
  return py::hasattr(numpy, "number") && py::isinstance(object, numpy.attr("number")) &&
         !py::isinstance(object, numpy.attr("complexfloating"));
}

}  // namespace

bool read_number(py::handle from, Number& to) {
  if (PyFloat_Check(from.ptr()) == 0 && PyLong_Check(from.ptr()) == 0 && !is_numpy_scalar(from)) {
    return false;
  }
  to.value = PyFloat_AsDouble(from.ptr());
  if (to.value == -1 && PyErr_Occurred() != nullptr) {  // a whole number beyond double
    PyErr_Clear();
    return false;
  }
  return true;
}

}  // namespace tapegrad::python
