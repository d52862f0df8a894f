#include "tapegrad/apps/python/internal/casters.h"

#include <string>

#include "tapegrad/apps/python/internal/bindings.h"

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

py::object text_of_bytes(const std::string& bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

std::shared_ptr<PyObject> kept(py::handle object) {
  return {object.inc_ref().ptr(), [](PyObject* let_go) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire locked;
            Py_DECREF(let_go);
          }};
}

Tensor returned_tensor(py::handle value) {
  if (!py::isinstance<Tensor>(value)) {
    throw py::type_error("a function must return a Tensor here, and returned " +
                         py::cast<std::string>(py::str(value.get_type().attr("__name__"))));
  }
  return value.cast<Tensor>();
}

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

void read_parameters(py::handle from, Parameters& to) {
  const auto given = py::reinterpret_borrow<py::object>(from);
  const py::object all = py::hasattr(given, "parameters") ? given.attr("parameters")() : given;
  if (!py::isinstance<py::iterable>(all) || py::isinstance<Tensor>(all)) {
    throw py::cast_error("no parameters");
  }
  const bool is_dict = py::isinstance<py::dict>(all);
  for (const py::handle part : all) {
    const std::string place = std::to_string(to.size());
    to.emplace_back(is_dict ? part.cast<std::string>() : place,
                    (is_dict ? py::object(all[part]) : py::reinterpret_borrow<py::object>(part))
                        .cast<Tensor>());
  }
}

}  // namespace tapegrad::python
