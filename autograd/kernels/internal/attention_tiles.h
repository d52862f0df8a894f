#pragma once

#include <algorithm>
#include <cstdint>

namespace tapegrad {

struct AttentionSizes {
  std::int64_t B, Tq, Tk, H, D;
  bool causal;
  std::int64_t group = 1;  // heads of q that share a head of k and v
};

// How attention is cut into tiles of queries, and which keys each of them meets. Causal tiles leave
// out what all queries of a strip, or all keys of 16, do not see.
struct AttentionTiles {
  static constexpr std::int64_t kQueryTile = 64;
  static constexpr std::int64_t kStrip = 16;  // queries that are computed side by side
  static constexpr std::int64_t kNoWindow = std::int64_t{1} << 62;

  AttentionSizes size;
  // Of causal attention, see ScoreOptions in ops.h: `starts` (B, Tq) are its document_starts, or
  // null.
  std::int64_t window = kNoWindow;
  const std::int32_t* starts = nullptr;
  // (B), of causal attention: how many keys each sequence has, of which the last Tq are at its
  // queries' positions; Tk is the largest of them. Null: all have Tk.
  const std::int64_t* lengths = nullptr;

  // Queries [first, first + rows) meet keys [from, keys). `past` is the position of query 0 among
  // the keys, if attention is causal. `width` is `rows`, rounded up to strips: columns behind the
  // last query hold numbers that nobody uses. Head h meets the keys of head `shared`. Row 0 of
  // scratch is that of key `from`.
  struct Tile {
    std::int64_t b, h, shared, first, past, rows, from, keys, width;
  };

  std::int64_t tile_count() const { return (size.Tq + kQueryTile - 1) / kQueryTile; }
  // A tile meets no more keys than these.
  std::int64_t most_keys() const {
    return window < size.Tk ? std::min(size.Tk, window + kQueryTile) : size.Tk;
  }

  // True if the last tile of a head meets all keys.
  bool meets_all() const { return window == kNoWindow && starts == nullptr; }

  Tile tile(std::int64_t head, std::int64_t n) const {
    const std::int64_t first = n * kQueryTile, rows = std::min(kQueryTile, size.Tq - first);
    const std::int64_t b = head / size.H, h = head % size.H;
    const std::int64_t past = lengths == nullptr ? 0 : lengths[b] - size.Tq;
    const std::int64_t keys = size.causal ? past + first + rows : size.Tk;
    const std::int64_t from = first_key(b, past, first);
    return {
        b, h, h / size.group, first, past, rows, from, keys, (rows + kStrip - 1) / kStrip * kStrip};
  }
  // The first key that a query of sequence b sees; it grows with the query.
  std::int64_t first_key(std::int64_t b, std::int64_t past, std::int64_t query) const {
    const std::int64_t start = starts == nullptr ? 0 : starts[b * size.Tq + query];
    return std::max(start, past + query + 1 - window);
  }
  // Row of (B, H, Tq) that query r of the tile is.
  std::int64_t row_index(const Tile& t, std::int64_t r) const {
    return (t.b * size.H + t.h) * size.Tq + t.first + r;
  }
  // The strip of queries from s on meets keys [keys_from(t, s), keys_of(t, s)).
  std::int64_t keys_of(const Tile& t, std::int64_t s) const {
    return size.causal ? std::min(t.keys, t.past + t.first + s + kStrip) : t.keys;
  }
  std::int64_t keys_from(const Tile& t, std::int64_t s) const {
    return first_key(t.b, t.past, t.first + s);
  }
  // How many pairs of a query and a key the strips compute.
  std::int64_t pairs(const Tile& t) const {
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < t.rows; s += kStrip) {
      sum += std::min(kStrip, t.rows - s) * (keys_of(t, s) - keys_from(t, s));
    }
    return sum;
  }
  // Calls f(begin, end, s, last) for ranges of keys, each of which the strips of queries [s, last)
  // meet.
  template <class F>
  void for_keys(const Tile& t, const F& f) const {
    if (!size.causal) return f(0, t.keys, 0, t.width);
    const std::int64_t first = t.past + t.first;  // the position of query 0
    std::int64_t last = 0;                        // the strips from here on begin behind
    for (std::int64_t begin = t.from, end = begin; begin < t.keys; begin = end) {
      const std::int64_t s = std::max<std::int64_t>(0, begin - first) / kStrip * kStrip;
      end = std::min(t.keys, first + s + kStrip);
      while (last < t.width && keys_from(t, last) <= begin) last += kStrip;
      if (last < t.width) end = std::min(end, keys_from(t, last));
      f(begin, end, s, last);
    }
  }
};

}  // namespace tapegrad
