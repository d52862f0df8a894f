#include "tapegrad/nn/generation/kv_cache.h"

#include <algorithm>
#include <functional>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::nn {
namespace {

constexpr std::int64_t kPage = CachedPage::kPositions;
constexpr std::int64_t kLeastCapacity = 16;  // once a page grows

// Calls f(row, rows of the same cache before it).
template <class F>
void for_rows(std::span<KVCache* const> caches, const F& f) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < caches.size(); ++i) {
    before = i > 0 && caches[i] == caches[i - 1] ? before + 1 : 0;
    f(i, before);
  }
}

bool all_differ(std::span<KVCache* const> caches) {
  std::vector<const KVCache*> sorted(caches.begin(), caches.end());
  std::sort(sorted.begin(), sorted.end(), std::less<>());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

}  // namespace

// The page of the next positions, of which it has room for all before `end`.
CachedPage& KeysAndValues::page_for(std::int64_t end, const Tensor& keys, std::int64_t most,
                                    CacheType type) {
  const auto index = static_cast<std::size_t>(length_ / kPage);
  const std::int64_t first = length_ / kPage * kPage, needed = end - first;
  if (index == pages_.size()) {
    const std::int64_t room = length_ == 0 ? needed : std::max(needed, kLeastCapacity);
    pages_.push_back(std::make_shared<CachedPage>(keys.dim(2), room, keys.dtype(), type));
  }
  std::shared_ptr<CachedPage>& page = pages_[index];
  const bool grows = page->capacity() < needed;
  if (grows || page.use_count() > 1) {
    const std::int64_t doubled = std::min({2 * page->capacity(), most - first, kPage});
    page = page->copy(length_ - first, grows ? std::max(needed, doubled) : page->capacity());
  }
  return *page;
}

KeysAndValues::Place KeysAndValues::next_place(const Tensor& keys, const Tensor& values,
                                               std::int64_t b, std::int64_t most_count,
                                               std::int64_t most, CacheType type) {
  check(keys.rank() == 3 && keys.shape() == values.shape() && b < keys.dim(0) &&
            (pages_.empty() || keys.dim(2) == pages_[0]->channels()),
        "[kv_cache] keys {} and values {} cannot follow {} positions of {} channels", keys.shape(),
        values.shape(), length_, pages_.empty() ? 0 : pages_[0]->channels());
  const std::int64_t at = length_ % kPage, count = std::min(most_count, kPage - at);
  CachedPage& page = page_for(length_ + count, keys, most, type);
  length_ += count;
  return {&page, at, count};
}

void KeysAndValues::append(const Tensor& keys, const Tensor& values, std::int64_t b,
                           std::int64_t most, CacheType type) {
  const std::int64_t T = keys.dim(1);
  for (std::int64_t t = 0; t < T;) {
    const Place place = next_place(keys, values, b, T - t, most, type);
    place.page->store(place.at, place.count, keys, values, b * T + t);
    t += place.count;
  }
}

void KeysAndValues::truncate(std::int64_t length) {
  length_ = std::min(length_, length);
  pages_.resize(static_cast<std::size_t>((length_ + kPage - 1) / kPage));
}

void KeysAndValues::drop(std::int64_t begin, std::int64_t end, std::size_t layer,
                         const MovedKeys& moved) {
  if (begin == end || length_ == 0) return;
  const std::int64_t count = length_ - end;
  const CachedPage& any = *pages_.front();
  Tensor keys = Tensor::empty({1, count, any.channels()}, any.dtype());
  Tensor values = Tensor::empty(keys.shape(), any.dtype());
  for (std::int64_t at = end, next = at; at < length_; at = next) {
    next = std::min(length_, (at / kPage + 1) * kPage);
    pages_[static_cast<std::size_t>(at / kPage)]->load(at % kPage, next - at, keys, values,
                                                       at - end);
  }
  const CacheType type = any.type();
  truncate(begin);
  if (count > 0) append(moved(layer, keys), values, 0, begin + count, type);
}

KeysAndValues KeysAndValues::first(std::int64_t length, std::int64_t most) const {
  KeysAndValues copy;
  copy.pages_ = pages_;
  copy.length_ = length_;
  copy.truncate(length);
  const std::int64_t rest = copy.length_ % kPage;
  if (rest > 0) {
    std::shared_ptr<CachedPage>& page = copy.pages_.back();
    const std::int64_t first = copy.length_ - rest;
    page = page->copy(rest, std::clamp(most - first, rest, page->capacity()));
  }
  return copy;
}

KVCache KVCache::first(std::int64_t length, std::int64_t most) const {
  KVCache copy(most, type_);
  const std::int64_t left = reachable(length);
  for (const Layer& layer : layers_) {
    copy.layers_.push_back({layer.pages.first(left, most), layer.recurrent});
  }
  copy.tokens_ = tokens_;
  copy.truncate(left);
  return copy;
}

std::span<const std::shared_ptr<CachedPage>> KVCache::pages() const {
  for (const Layer& layer : layers_) {
    if (!layer.pages.pages().empty()) return layer.pages.pages();
  }
  return {};
}

std::int64_t KVCache::positions_of_places() const {
  std::int64_t most = 0;
  for (const Layer& layer : layers_) most = std::max(most, layer.recurrent.positions_of_places());
  return most;
}

std::int64_t KVCache::reachable(std::int64_t length) const {
  for (const Layer& layer : layers_) {
    if (layer.recurrent.length() > 0) length = layer.recurrent.reachable(length);
  }
  return std::min(length, this->length());
}

void KVCache::truncate(std::int64_t length) {
  const std::int64_t left = reachable(length);
  for (Layer& layer : layers_) {
    layer.pages.truncate(left);
    layer.recurrent.truncate(left);
  }
  tokens_.resize(std::min(tokens_.size(), static_cast<std::size_t>(left)));
}

void KVCache::drop(std::int64_t begin, std::int64_t end, const MovedKeys& moved) {
  check(0 <= begin && begin <= end && end <= length(),
        "[kv_cache] {} positions have none from {} to {}", length(), begin, end);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    check(layers_[i].recurrent.length() == 0,
          "[kv_cache] nothing can be dropped of the state of recurrent layer {}", i);
    layers_[i].pages.drop(begin, end, i, moved);
  }
  if (!tokens_.empty()) tokens_.erase(tokens_.begin() + begin, tokens_.begin() + end);
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
    lengths.push_back(caches_[i]->layers_[layer_].length() + before);
  });
  return lengths;
}

std::vector<std::int64_t> CachedLayer::most() const {
  std::vector<std::int64_t> most;
  for (const KVCache* cache : caches_) most.push_back(cache->most());
  return most;
}

void CachedLayer::append_as(const Tensor& keys, const Tensor& values,
                            std::optional<CacheType> type) {
  check(keys.rank() == 3 && keys.dim(0) == std::ssize(caches_),
        "[kv_cache] keys {} are not those of {} sequences", keys.shape(), caches_.size());
  check(keys.dim(1) == 1 || std::adjacent_find(caches_.begin(), caches_.end()) == caches_.end(),
        "[kv_cache] keys {} have several positions of a sequence that is there several times",
        keys.shape());
  const ProfiledOp profiled("kv_cache", false);
  if (keys.dim(1) == 1 && caches_.size() > 1 && all_differ(caches_)) {
    return append_newest(keys, values, type);
  }
  std::int64_t b = 0;
  for (KVCache* cache : caches_) {
    of(*cache).append(keys, values, b++, cache->most_, type.value_or(cache->type_));
  }
}

namespace {

// A key's channels lie far apart, each in another line of the processor's cache. So threads share
// out the sequences, these many at least for each.
std::int64_t sequences_of_thread(std::int64_t channels) {
  return std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, channels));
}

}  // namespace

// What pages are copied for the newest positions is done before threads share them out.
void CachedLayer::append_newest(const Tensor& keys, const Tensor& values,
                                std::optional<CacheType> type) {
  std::vector<KeysAndValues::Place> places;
  for (std::size_t i = 0; i < caches_.size(); ++i) {
    KVCache& cache = *caches_[i];
    const auto b = static_cast<std::int64_t>(i);
    places.push_back(
        of(cache).next_place(keys, values, b, 1, cache.most_, type.value_or(cache.type_)));
  }
  parallel_for(std::ssize(places), sequences_of_thread(keys.dim(2)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b) {
                   const KeysAndValues::Place& place = places[static_cast<std::size_t>(b)];
                   place.page->store(place.at, 1, keys, values, b);
                 }
               });
}

std::vector<CachedKeys> CachedLayer::cached() const {
  std::vector<CachedKeys> cached;
  for (KVCache* cache : caches_) cached.push_back(of(*cache).cached());
  for (std::size_t i = caches_.size(); i-- > 1;) {  // a row does not see those behind it
    if (caches_[i - 1] == caches_[i]) cached[i - 1].length = cached[i].length - 1;
  }
  return cached;
}

void CachedLayer::append_states(const Tensor& states) {
  check(states.rank() == 3 && states.dim(2) % 2 == 0,
        "[kv_cache] states {} need an even number of channels", states.shape());
  const std::vector<Tensor> halves = split(states, {states.dim(2) / 2, states.dim(2) / 2}, 2);
  append_as(halves[0], halves[1], CacheType::f32);
}

Tensor CachedLayer::latest_states(std::int64_t count) const {
  const std::vector<CachedKeys> seen = cached();
  const CachedPage& any = *seen.front().pages.front();
  const Shape shape{std::ssize(seen), count, any.channels()};
  Tensor keys = Tensor::zeros(shape, any.dtype()), values = Tensor::zeros(shape, any.dtype());
  parallel_for(shape[0], sequences_of_thread(any.channels()), [&](auto begin, auto end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto& [pages, length] = seen[static_cast<std::size_t>(b)];
      const std::int64_t first = std::max<std::int64_t>(0, length - count);
      for (std::int64_t at = first, next = at; at < length; at = next) {
        next = std::min(length, (at / kPage + 1) * kPage);
        pages[static_cast<std::size_t>(at / kPage)]->load(at % kPage, next - at, keys, values,
                                                          (b + 1) * count - length + at);
      }
    }
  });
  return concat({keys, values}, 2);
}

std::vector<RecurrentRun> CachedLayer::recurrent_runs(std::int64_t B, std::int64_t T) const {
  check(B == std::ssize(caches_), "[kv_cache] {} rows are not those of {} sequences", B,
        caches_.size());
  std::vector<RecurrentRun> runs;
  for_rows(caches_, [&](std::size_t i, std::int64_t before) {
    if (before > 0) {
      runs.back().count += T;
      runs.back().tentative = caches_[i]->expects_cuts_;
    } else {
      runs.push_back({&caches_[i]->layers_[layer_].recurrent, static_cast<std::int64_t>(i) * T, T});
    }
  });
  return runs;
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

void append_tokens(std::span<KVCache* const> caches, const Tensor& ids) {
  const std::int64_t T = ids.dim(1);
  const auto* row = ids.data<std::int32_t>();
  for (KVCache* cache : caches) {
    cache->tokens_.insert(cache->tokens_.end(), row, row + T);
    row += T;
  }
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
