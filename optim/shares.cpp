#include "tapegrad/optim/internal/shares.h"

#include <algorithm>
#include <numeric>

#include "tapegrad/optim/clip.h"

namespace tapegrad::optim {
namespace {

// A part of a parameter that is never cut.
struct Chunk {
  std::size_t parameter;
  std::int64_t begin, end;

  std::int64_t size() const { return end - begin; }
};

// The owner of a parameter that may be cut: see whole_owners.
constexpr int kAnyRank = -1;

// The owner of each parameter that cannot be cut: the largest ones first, each to the rank that has
// the least so far (Graham: Bounds on Multiprocessing Timing Anomalies, 1969). Of equal ones, the
// last parameter comes first, so that neighbours have different owners. Adds them to `loads`.
std::vector<int> whole_owners(const std::vector<std::int64_t>& sizes,
                              const std::vector<std::int64_t>& units,
                              std::vector<std::int64_t>& loads) {
  std::vector<int> owners(sizes.size(), kAnyRank);
  std::vector<std::size_t> whole;
  for (std::size_t p = units.size(); p-- > 0;) {
    if (units[p] >= sizes[p] && sizes[p] > kSquareChunk) whole.push_back(p);
  }
  std::stable_sort(whole.begin(), whole.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  for (const std::size_t p : whole) {
    const auto least = std::min_element(loads.begin(), loads.end());
    owners[p] = static_cast<int>(least - loads.begin());
    *least += sizes[p];
  }
  return owners;
}

// How many of n elements each rank gets, so that the loads become as even as they can.
std::vector<std::int64_t> level_out(const std::vector<std::int64_t>& loads, std::int64_t n) {
  std::vector<std::size_t> order(loads.size());  // of the ranks, the least load first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return loads[a] < loads[b]; });
  std::size_t lowest = 1;  // so many ranks get something
  for (; lowest < order.size(); ++lowest) {
    const std::int64_t step = loads[order[lowest]] - loads[order[lowest - 1]];
    const std::int64_t needed = step * static_cast<std::int64_t>(lowest);
    if (needed > n) break;
    n -= needed;
  }
  const auto count = static_cast<std::int64_t>(lowest);
  std::vector<std::int64_t> parts(loads.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t rank = order[static_cast<std::size_t>(i)];
    const std::int64_t even = (n * (i + 1) + count - 1) / count - (n * i + count - 1) / count;
    parts[rank] = loads[order[lowest - 1]] - loads[rank] + even;
  }
  return parts;
}

// The owners of a bucket's chunks. Adds those that may be cut to `loads`.
std::vector<int> owners_of(const std::vector<Chunk>& chunks, const std::vector<int>& whole,
                           std::vector<std::int64_t>& loads) {
  std::int64_t cut = 0;
  for (const Chunk& chunk : chunks) cut += whole[chunk.parameter] == kAnyRank ? chunk.size() : 0;
  std::vector<std::int64_t> ends = level_out(loads, cut);
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int> owners;
  std::int64_t at = 0;
  for (const Chunk& chunk : chunks) {
    owners.push_back(whole[chunk.parameter]);
    if (owners.back() != kAnyRank) continue;
    const auto rank = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
    owners.back() = static_cast<int>(rank);
    loads[static_cast<std::size_t>(rank)] += chunk.size();
    at += chunk.size();
  }
  return owners;
}

// `owners` has the owner of each chunk, whose order stays within an owner's part.
Bucket make_bucket(const std::vector<Chunk>& chunks, const std::vector<int>& owners, int ranks) {
  std::vector<std::size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return owners[a] < owners[b]; });
  Bucket bucket;
  std::int64_t at = 0;
  auto next = order.begin();
  for (int rank = 0; rank < ranks; ++rank) {
    bucket.offsets.push_back(at);
    for (; next != order.end() && owners[*next] == rank; ++next) {
      const Chunk& chunk = chunks[*next];
      const bool continues = !bucket.fragments.empty() && bucket.fragments.back().owner == rank &&
                             bucket.fragments.back().parameter == chunk.parameter;
      if (continues) {
        bucket.fragments.back().end = chunk.end;
      } else {
        bucket.fragments.push_back({chunk.parameter, chunk.begin, chunk.end, rank, at});
      }
      at += chunk.size();
    }
  }
  bucket.offsets.push_back(at);
  return bucket;
}

}  // namespace

std::int64_t unit_of(ShardGranularity cut, const Shape& shape) {
  const std::int64_t n = std::max<std::int64_t>(shape.numel(), 1);
  if (cut == ShardGranularity::elements) return kSquareChunk;
  if (cut == ShardGranularity::whole || shape.rank() == 0) return n;
  return std::min(n, std::lcm(kSquareChunk, std::max<std::int64_t>(n / shape[0], 1)));
}

std::vector<std::int64_t> sizes_of(const NamedTensors& parameters) {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, t] : parameters) {
    check(t.dtype() == DType::f32, "'{}' is {}: several processes train f32 alone", name,
          name_of(t.dtype()));
    sizes.push_back(t.numel());
  }
  return sizes;
}

std::vector<Bucket> share_out(const std::vector<std::int64_t>& sizes, int ranks,
                              std::int64_t bucket_size, const std::vector<std::int64_t>& units,
                              const std::vector<ParameterNumbers>& blocks) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks));  // elements of each rank
  const std::vector<int> whole = whole_owners(sizes, units, loads);
  std::vector<Bucket> buckets;
  std::vector<Chunk> chunks;
  std::int64_t size = 0;
  const auto close = [&] {
    if (!chunks.empty())
      buckets.push_back(make_bucket(chunks, owners_of(chunks, whole, loads), ranks));
    chunks.clear();
    size = 0;
  };
  const auto add = [&](std::size_t p) {
    const std::int64_t unit = units.empty() ? kSquareChunk : units[p];
    for (std::int64_t begin = 0; begin < sizes[p]; begin += unit) {
      const std::int64_t end = std::min(begin + unit, sizes[p]);
      chunks.push_back({p, begin, end});
      size += end - begin;
      if (size >= bucket_size) close();
    }
  };
  const auto add_block = [&](const ParameterNumbers& block) {
    for (std::size_t i = block.size(); i-- > 0;) add(block[i]);
    close();
  };
  if (blocks.empty()) {
    for (std::size_t p = sizes.size(); p-- > 0;) add(p);
    close();
    return buckets;
  }
  for (std::size_t b = blocks.size() - 1; b-- > 0;) add_block(blocks[b]);
  add_block(blocks.back());
  return buckets;
}

}  // namespace tapegrad::optim
