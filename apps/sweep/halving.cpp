#include "tapegrad/apps/sweep/halving.h"

#include <algorithm>
#include <cmath>

namespace tapegrad::sweep {

std::vector<Rung> halving_rungs(std::size_t runs, std::int64_t steps, int eta) {
  const auto factor = static_cast<std::size_t>(eta);
  std::vector<Rung> rungs;
  for (std::size_t left = runs; left > 0; left /= factor) rungs.push_back({left, 0});
  std::int64_t budget = steps;
  std::size_t first = rungs.size();
  while (first > 0 && budget > 0) {
    rungs[--first].steps = budget;
    budget /= eta;
  }
  // With too few steps for so many rungs, the later rungs fall away, and not the first runs.
  std::vector<Rung> result;
  for (std::size_t i = first; i < rungs.size(); ++i) {
    result.push_back({rungs[i - first].runs, rungs[i].steps});
  }
  return result;
}

std::vector<std::size_t> lowest(const std::vector<double>& losses, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!std::isnan(losses[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return losses[a] < losses[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

}  // namespace tapegrad::sweep
