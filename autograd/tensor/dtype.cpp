#include "tapegrad/autograd/tensor/dtype.h"

#include <algorithm>
#include <array>

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

}  // namespace tapegrad
