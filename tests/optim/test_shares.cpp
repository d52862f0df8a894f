#include <algorithm>
#include <cstdlib>
#include <set>

#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::optim;

namespace {

using Sizes = std::vector<std::int64_t>;

// Every element has one owner, and fragments are in order. Returns the elements of each rank.
Sizes check_shares(const std::vector<Bucket>& buckets, const Sizes& sizes, int ranks) {
  Sizes seen(sizes.size()), next(sizes.size()), owned(static_cast<std::size_t>(ranks));
  for (const Bucket& bucket : buckets) {
    REQUIRE(std::ssize(bucket.offsets) == ranks + 1);
    std::int64_t at = 0;
    int owner = 0;
    for (const Fragment& f : bucket.fragments) {
      CHECK(f.at == at);
      CHECK(f.begin % kSquareChunk == 0);
      CHECK((f.end % kSquareChunk == 0 || f.end == sizes[f.parameter]));
      CHECK(f.begin == next[f.parameter]);
      CHECK(f.owner >= owner);
      CHECK(f.at >= bucket.offsets[static_cast<std::size_t>(f.owner)]);
      CHECK(f.at + f.size() <= bucket.offsets[static_cast<std::size_t>(f.owner) + 1]);
      next[f.parameter] = f.end;
      seen[f.parameter] += f.size();
      owned[static_cast<std::size_t>(f.owner)] += f.size();
      owner = f.owner;
      at += f.size();
    }
    CHECK(at == bucket.size());
  }
  CHECK(seen == sizes);
  return owned;
}

// The elements of each rank that are of parameters that cannot be cut.
Sizes whole_elements(const std::vector<Bucket>& buckets, const Sizes& sizes, const Sizes& units,
                     int ranks) {
  Sizes owned(static_cast<std::size_t>(ranks));
  for (const Bucket& bucket : buckets) {
    for (const Fragment& f : bucket.fragments) {
      if (units[f.parameter] == kSquareChunk) continue;
      CHECK(f.size() == sizes[f.parameter]);
      owned[static_cast<std::size_t>(f.owner)] += f.size();
    }
  }
  return owned;
}

std::int64_t spread(const Sizes& owned) {
  const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
  return *most - *least;
}

}  // namespace

TEST_CASE("every element has one owner, parts are about equal, and cuts are at chunks",
          "[shares]") {
  const Sizes sizes{50257 * 64, 1, 768, 3 * kBucketSize + 5, kSquareChunk, 40};
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    const std::vector<Bucket> buckets = share_out(sizes, ranks);
    CHECK(spread(check_shares(buckets, sizes, ranks)) <= 2 * kSquareChunk);
    for (const Bucket& bucket : buckets) {
      CHECK(bucket.size() < kBucketSize + kSquareChunk);
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(std::abs(bucket.size_of(rank) - bucket.size() / ranks) <= 2 * kSquareChunk);
      }
    }
  }
}

TEST_CASE("parameters that cannot be cut are dealt out by size, and others fill up", "[shares]") {
  // The matrices of eight layers, with their biases, and embeddings in front.
  constexpr std::int64_t C = 512;
  Sizes sizes{50257 * C, 1024 * C}, units{kSquareChunk, kSquareChunk};
  for (int layer = 0; layer < 8; ++layer) {
    for (const std::int64_t rows : {3 * C, C, 4 * C, 4 * C}) {
      sizes.insert(sizes.end(), {rows * C, rows});
      units.insert(units.end(), {rows * C, kSquareChunk});
    }
  }
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    CAPTURE(ranks);
    const std::vector<Bucket> buckets = share_out(sizes, ranks, kBucketSize, units);
    CHECK(spread(whole_elements(buckets, sizes, units, ranks)) <= 2 * C * C);
    CHECK(spread(check_shares(buckets, sizes, ranks)) <= 2 * kSquareChunk);
  }
}

TEST_CASE("matrices that are larger than a bucket have different owners", "[shares]") {
  const Sizes sizes(12, kBucketSize + 5);
  for (const int ranks : {2, 3, 4, 12}) {
    const std::vector<Bucket> buckets = share_out(sizes, ranks, kBucketSize, sizes);
    CHECK(spread(check_shares(buckets, sizes, ranks)) == 0);
    // Those that are neighbours, so that one is sent while the next one is updated.
    for (std::size_t b = 1; b < buckets.size(); ++b) {
      CHECK(buckets[b].fragments[0].owner != buckets[b - 1].fragments[0].owner);
    }
  }
}

TEST_CASE("the last parameters come first, as backward completes them", "[shares]") {
  const auto buckets = share_out({kBucketSize, kBucketSize, 10}, 2);
  REQUIRE(!buckets.empty());
  CHECK(buckets.front().fragments.front().parameter == 2);
  CHECK(buckets.back().fragments.back().parameter == 0);
}

TEST_CASE("buckets of blocks are of one block each, in the order of backward", "[shares]") {
  // Embeddings, two blocks of two parameters, and a norm.
  const Sizes sizes{kBucketSize + 9, 70000, 40, 70000, 40, 16};
  const std::vector<ParameterNumbers> blocks = {{1, 2}, {3, 4}, {0, 5}};
  for (const int ranks : {1, 2, 3}) {
    const auto buckets = share_out(sizes, ranks, kBucketSize, {}, blocks);
    CHECK(spread(check_shares(buckets, sizes, ranks)) <= 2 * kSquareChunk);
    std::vector<std::size_t> order;  // of the blocks of buckets
    for (const Bucket& bucket : buckets) {
      std::set<std::size_t> of;
      for (const Fragment& f : bucket.fragments) {
        for (std::size_t b = 0; b < blocks.size(); ++b) {
          if (std::count(blocks[b].begin(), blocks[b].end(), f.parameter) > 0) of.insert(b);
        }
      }
      REQUIRE(of.size() == 1);
      order.push_back(*of.begin());
    }
    CHECK(order == std::vector<std::size_t>{1, 0, 2, 2});
  }
}

TEST_CASE("a model that is smaller than the group has ranks without a part", "[shares]") {
  const auto buckets = share_out({3, 5}, 4);
  REQUIRE(buckets.size() == 1);
  CHECK(buckets[0].size_of(0) + buckets[0].size_of(1) + buckets[0].size_of(2) +
            buckets[0].size_of(3) ==
        8);
  CHECK(share_out({}, 2).empty());
}
