#include "tapegrad/optim/shares.h"

#include <algorithm>
#include <numeric>

#include "tapegrad/optim/clip.h"

namespace tapegrad::optim {
namespace {

// A part of a parameter that is never cut.
struct Chunk {
  std::size_t parameter;
  std::int64_t begin, end;
};

Bucket share_out_bucket(const std::vector<Chunk>& chunks, int ranks) {
  std::int64_t size = 0;
  for (const Chunk& chunk : chunks) size += chunk.end - chunk.begin;
  Bucket bucket;
  std::int64_t at = 0;
  for (const Chunk& chunk : chunks) {
    const int owner = static_cast<int>(at * ranks / size);
    const bool continues = !bucket.fragments.empty() && bucket.fragments.back().owner == owner &&
                           bucket.fragments.back().parameter == chunk.parameter;
    if (continues) {
      bucket.fragments.back().end = chunk.end;
    } else {
      bucket.fragments.push_back({chunk.parameter, chunk.begin, chunk.end, owner, at});
    }
    // A rank that owns no chunk of a small bucket has an empty part.
    while (std::ssize(bucket.offsets) <= owner) bucket.offsets.push_back(at);
    at += chunk.end - chunk.begin;
  }
  while (std::ssize(bucket.offsets) <= ranks) bucket.offsets.push_back(at);
  return bucket;
}

}  // namespace

std::int64_t unit_of(Cut cut, const Shape& shape) {
  const std::int64_t n = std::max<std::int64_t>(shape.numel(), 1);
  if (cut == Cut::elements) return kSquareChunk;
  if (cut == Cut::whole || shape.rank() == 0) return n;
  return std::min(n, std::lcm(kSquareChunk, std::max<std::int64_t>(n / shape[0], 1)));
}

std::vector<Bucket> share_out(const std::vector<std::int64_t>& sizes, int ranks,
                              std::int64_t bucket_size, const std::vector<std::int64_t>& units) {
  std::vector<Bucket> buckets;
  std::vector<Chunk> chunks;
  std::int64_t size = 0;
  const auto close = [&] {
    if (!chunks.empty()) buckets.push_back(share_out_bucket(chunks, ranks));
    chunks.clear();
    size = 0;
  };
  for (std::size_t p = sizes.size(); p-- > 0;) {
    const std::int64_t unit = units.empty() ? kSquareChunk : units[p];
    for (std::int64_t begin = 0; begin < sizes[p]; begin += unit) {
      const std::int64_t end = std::min(begin + unit, sizes[p]);
      chunks.push_back({p, begin, end});
      size += end - begin;
      if (size >= bucket_size) close();
    }
  }
  close();
  return buckets;
}

}  // namespace tapegrad::optim
