#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/shares.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::optim;

TEST_CASE("every element has one owner, parts are about equal, and cuts are at chunks",
          "[shares]") {
  const std::vector<std::int64_t> sizes{50257 * 64, 1, 768, 3 * kBucketSize + 5, kSquareChunk, 40};
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    std::vector<std::int64_t> seen(sizes.size()), next(sizes.size());
    for (const Bucket& bucket : share_out(sizes, ranks)) {
      REQUIRE(std::ssize(bucket.offsets) == ranks + 1);
      CHECK(bucket.size() < kBucketSize + kSquareChunk);
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
        owner = f.owner;
        at += f.size();
      }
      CHECK(at == bucket.size());
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(std::abs(bucket.size_of(rank) - bucket.size() / ranks) <= 2 * kSquareChunk);
      }
    }
    CHECK(seen == sizes);
  }
}

TEST_CASE("the last parameters come first, as backward completes them", "[shares]") {
  const auto buckets = share_out({kBucketSize, kBucketSize, 10}, 2);
  REQUIRE(!buckets.empty());
  CHECK(buckets.front().fragments.front().parameter == 2);
  CHECK(buckets.back().fragments.back().parameter == 0);
}

TEST_CASE("a model that is smaller than the group has ranks without a part", "[shares]") {
  const auto buckets = share_out({3, 5}, 4);
  REQUIRE(buckets.size() == 1);
  CHECK(buckets[0].size_of(0) + buckets[0].size_of(1) + buckets[0].size_of(2) +
            buckets[0].size_of(3) ==
        8);
  CHECK(share_out({}, 2).empty());
}
