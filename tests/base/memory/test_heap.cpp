#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tapegrad/base/memory/internal/heap.h"
#include "tapegrad/tests/catch.h"

using tapegrad::Heap;

namespace {

constexpr std::size_t kPage = 4096, kMiB = std::size_t{1} << 20;

struct Piece {
  unsigned char* data;
  std::size_t size;
  unsigned char mark;
};

bool intact(const Piece& p) {
  for (std::size_t i = 0; i < p.size; i += 512) {
    if (p.data[i] != p.mark) return false;
  }
  return p.data[p.size - 1] == p.mark;
}

}  // namespace

TEST_CASE("blocks of a heap keep apart whatever comes and goes", "[heap]") {
  Heap heap;
  std::mt19937 random(1);
  std::vector<Piece> pieces;
  std::size_t used = 0, most = 0;
  for (int i = 0; i < 4000; ++i) {
    if (i % 1000 == 999) heap.release();
    const bool take = pieces.empty() || random() % 100 < (i / 500 % 2 == 0 ? 60U : 40U);
    if (take) {
      const std::size_t size = 1 + random() % 300'000;
      auto* data = static_cast<unsigned char*>(heap.allocate(size));
      REQUIRE(data != nullptr);
      REQUIRE(reinterpret_cast<std::uintptr_t>(data) % kPage == 0);
      pieces.push_back({data, size, static_cast<unsigned char>(random())});
      std::memset(data, pieces.back().mark, size);
      used += (size + kPage - 1) / kPage * kPage;
    } else {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      REQUIRE(intact(pieces.back()));
      used -= (pieces.back().size + kPage - 1) / kPage * kPage;
      heap.deallocate(pieces.back().data);
      pieces.pop_back();
    }
    REQUIRE(heap.used() == used);
    REQUIRE(heap.resident() >= used);
    most = std::max(most, used);
  }
  for (const Piece& p : pieces) CHECK(intact(p));
  // Little is lost between blocks of random sizes.
  CHECK(heap.resident() < most + most / 4);
}

TEST_CASE("freed neighbours become one block, at both sides", "[heap]") {
  for (const bool forwards : {true, false}) {
    Heap heap;
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(heap.allocate(kMiB));
    CHECK(heap.resident() == 8 * kMiB);
    if (forwards) {
      for (int i = 0; i < 8; ++i) heap.deallocate(blocks[static_cast<std::size_t>(i)]);
    } else {
      for (int i = 8; i-- > 0;) heap.deallocate(blocks[static_cast<std::size_t>(i)]);
    }
    CHECK(heap.allocate(8 * kMiB) == blocks[0]);
    CHECK(heap.resident() == 8 * kMiB);
  }
}

TEST_CASE("a heap takes no more from the system than what it is short of", "[heap]") {
  Heap heap;
  heap.allocate(kMiB);
  void* last = heap.allocate(2 * kMiB);
  heap.deallocate(last);
  CHECK(heap.allocate(3 * kMiB) == last);  // what is free at the end grows
  CHECK(heap.resident() == 4 * kMiB);
  void* large = heap.allocate(std::size_t{3} << 30);  // larger than what is asked for at a time
  REQUIRE(large != nullptr);
  CHECK(heap.resident() == 4 * kMiB + (std::size_t{3} << 30));
  heap.deallocate(large);
  heap.release();
  CHECK(heap.resident() == 4 * kMiB);
  CHECK(heap.allocate(std::size_t{1} << 47) == nullptr);  // more than there are addresses for
}

TEST_CASE("a free block takes what it is short of from the fresh one behind it", "[heap]") {
  Heap heap;
  void* first = heap.allocate(40 * kMiB);
  heap.deallocate(first);
  // Neither the 40 MiB nor the 24 that are left of the stretch would do alone.
  CHECK(heap.allocate(56 * kMiB) == first);
  CHECK(heap.resident() == 56 * kMiB);
}

TEST_CASE("released memory goes back to the system, addresses and all", "[heap]") {
  Heap heap;
  auto* kept = static_cast<char*>(heap.allocate(kMiB));
  void* block = heap.allocate(kMiB);
  std::memset(kept, 7, kMiB);
  heap.deallocate(block);
  heap.release();
  CHECK(heap.resident() == kMiB);
  CHECK(kept[5] == 7);
  unsigned char there = 0;
  CHECK(mincore(block, kPage, &there) == -1);  // nothing is mapped there
  auto* again = static_cast<char*>(heap.allocate(kMiB));
  CHECK(heap.resident() == 2 * kMiB);
  again[5] = 3;
  CHECK(again[5] == 3);
}
