#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tapegrad/base/error.h"

namespace tapegrad {

// Differentiable ops work in f32 and f64. i32 and i64 hold token ids, indices and counts; boolean
// and u8 hold masks. Ops that need no gradient work in all of them: those that move elements,
// compare, sum and sort, and +, − and ×.
//
// An element of `boolean`, whose name is "bool", is one byte of 0 or 1.
enum class DType : std::uint8_t { f32, f64, i32, u8, i64, boolean };

inline std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::i64:
      return "i64";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

inline std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f64:
      return 8;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
    case DType::i64:
      return 8;
    case DType::boolean:
      return 1;
  }
  return 0;
}

inline bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
// True for what may stand as a condition: an element that is not 0 is true.
inline bool is_mask(DType dtype) { return dtype == DType::boolean || dtype == DType::u8; }

template <class T>
constexpr DType dtype_of() = delete;
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}

// The dtype in which a and b meet, by PyTorch's table for integers and truth values: the later one
// of bool, u8, i32 and i64. Floats meet only their own dtype: nothing is converted that a tape
// might track. Error for other pairs, naming the op and the remedy.
DType promoted(std::string_view op, DType a, DType b);

// True if the dtype has a number for `value`, cut to a whole one for integers. Of f32, infinities
// and NaN are numbers, and what would be rounded to an infinity is none; bool takes all, since what
// is not 0 is true.
bool holds(DType dtype, double value);
// Error, naming the op, the value and the dtype, unless it holds the value.
void check_holds(std::string_view op, DType dtype, double value);
// `value`, which a caller gave as an element, as a T, after check_holds(). Results are rounded.
template <class T>
T number_as(std::string_view op, double value) {
  check_holds(op, dtype_of<T>(), value);
  return static_cast<T>(value);
}

// Calls f(float{}) or f(double{}): `dispatch(x.dtype(), [&](auto t) { using T = decltype(t); … })`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  check(is_float(dtype), "this op works in f32 and f64, not in {}", name_of(dtype));
  if (dtype == DType::f64) return f(double{});
  return f(float{});
}

// The same for a value of the C++ type of any dtype.
template <class F>
decltype(auto) dispatch_all(DType dtype, F&& f) {
  if (dtype == DType::i32) return f(std::int32_t{});
  if (dtype == DType::u8) return f(std::uint8_t{});
  if (dtype == DType::i64) return f(std::int64_t{});
  if (dtype == DType::boolean) return f(bool{});
  return dispatch(dtype, f);
}

}  // namespace tapegrad
