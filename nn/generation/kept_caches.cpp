#include "tapegrad/nn/generation/kept_caches.h"

#include <algorithm>

namespace tapegrad::nn {

std::int64_t common_beginning(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

std::int64_t positions_of(std::span<const std::shared_ptr<CachedPage>> pages,
                          std::set<const CachedPage*>& counted) {
  std::int64_t positions = 0;
  for (const auto& page : pages) {
    if (counted.insert(page.get()).second) positions += page->capacity();
  }
  return positions;
}

std::int64_t positions_of(const KVCache& cache, std::set<const CachedPage*>& counted) {
  return std::max(positions_of(cache.pages(), counted), cache.positions_of_places());
}

void KeptCaches::keep(std::vector<std::int32_t> tokens, const Kind& kind, KVCache cache) {
  const Match longest = find(tokens, kind);
  const auto all = std::ssize(tokens);
  if (longest.length == all && all <= longest.cache->length()) return;
  std::erase_if(kept_, [&](const Kept& kept) {
    return kept.kind == kind && common_beginning(kept.tokens, tokens) == std::ssize(kept.tokens);
  });
  kept_.push_back({std::move(tokens), kind, std::move(cache)});
}

KeptCaches::Match KeptCaches::find(std::span<const std::int32_t> tokens, const Kind& kind) {
  std::int64_t most = 0;
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    if (at->kind != kind) continue;
    const std::int64_t length = at->cache.reachable(common_beginning(at->tokens, tokens));
    if (length <= most) continue;
    most = length;
    best = at;
  }
  if (best == kept_.end()) return {};
  std::rotate(best, best + 1, kept_.end());
  return {&kept_.back().cache, most};
}

void KeptCaches::shrink(std::int64_t most) {
  const auto too_many = [&] {
    std::set<const CachedPage*> counted;
    return positions(counted) > most;
  };
  while (!kept_.empty() && too_many()) kept_.erase(kept_.begin());
}

std::int64_t KeptCaches::positions(std::set<const CachedPage*>& counted) const {
  std::int64_t sum = 0;
  for (const Kept& kept : kept_) sum += positions_of(kept.cache, counted);
  return sum;
}

}  // namespace tapegrad::nn
