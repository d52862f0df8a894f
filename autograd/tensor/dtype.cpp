#include "tapegrad/autograd/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tapegrad {

DType promoted(std::string_view op, DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) {
    fail("[{}] dtypes differ: {} and {}; convert one of them, as in x.to(DType::{})", op,
         name_of(a), name_of(b), name_of(is_float(a) ? a : b));
  }
  check(!is_float(a), "[{}] dtypes differ: {} and {}", op, name_of(a), name_of(b));
  constexpr std::array kOrder{DType::boolean, DType::u8, DType::i32, DType::i64};
  const auto place = [&](DType dtype) { return std::find(kOrder.begin(), kOrder.end(), dtype); };
  return *std::max(place(a), place(b));
}

bool holds(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return !std::isfinite(value) || std::abs(value) < 0x1.ffffffp127;  // half an ulp on
    case DType::f64:
    case DType::boolean:
      return true;
    case DType::i32:
      return value > -0x1p31 - 1 && value < 0x1p31;
    case DType::i64:
      return value >= -0x1p63 && value < 0x1p63;
    case DType::u8:
      return value > -1 && value < 0x1p8;
  }
  return false;
}

void check_holds(std::string_view op, DType dtype, double value) {
  check(holds(dtype, value), "[{}] {} does not hold {}", op, name_of(dtype), value);
}

}  // namespace tapegrad
