#include "tapegrad/run/plan/assumed_step.h"

namespace tapegrad::run {

StepParts assumed_step(const StepWork& work, double rate, int threads) {
  constexpr double operations_per_byte = 16, element = sizeof(float);
  const double bytes_per_second = rate / operations_per_byte;
  StepParts parts{.forward = work.forward / rate,
                  .backward = work.backward / rate,
                  .sizes = work.sizes,
                  .completed = std::vector<double>(work.sizes.size()),
                  .units = work.units,
                  .threads = threads};
  double elements = 0;
  for (const std::int64_t size : work.sizes) elements += static_cast<double>(size);
  parts.norm = element * elements / bytes_per_second;
  // Gradients are read, weights and what is kept are read and written.
  parts.update = (3 * element * elements + 2 * work.kept) / bytes_per_second;
  double done = 0;
  for (std::size_t p = work.sizes.size(); p-- > 0;) {
    done += static_cast<double>(work.sizes[p]);
    parts.completed[p] = parts.backward * done / elements;
  }
  return parts;
}

}  // namespace tapegrad::run
