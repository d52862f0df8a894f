#pragma once

// How arguments in Python become those of ops. Each type below has one row in pybind11's tables of
// conversions, and the text that signatures show for it.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::python {

namespace py = pybind11;

// What pybind11 makes of an object; nothing if it makes no T of it.
template <class T>
std::optional<T> converted(py::handle from, bool convert) {
  py::detail::make_caster<T> caster;
  if (!caster.load(from, convert)) return std::nullopt;
  return py::detail::cast_op<T>(std::move(caster));
}

// A number: float, int, or a scalar of NumPy's. pybind11's own double takes whatever has
// __float__, a tensor included, whose gradient would end there in silence.
struct Number {
  double value = 0;
  operator double() const { return value; }
};
bool read_number(py::handle from, Number& to);

// An object of Python's that C++ keeps: it may be let go of in a thread without the GIL, or after
// Python's end.
std::shared_ptr<PyObject> kept(py::handle object);

// A function of Python's, which may be called, copied and let go of without the GIL. What it raises
// leaves C++ as it is.
class Callable {
 public:
  Callable() = default;
  explicit Callable(py::handle function) : function_(kept(function)) {}
  py::handle handle() const { return function_.get(); }  // for who has the GIL

 private:
  std::shared_ptr<PyObject> function_;
};
// What a function has returned. TypeError unless it is a tensor.
Tensor returned_tensor(py::handle value);

// Dimensions: one, or several.
struct Dims : std::vector<int> {
  using std::vector<int>::vector;
};

// Tensors with names: a dict, a list, or what has parameters(), as a layer.
struct Parameters : NamedTensors {};
void read_parameters(py::handle from, Parameters& to);

// A number for each dimension of an image: (height, width), or one for both.
template <class T>
struct Pair {
  T h{}, w{};
};

}  // namespace tapegrad::python

namespace pybind11::detail {

template <>
struct type_caster<tapegrad::python::Number> {
  PYBIND11_TYPE_CASTER(tapegrad::python::Number, const_name("float"));
  bool load(handle from, bool) { return tapegrad::python::read_number(from, value); }
  static handle cast(double number, return_value_policy, handle) {
    return PyFloat_FromDouble(number);
  }
};

template <>
struct type_caster<tapegrad::python::Callable> {
  PYBIND11_TYPE_CASTER(tapegrad::python::Callable, const_name("Callable"));
  bool load(handle from, bool) {
    if (PyCallable_Check(from.ptr()) == 0) return false;
    value = tapegrad::python::Callable(from);
    return true;
  }
};

template <>
struct type_caster<tapegrad::Shape> {
  PYBIND11_TYPE_CASTER(tapegrad::Shape, const_name("Sequence[int]"));
  bool load(handle from, bool) {
    const auto sizes = tapegrad::python::converted<std::vector<std::int64_t>>(from, true);
    if (sizes) value = tapegrad::Shape(std::span<const std::int64_t>(*sizes));
    return sizes.has_value();
  }
  static handle cast(const tapegrad::Shape& shape, return_value_policy, handle) {
    tuple sizes(static_cast<std::size_t>(shape.rank()));
    for (int i = 0; i < shape.rank(); ++i) sizes[static_cast<std::size_t>(i)] = int_(shape[i]);
    return sizes.release();
  }
};

template <>
struct type_caster<tapegrad::python::Dims> {
  PYBIND11_TYPE_CASTER(tapegrad::python::Dims, const_name("int | Sequence[int]"));
  bool load(handle from, bool convert) {
    using Several = std::vector<int>;
    const auto one = tapegrad::python::converted<int>(from, convert);
    const auto all = one ? Several{*one} : tapegrad::python::converted<Several>(from, convert);
    if (all) static_cast<Several&>(value) = *all;
    return all.has_value();
  }
  static handle cast(const tapegrad::python::Dims& dims, return_value_policy, handle) {
    return pybind11::cast(static_cast<const std::vector<int>&>(dims)).release();
  }
};

template <>
struct type_caster<tapegrad::python::Parameters> {
  PYBIND11_TYPE_CASTER(tapegrad::python::Parameters, const_name("dict[str, Tensor]"));
  bool load(handle from, bool) {
    try {
      tapegrad::python::read_parameters(from, value);
    } catch (const cast_error&) {
      return false;
    }
    return true;
  }
  static handle cast(const tapegrad::python::Parameters& all, return_value_policy, handle) {
    dict named;
    for (const auto& [name, tensor] : all) named[str(name)] = tensor;
    return named.release();
  }
};

template <class T>
struct type_caster<tapegrad::python::Pair<T>> {
  using Pair = tapegrad::python::Pair<T>;
  PYBIND11_TYPE_CASTER(Pair, make_caster<T>::name + const_name(" | tuple[") + make_caster<T>::name +
                                 const_name(", ") + make_caster<T>::name + const_name("]"));
  bool load(handle from, bool convert) {
    using Two = std::pair<T, T>;
    const auto both = tapegrad::python::converted<T>(from, convert);
    const auto two = both ? Two(*both, *both) : tapegrad::python::converted<Two>(from, convert);
    if (two) value = {two->first, two->second};
    return two.has_value();
  }
  static handle cast(const Pair& pair, return_value_policy, handle) {
    return make_tuple(pair.h, pair.w).release();
  }
};

}  // namespace pybind11::detail
