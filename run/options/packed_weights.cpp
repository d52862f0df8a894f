#include "tapegrad/run/options/packed_weights.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/autograd/packed/packed_matrix.h"
#include "tapegrad/base/error.h"

namespace tapegrad::run {

std::vector<std::string> packed_weights() {
  std::vector<std::string> names = {std::string(kStored)};
  constexpr std::int64_t kAnyRow = 256;  // of whole blocks
  for (const StoredType& type : stored_types()) {
    const bool packs = PackedMatrix::can_pack(type, kAnyRow) && type.from_f32 != nullptr;
    if (packs) names.emplace_back(type.name);
  }
  return names;
}

const StoredType* packed_type(std::string_view weights) {
  const auto names = packed_weights();
  check(std::find(names.begin(), names.end(), weights) != names.end(),
        "weights cannot be kept as '{}', only as {}", weights, fmt::join(names, ", "));
  return weights == kStored ? nullptr : &stored_type(weights);
}

}  // namespace tapegrad::run
