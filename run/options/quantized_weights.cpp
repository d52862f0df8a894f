#include "tapegrad/run/options/quantized_weights.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/base/error.h"

namespace tapegrad::run {

std::vector<std::string> quantized_weights() {
  std::vector<std::string> names = {std::string(kStored)};
  constexpr std::int64_t kAnyRow = 256;  // of whole blocks
  for (const StoredType& type : stored_types()) {
    const bool packs = QuantizedMatrix::can_quantize(type, kAnyRow) && type.from_f32 != nullptr;
    if (packs) names.emplace_back(type.name);
  }
  return names;
}

const StoredType* quantized_type(std::string_view weights) {
  const auto names = quantized_weights();
  check(std::find(names.begin(), names.end(), weights) != names.end(),
        "weights cannot be kept as '{}', only as {}", weights, fmt::join(names, ", "));
  return weights == kStored ? nullptr : &stored_type(weights);
}

void quantize(const nn::Params& params, std::string_view weights) {
  params.quantize(quantized_type(weights));
}

}  // namespace tapegrad::run
