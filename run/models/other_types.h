#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tapegrad/autograd/tensor/stored_type.h"

namespace tapegrad::run {

// How many matrices have each type.
using TypeCounts = std::map<const StoredType*, std::int64_t>;

// The matrices that are not stored as `asked`, whose blocks do not fill their rows: "8 of 28
// matrices have rows that are no multiple of 256, and are not q4_k: 6 are q5_0, 2 are f16". Empty
// if there are none.
std::string other_types(const StoredType& asked, const TypeCounts& matrices);

}  // namespace tapegrad::run
