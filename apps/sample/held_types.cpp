#include "tapegrad/apps/sample/held_types.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/models/other_types.h"

namespace tapegrad::sampling {

std::string held_types(const TensorSource& weights) {
  std::map<const StoredType*, double> bytes;
  double elements = 0, all = 0;
  for (const auto& [name, entry] : weights.entries()) {
    if (entry.type == nullptr) continue;
    const auto size = static_cast<double>(stored_bytes(*entry.type, entry.shape).value_or(0));
    bytes[entry.type] += size, all += size;
    elements += static_cast<double>(entry.shape.numel());
  }
  const bool is_f32 = bytes.size() == 1 && bytes.begin()->first->is(DType::f32);
  if (all == 0 || is_f32) return "";
  std::vector<std::pair<double, std::string_view>> shares;
  for (const auto& [type, size] : bytes) shares.emplace_back(100 * size / all, type->name);
  std::sort(shares.rbegin(), shares.rend());
  std::vector<std::string> parts;
  for (const auto& [share, name] : shares) parts.push_back(fmt::format("{} {:.3g} %", name, share));
  return fmt::format("{}; {:.1f} bits a weight", fmt::join(parts, ", "), 8 * all / elements);
}

void note_other_types(const StoredType* asked, const nn::Params& params) {
  if (asked == nullptr) return;
  run::TypeCounts matrices;
  for (const auto& [name, matrix] : params.quantized_matrices()) ++matrices[&matrix->type()];
  const std::string others = run::other_types(*asked, matrices);
  if (!others.empty()) print_error(fmt::format("--weights {}: {}\n", asked->name, others));
}

}  // namespace tapegrad::sampling
