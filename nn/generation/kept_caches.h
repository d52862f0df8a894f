#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tapegrad/nn/generation/kv_cache.h"

namespace tapegrad::nn {

// How many tokens two texts begin with alike.
std::int64_t common_beginning(std::span<const std::int32_t> a, std::span<const std::int32_t> b);
// Positions for which these pages have room. A page counts once, whoever has it: pages that are in
// `counted` do not count, and those that count are added.
std::int64_t positions_of(std::span<const std::shared_ptr<CachedPage>> pages,
                          std::set<const CachedPage*>& counted);

// The same of a cache, or positions_of_places() if that is more.
std::int64_t positions_of(const KVCache& cache, std::set<const CachedPage*>& counted);

// The caches that texts have left, for those that begin as they did.
class KeptCaches {
 public:
  // What equal tokens have equal keys and values by.
  struct Kind {
    std::optional<std::int64_t> adapter = {};  // see GenerateOptions::adapter
    bool is_long = false;                      // angles of long texts: see LongRoPE in ops.h
    bool operator==(const Kind&) const = default;
  };

  // Keeps a cache of these tokens, and forgets those of which it has all. Does nothing if a kept
  // one has all of it. Caches of different kinds have nothing to do with each other.
  void keep(std::vector<std::int32_t> tokens, const Kind& kind, KVCache cache);
  // The cache of this kind that can be cut to the most of these tokens, from the first on, and how
  // many that are; null if none can.
  struct Match {
    const KVCache* cache = nullptr;
    std::int64_t length = 0;
  };
  Match find(std::span<const std::int32_t> tokens, const Kind& kind);
  // Forgets caches, those first that have not been found for the longest, until there are pages for
  // at most `most` positions.
  void shrink(std::int64_t most);
  // Adds to `counted`, and returns, as positions_of() does.
  std::int64_t positions(std::set<const CachedPage*>& counted) const;

 private:
  struct Kept {
    std::vector<std::int32_t> tokens;
    Kind kind;
    KVCache cache;
  };
  std::vector<Kept> kept_;  // the one that was found last is last
};

}  // namespace tapegrad::nn
