#include "tapegrad/apps/serve/models/model_plan.h"

#include <algorithm>

#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/run/options/quantized_weights.h"

namespace tapegrad::serve {
namespace {

constexpr std::uint64_t kShare = 4;  // of these, keys and values of a model get one

struct WeightBytes {
  std::uint64_t all = 0, matrices = 0, elements = 0;  // elements: of the matrices
};

// As nn::Params::quantize() keeps them.
WeightBytes bytes_of_weights(const run::OpenedModel& opened, const StoredType* as) {
  WeightBytes bytes;
  const StoredType& f32 = stored_type(DType::f32);
  for (const auto& [name, entry] : (opened.parts ? opened.parts : opened.weights)->entries()) {
    const bool is_matrix = entry.shape.rank() >= 2;  // or one of each expert
    const StoredType* type = is_matrix && as != nullptr ? as : entry.type;
    const bool keeps_type =
        is_matrix && type != nullptr &&
        QuantizedMatrix::can_quantize(*type, entry.shape[entry.shape.rank() - 1]);
    const std::uint64_t taken = stored_bytes(keeps_type ? *type : f32, entry.shape).value_or(0);
    bytes.all += taken;
    if (!is_matrix) continue;
    bytes.matrices += taken;
    bytes.elements += static_cast<std::uint64_t>(entry.shape.numel());
  }
  return bytes;
}

std::uint64_t bytes_of_caches(const nn::DecoderConfig& config, const ServerBounds& bounds,
                              std::uint64_t left) {
  const auto position =
      static_cast<std::uint64_t>(nn::cache_bytes_per_position(config, *bounds.cache));
  const std::int64_t tokens = std::min(bounds.ctx.value_or(config.block_size), config.block_size);
  const auto bytes = [&](std::int64_t length) {
    return static_cast<std::uint64_t>(nn::cached_positions(length, config)) * position;
  };
  const std::uint64_t text = bytes(tokens);
  const std::uint64_t most = text * static_cast<std::uint64_t>(bounds.max_sequences);
  if (bounds.cache_bytes) return std::min(most, *bounds.cache_bytes);
  const std::uint64_t share = std::min({most, std::max(text, left / kShare), left});
  return std::max(share, bytes(2));
}

}  // namespace

ModelPlan plan_model(const run::OpenedModel& opened, std::string_view weights, ServerBounds bounds,
                     std::uint64_t memory) {
  const WeightBytes bytes = bytes_of_weights(opened, run::quantized_type(weights));
  // As nn::usual_cache() has it.
  const bool is_short = bytes.matrices < 3 * bytes.elements;
  if (!bounds.cache) bounds.cache = is_short ? CacheType::f16 : CacheType::f32;
  const std::uint64_t left = memory - std::min(memory, bytes.all);
  bounds.cache_bytes = bytes_of_caches(opened.config, bounds, left);
  return {bytes.all, *bounds.cache_bytes, plan_engine(opened.config, bounds)};
}

}  // namespace tapegrad::serve
