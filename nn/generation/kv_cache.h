#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/autograd/cached_attention.h"
#include "tapegrad/nn/generation/recurrent_states.h"

namespace tapegrad::nn {

// Keys (1, T, C) of one layer → what they are at the positions that they move to.
using MovedKeys = std::function<Tensor(std::size_t layer, const Tensor& keys)>;

// The KV cache of one attention layer: keys and values that it has computed of one sequence, in
// pages. A page may belong to several sequences; who writes into it gets one of its own.
class KeysAndValues {
 public:
  std::int64_t length() const { return length_; }  // positions
  // Adds the next T positions: row b of keys and values (B, T, C). Error if C is not that of the
  // positions before. The first positions get as much room as they need; later on, the room of the
  // last page grows by doubling, up to that of `most` positions or of as many as there are.
  void append(const Tensor& keys, const Tensor& values, std::int64_t b, std::int64_t most,
              CacheType type);
  // Makes room for the next positions, at most `most_count` of those that append() adds, which the
  // caller stores there: `count` positions of `page`, from `at` on.
  struct Place {
    CachedPage* page;
    std::int64_t at, count;
  };
  Place next_place(const Tensor& keys, const Tensor& values, std::int64_t b,
                   std::int64_t most_count, std::int64_t most, CacheType type);
  // Forgets all but the first `length` positions, if there are more.
  void truncate(std::int64_t length);
  // Forgets positions [begin, end). Those behind them, if any, move there.
  void drop(std::int64_t begin, std::int64_t end, std::size_t layer, const MovedKeys& moved);
  // The keys that attention() reads. append(), truncate() and drop() may change it.
  CachedKeys cached() const { return {pages_, length_}; }
  // The first `length` positions, or all if there are fewer. Full pages are shared, and what is of
  // another is copied, with no more room than for `most` positions in all.
  KeysAndValues first(std::int64_t length, std::int64_t most) const;
  std::span<const std::shared_ptr<CachedPage>> pages() const { return pages_; }

 private:
  CachedPage& page_for(std::int64_t end, const Tensor& keys, std::int64_t most, CacheType type);

  std::vector<std::shared_ptr<CachedPage>> pages_;  // no more than positions need
  std::int64_t length_ = 0;
};

// The memory that a model has of one sequence, so that the positions that follow need not compute
// it again: of each layer keys and values, states of a convolution, those of a recurrent layer,
// and the tokens where a model looks at the last ones (NgramEmbedding). It is written in place,
// which no tape may record.
class KVCache {
 public:
  KVCache() = default;
  // With no more room than for `most` positions, as long as there are no more. LongRoPE's angles go
  // by it, too: they are those of a text that may come to have so many.
  explicit KVCache(std::int64_t most, CacheType type = CacheType::f32) : most_(most), type_(type) {}
  // A copy is made by clone() or first().
  KVCache(const KVCache&) = delete;
  KVCache& operator=(const KVCache&) = delete;
  KVCache(KVCache&&) = default;
  KVCache& operator=(KVCache&&) = default;

  std::int64_t length() const {
    for (const Layer& layer : layers_) {  // one that mixes no positions keeps none
      if (const std::int64_t positions = layer.length(); positions > 0) return positions;
    }
    return 0;
  }
  // The most positions, at most `length`, that first() and truncate() can leave: fewer than
  // `length` where a layer is recurrent (RecurrentStates), and cannot go on from between two
  // places.
  std::int64_t reachable(std::int64_t length) const;
  // Positions whose memory the states of recurrent layers take: a short text has a whole one.
  std::int64_t positions_of_places() const;
  std::int64_t most() const { return most_; }
  // False where all rows that a pass has of this sequence stay, as those of a prompt, so that
  // recurrent layers need not compute them once more: see RecurrentStates.
  void expect_cuts(bool expects) { expects_cuts_ = expects; }
  void clear() { layers_.clear(), tokens_.clear(); }
  // Those of append_tokens(), one for each position, or none.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  // Forgets all but the first reachable(length) positions, if there are more.
  void truncate(std::int64_t length);
  // Forgets positions [begin, end). Those behind them move there, with the keys that `moved` gives.
  // Error if there are no such positions, or if a layer is recurrent.
  void drop(std::int64_t begin, std::int64_t end, const MovedKeys& moved);
  // The first reachable(length) positions, or all if there are fewer, with room for `most`: see
  // KeysAndValues. The copy and this one go on independently.
  KVCache first(std::int64_t length, std::int64_t most) const;
  KVCache clone() const { return first(length(), most_); }
  // The pages of the first layer that has some: the others that do have as many.
  std::span<const std::shared_ptr<CachedPage>> pages() const;

 private:
  friend class CachedLayer;
  friend void append_tokens(std::span<KVCache* const> caches, const Tensor& ids);
  struct Layer {  // one of these two has positions, both have, or none does
    KeysAndValues pages;
    RecurrentStates recurrent;
    std::int64_t length() const { return std::max(pages.length(), recurrent.length()); }
  };
  std::vector<Layer> layers_;
  std::vector<std::int32_t> tokens_;
  std::int64_t most_ = INT64_MAX;
  CacheType type_ = CacheType::f32;
  bool expects_cuts_ = true;
};

// Rows of one sequence that follow each other, and what its layer has of the positions before them.
struct RecurrentRun {
  RecurrentStates* states;
  std::int64_t row, count;
  bool tentative = false;  // some may be taken back
};

// One layer of the caches of several sequences, each of a length of its own: what attention of
// their next positions reads and extends. Row b belongs to caches[b]. A cache may be there several
// times, one behind the other: its rows are then positions of one sequence that follow each other.
class CachedLayer {
 public:
  CachedLayer(std::span<KVCache* const> caches, std::size_t layer);

  // How many positions stand before each row, and KVCache::most() of each.
  std::vector<std::int64_t> lengths() const;
  std::vector<std::int64_t> most() const;
  // Adds keys and values (B, T, C) of the next T positions of each of the B rows. Error if there
  // are not B, if C is another than before, or if T > 1 and a cache is there several times.
  void append(const Tensor& keys, const Tensor& values) { append_as(keys, values, std::nullopt); }
  // The keys that each row sees, after append().
  std::vector<CachedKeys> cached() const;
  // The same for a layer that keeps one state (B, T, C) of each position in place of a key and a
  // value: half of the channels in the place of each, always unrounded. Error if C is odd, too.
  void append_states(const Tensor& states);
  // The last `count` states (B, count, C) that each row sees, after append_states(); 0 where there
  // are fewer.
  Tensor latest_states(std::int64_t count) const;
  // For a recurrent layer: the sequences of B·T rows, which are T positions of each of B. Error if
  // there are not B.
  std::vector<RecurrentRun> recurrent_runs(std::int64_t B, std::int64_t T) const;

 private:
  KeysAndValues& of(KVCache& cache) const { return cache.layers_[layer_].pages; }
  void append_as(const Tensor& keys, const Tensor& values, std::optional<CacheType> type);
  // T = 1, of different caches.
  void append_newest(const Tensor& keys, const Tensor& values, std::optional<CacheType> type);

  std::span<KVCache* const> caches_;
  std::size_t layer_;
};

// How many positions stand before each row: see CachedLayer. Error if a cache is there several
// times, and not side by side.
std::vector<std::int64_t> lengths_of(std::span<KVCache* const> caches);
// Adds row b of tokens (B, T) to caches[b], after the keys and values of their positions.
void append_tokens(std::span<KVCache* const> caches, const Tensor& ids);
std::vector<KVCache*> pointers_to(std::vector<KVCache>& caches);

// Goes on with these sequences, in this order, in place of those there are: sequence i is then the
// one that was rows[i]. A sequence may be taken more than once, or not at all; only further copies
// of one copy its data.
void select(std::vector<KVCache>& caches, const std::vector<std::int32_t>& rows);

}  // namespace tapegrad::nn
