#include "tapegrad/run/models/other_types.h"

#include <fmt/format.h>

namespace tapegrad::run {

std::string other_types(const StoredType& asked, const TypeCounts& matrices) {
  std::int64_t all = 0, others = 0;
  std::string types;
  for (const auto& [type, count] : matrices) {
    all += count;
    if (type == &asked) continue;
    others += count;
    types += fmt::format("{}{} {} {}", types.empty() ? "" : ", ", count, count == 1 ? "is" : "are",
                         type->name);
  }
  if (others == 0) return {};
  return fmt::format("{} of {} matrices {} rows that are no multiple of {}, and {} not {}: {}",
                     others, all, others == 1 ? "has" : "have", asked.block,
                     others == 1 ? "is" : "are", asked.name, types);
}

}  // namespace tapegrad::run
