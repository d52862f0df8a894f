#pragma once

// How arguments in Python become those of ops. Each type below has one row in pybind11's tables of
// conversions, and the text that signatures show for it.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::python {

namespace py = pybind11;

// A number: float, int, or a scalar of NumPy's. pybind11's own double takes whatever has
// __float__, a tensor included, whose gradient would end there in silence.
struct Number {
  double value = 0;
  operator double() const { return value; }
};
bool read_number(py::handle from, Number& to);

// Dimensions: one, or several.
struct Dims : std::vector<int> {
  using std::vector<int>::vector;
};

// The whole numbers of a list or tuple. False for anything else, and for a number outside of int64.
bool read_sizes(py::handle from, std::vector<std::int64_t>& to);

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
struct type_caster<tapegrad::Shape> {
  PYBIND11_TYPE_CASTER(tapegrad::Shape, const_name("Sequence[int]"));
  bool load(handle from, bool) {
    std::vector<std::int64_t> sizes;
    if (!tapegrad::python::read_sizes(from, sizes)) return false;
    value = tapegrad::Shape(std::span<const std::int64_t>(sizes));
    return true;
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
    make_caster<int> one;
    if (one.load(from, convert)) {
      value = {cast_op<int>(one)};
      return true;
    }
    make_caster<std::vector<int>> several;
    if (!several.load(from, convert)) return false;
    static_cast<std::vector<int>&>(value) = cast_op<std::vector<int>&>(several);
    return true;
  }
  static handle cast(const tapegrad::python::Dims& dims, return_value_policy, handle) {
    return pybind11::cast(static_cast<const std::vector<int>&>(dims)).release();
  }
};

// A number for both dimensions of an image, or (height, width).
template <class Pair, class Part>
bool read_pair(handle from, bool convert, Pair& to) {
  make_caster<Part> both;
  if (both.load(from, convert)) {
    to = Pair(cast_op<Part&>(both));
    return true;
  }
  make_caster<std::pair<Part, Part>> parts;
  if (!parts.load(from, convert)) return false;
  const auto pair = cast_op<std::pair<Part, Part>>(parts);
  to = Pair(pair.first, pair.second);
  return true;
}
template <>
struct type_caster<tapegrad::Size2d> {
  PYBIND11_TYPE_CASTER(tapegrad::Size2d, const_name("int | tuple[int, int]"));
  bool load(handle from, bool convert) {
    return read_pair<tapegrad::Size2d, std::int64_t>(from, convert, value);
  }
  static handle cast(const tapegrad::Size2d& size, return_value_policy, handle) {
    return make_tuple(size.h, size.w).release();
  }
};

// Scale2d has no default, which PYBIND11_TYPE_CASTER needs.
template <>
struct type_caster<tapegrad::Scale2d> {
  static constexpr auto name = const_name("float | tuple[float, float]");
  template <class>
  using cast_op_type = tapegrad::Scale2d;
  bool load(handle from, bool convert) {
    return read_pair<tapegrad::Scale2d, tapegrad::python::Number>(from, convert, value);
  }
  operator tapegrad::Scale2d() const { return value; }

 private:
  tapegrad::Scale2d value{1};
};

}  // namespace pybind11::detail
