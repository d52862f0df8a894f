#include "tapegrad/nn/generation/kv_cache.h"

#include <algorithm>

namespace tapegrad::nn {
namespace {

constexpr std::int64_t kLeastCapacity = 16;  // once a cache grows

std::int64_t capacity_of(const Tensor& buffer) { return buffer.defined() ? buffer.dim(0) : 0; }

// Copies `count` rows of `from`, from row `first` on, to the rows of `to` from `at` on. Both have
// rows of C elements.
void copy_rows(const Tensor& from, std::int64_t first, std::int64_t count, Tensor& to,
               std::int64_t at) {
  const std::int64_t C = to.dim(-1);
  dispatch(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(from.data<T>() + first * C, count * C, to.mutable_data<T>() + at * C);
  });
}

Tensor with_capacity(const Tensor& buffer, std::int64_t length, std::int64_t capacity) {
  Tensor to = Tensor::empty({capacity, buffer.dim(1)}, buffer.dtype());
  copy_rows(buffer, 0, length, to, 0);
  return to;
}

// Adds sequence b of `next` (B, T, C).
void append_to(Tensor& buffer, std::int64_t length, const Tensor& next, std::int64_t b,
               std::int64_t most) {
  const std::int64_t T = next.dim(1), all = length + T;
  if (!buffer.defined()) {
    buffer = Tensor::empty({T, next.dim(2)}, next.dtype());
  } else if (all > capacity_of(buffer)) {
    const std::int64_t room = std::max(2 * capacity_of(buffer), kLeastCapacity);
    buffer = with_capacity(buffer, length, std::max(all, std::min(room, most)));
  }
  copy_rows(next, b * T, T, buffer, length);
}

// Calls f(row, rows of the same cache before it).
template <class F>
void for_rows(std::span<KVCache* const> caches, const F& f) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < caches.size(); ++i) {
    before = i > 0 && caches[i] == caches[i - 1] ? before + 1 : 0;
    f(i, before);
  }
}

}  // namespace

void KeysAndValues::append(const Tensor& keys, const Tensor& values, std::int64_t b,
                           std::int64_t most) {
  check(keys.rank() == 3 && keys.shape() == values.shape() && b < keys.dim(0) &&
            (!keys_.defined() || keys.dim(2) == keys_.dim(1)),
        "[kv_cache] keys {} and values {} cannot follow {} positions {}", keys.shape(),
        values.shape(), length_, keys_.defined() ? keys_.shape() : Shape());
  append_to(keys_, length_, keys, b, most);
  append_to(values_, length_, values, b, most);
  length_ += keys.dim(1);
}

void KeysAndValues::drop(std::int64_t begin, std::int64_t end, std::size_t layer,
                         const MovedKeys& moved) {
  const std::int64_t count = length_ - end;
  if (count > 0) {
    Tensor behind = Tensor::empty({1, count, keys_.dim(1)}, keys_.dtype());
    copy_rows(keys_, end, count, behind, 0);
    copy_rows(moved(layer, behind), 0, count, keys_, begin);
    copy_rows(values_, end, count, values_, begin);  // towards the front, in order
  }
  length_ -= end - begin;
}

KeysAndValues KeysAndValues::clone() const {
  KeysAndValues copy;
  copy.length_ = length_;
  if (!keys_.defined()) return copy;
  copy.keys_ = with_capacity(keys_, length_, capacity_of(keys_));
  copy.values_ = with_capacity(values_, length_, capacity_of(values_));
  return copy;
}

KVCache KVCache::clone() const {
  KVCache copy(most_);
  for (const KeysAndValues& layer : layers_) copy.layers_.push_back(layer.clone());
  return copy;
}

void KVCache::truncate(std::int64_t length) {
  for (KeysAndValues& layer : layers_) layer.truncate(length);
}

void KVCache::drop(std::int64_t begin, std::int64_t end, const MovedKeys& moved) {
  check(0 <= begin && begin <= end && end <= length(),
        "[kv_cache] {} positions have none from {} to {}", length(), begin, end);
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].drop(begin, end, i, moved);
}

CachedLayer::CachedLayer(std::span<KVCache* const> caches, std::size_t layer)
    : caches_(caches), layer_(layer) {
  for (KVCache* cache : caches) {
    if (cache->layers_.size() <= layer) cache->layers_.resize(layer + 1);
  }
}

std::vector<std::int64_t> CachedLayer::lengths() const {
  std::vector<std::int64_t> lengths;
  for_rows(caches_, [&](std::size_t i, std::int64_t before) {
    lengths.push_back(of(*caches_[i]).length() + before);
  });
  return lengths;
}

void CachedLayer::append(const Tensor& keys, const Tensor& values) {
  check(keys.rank() == 3 && keys.dim(0) == std::ssize(caches_),
        "[kv_cache] keys {} are not those of {} sequences", keys.shape(), caches_.size());
  check(keys.dim(1) == 1 || std::adjacent_find(caches_.begin(), caches_.end()) == caches_.end(),
        "[kv_cache] keys {} have several positions of a sequence that is there several times",
        keys.shape());
  std::int64_t b = 0;
  for (KVCache* cache : caches_) of(*cache).append(keys, values, b++, cache->most_);
}

std::vector<CachedKeys> CachedLayer::cached() const {
  std::vector<CachedKeys> cached;
  for (KVCache* cache : caches_) cached.push_back(of(*cache).cached());
  for (std::size_t i = caches_.size(); i-- > 1;) {  // a row does not see those behind it
    if (caches_[i - 1] == caches_[i]) cached[i - 1].length = cached[i].length - 1;
  }
  return cached;
}

std::vector<std::int64_t> lengths_of(std::span<KVCache* const> caches) {
  std::vector<std::int64_t> lengths;
  std::vector<const KVCache*> met;
  for_rows(caches, [&](std::size_t i, std::int64_t before) {
    lengths.push_back(caches[i]->length() + before);
    if (before > 0) return;
    check(std::find(met.begin(), met.end(), caches[i]) == met.end(),
          "[kv_cache] the rows of a sequence must stand side by side, not at {} alone", i);
    met.push_back(caches[i]);
  });
  return lengths;
}

std::vector<KVCache*> pointers_to(std::vector<KVCache>& caches) {
  std::vector<KVCache*> pointers;
  for (KVCache& cache : caches) pointers.push_back(&cache);
  return pointers;
}

void select(std::vector<KVCache>& caches, const std::vector<std::int32_t>& rows) {
  std::vector<std::int64_t> uses(caches.size());
  for (const std::int32_t row : rows) {
    check(row >= 0 && row < std::ssize(caches), "[kv_cache] there is no sequence {} among {}", row,
          caches.size());
    ++uses[static_cast<std::size_t>(row)];
  }
  std::vector<KVCache> chosen;
  for (const std::int32_t row : rows) {
    const auto i = static_cast<std::size_t>(row);
    chosen.push_back(--uses[i] > 0 ? caches[i].clone() : std::move(caches[i]));
  }
  caches = std::move(chosen);
}

}  // namespace tapegrad::nn
