#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/optim/optimizer.h"

namespace tapegrad::optim {

// How the elements of a model's parameters are shared out among `ranks` processes, each of which
// updates its own: the partition of ZeRO, whatever its stage (sharing.h names them, and the paper).
//
// Parameters are taken last one first, since backward completes their gradients in about this
// order, and are cut into buckets, of which each is sent as soon as its gradients are complete.
// Each rank owns about the same part of each bucket. Parameters that cannot be cut are an
// exception: they are dealt out by their sizes over the whole model, and what may be cut goes to
// ranks that got less of them. So all ranks own about the same number of elements in the end.

// Elements [begin, end) of a parameter that one rank owns, and where they begin in their bucket.
struct Fragment {
  std::size_t parameter;
  std::int64_t begin, end;
  int owner;
  std::int64_t at;

  std::int64_t size() const { return end - begin; }
};

struct Bucket {
  std::vector<Fragment> fragments;    // ordered by owner and by `at`
  std::vector<std::int64_t> offsets;  // of each rank's part, and the bucket's size behind the last

  std::int64_t size() const { return offsets.back(); }
  std::int64_t size_of(int rank) const {
    return offsets[static_cast<std::size_t>(rank) + 1] - offsets[static_cast<std::size_t>(rank)];
  }
};

// Elements of a bucket: 25 MiB of f32, as in PyTorch's DistributedDataParallel (bucket_cap_mb).
inline constexpr std::int64_t kBucketSize = std::int64_t{25} << 18;
// The most buckets on their way at once. Beyond them, the oldest one is waited for and freed.
inline constexpr std::size_t kBucketsUnderWay = 3;

// Parameters are cut at multiples of kSquareChunk only (clip.h), so that each rank can sum the
// squares of its own gradients as one process would; and only where their optimisers allow it. The
// elements at whose multiples a parameter of that shape may be cut:
std::int64_t unit_of(ShardGranularity cut, const Shape& shape);

// The sizes of parameters. Error unless all are f32, which alone travels between processes.
std::vector<std::int64_t> sizes_of(const NamedTensors& parameters);

// Numbers of parameters.
using ParameterNumbers = std::vector<std::size_t>;

// `units` has the unit of each parameter; empty: all may be cut between elements. A bucket whose
// last parameter cannot be cut may be larger than bucket_size. With `blocks` (blocks_of in
// parameter_groups.h), a bucket has parameters of one block alone, and the last blocks come first,
// as backward completes them; after them those of no block.
std::vector<Bucket> share_out(const std::vector<std::int64_t>& sizes, int ranks,
                              std::int64_t bucket_size = kBucketSize,
                              const std::vector<std::int64_t>& units = {},
                              const std::vector<ParameterNumbers>& blocks = {});

}  // namespace tapegrad::optim
