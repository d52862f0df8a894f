#include "tapegrad/nn/kv_cache.h"

#include <algorithm>

#include "tapegrad/base/parallel.h"

namespace tapegrad::nn {
namespace {

constexpr std::int64_t kLeastCapacity = 16;  // once a cache grows
constexpr std::int64_t kGrain = 16384;       // elements that are worth a thread

std::int64_t capacity_of(const Tensor& buffer) { return buffer.defined() ? buffer.dim(1) : 0; }

// Copies `count` positions of each sequence `sources[b]` of `from` to sequence b of `to`, where
// they begin at position `at`. Both are (sequences, positions, C).
void copy_positions(const Tensor& from, const std::vector<std::int32_t>& sources,
                    std::int64_t count, Tensor& to, std::int64_t at) {
  const std::int64_t C = to.dim(2), elements = count * C;
  dispatch(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = from.data<T>();
    T* out = to.mutable_data<T>();
    const std::int64_t in_step = from.dim(1) * C, out_step = to.dim(1) * C;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements));
    parallel_for(to.dim(0), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t source = sources[static_cast<std::size_t>(b)];
        std::copy_n(in + source * in_step, elements, out + b * out_step + at * C);
      }
    });
  });
}

std::vector<std::int32_t> in_order(std::int64_t n) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(static_cast<std::int32_t>(i));
  return rows;
}

// The first `length` positions of these sequences of `buffer`, with room for `capacity`.
Tensor moved(const Tensor& buffer, const std::vector<std::int32_t>& rows, std::int64_t length,
             std::int64_t capacity) {
  Tensor to = Tensor::empty({static_cast<std::int64_t>(rows.size()), capacity, buffer.dim(2)},
                            buffer.dtype());
  copy_positions(buffer, rows, length, to, 0);
  return to;
}

void append_to(Tensor& buffer, std::int64_t length, const Tensor& next) {
  const std::int64_t all = length + next.dim(1);
  const auto rows = in_order(next.dim(0));
  if (!buffer.defined()) {
    buffer = Tensor::empty(next.shape(), next.dtype());
  } else if (all > capacity_of(buffer)) {
    buffer = moved(buffer, rows, length, std::max({all, 2 * capacity_of(buffer), kLeastCapacity}));
  }
  copy_positions(next, rows, next.dim(1), buffer, length);
}

}  // namespace

void KeysAndValues::check_follows(const Tensor& x) const {
  check(length_ == 0 || (x.dim(1) == 1 && x.dim(0) == sequences()),
        "[attention] rows {} cannot go on after {} positions of {} sequences in a cache", x.shape(),
        length_, sequences());
}

void KeysAndValues::append(const Tensor& keys, const Tensor& values) {
  check(keys.rank() == 3 && keys.shape() == values.shape() &&
            (!keys_.defined() || (keys.dim(0) == keys_.dim(0) && keys.dim(2) == keys_.dim(2))),
        "[kv_cache] keys {} and values {} cannot follow {} positions of {} sequences", keys.shape(),
        values.shape(), length_, sequences());
  append_to(keys_, length_, keys);
  append_to(values_, length_, values);
  length_ += keys.dim(1);
}

Tensor KeysAndValues::filled(const Tensor& buffer) const {
  check(buffer.defined(), "[kv_cache] there are no keys and values yet");
  const std::int64_t B = buffer.dim(0), C = buffer.dim(2);
  if (B == 1) return buffer.view({buffer.dim(1), C}).rows(0, length_).view({1, length_, C});
  if (length_ == buffer.dim(1)) return buffer.alias();
  return moved(buffer, in_order(B), length_, length_);
}

void KeysAndValues::select(const std::vector<std::int32_t>& rows) {
  if (!keys_.defined()) return;
  for (const std::int32_t row : rows) {
    check(row >= 0 && row < sequences(), "[kv_cache] there is no sequence {} among {}", row,
          sequences());
  }
  keys_ = moved(keys_, rows, length_, capacity_of(keys_));
  values_ = moved(values_, rows, length_, capacity_of(values_));
}

void KVCache::select(const std::vector<std::int32_t>& rows) {
  for (KeysAndValues& layer : layers) layer.select(rows);
}

}  // namespace tapegrad::nn
