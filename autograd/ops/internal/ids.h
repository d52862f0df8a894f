#pragma once

#include <cstdint>
#include <limits>
#include <optional>
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

// The row that padding_idx means: negative ones count from the end. Error if there is no such row.
inline std::optional<std::int64_t> padding_row(std::string_view op,
                                               std::optional<std::int64_t> padding_idx,
                                               std::int64_t rows) {
  if (!padding_idx) return {};
  check(*padding_idx >= -rows && *padding_idx < rows, "[{}] padding_idx {} is outside the {} rows",
        op, *padding_idx, rows);
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace tapegrad
