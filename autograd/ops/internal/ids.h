#pragma once

#include <limits>
#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// Ids or indices as i32, in which ops read them: t itself, or t converted from i64. Error, naming
// the op and `what` the ids are, for another dtype or for an id that i32 does not hold.
inline Tensor ids_as_i32(std::string_view op, std::string_view what, const Tensor& t) {
  if (t.dtype() == DType::i32) return t;
  check(t.dtype() == DType::i64, "[{}] {} must be i32 or i64, not {}", op, what,
        name_of(t.dtype()));
  for (const std::int64_t id : t.values<std::int64_t>()) {
    check(id == static_cast<std::int32_t>(id), "[{}] {} may be up to {}, not {}", op, what,
          std::numeric_limits<std::int32_t>::max(), id);
  }
  return t.to(DType::i32);
}

}  // namespace tapegrad
