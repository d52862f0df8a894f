#include "autograd/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace tapegrad {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;
// What the system is asked for at a time: addresses cost nothing until they are used.
constexpr std::size_t kStretch = std::size_t{1} << 30;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// `size` bytes of addresses that begin on a huge page, or null.
std::byte* map_aligned(std::size_t size) {
  // Mapped with room to spare, so that the part that starts on a huge page can be cut out.
  void* mapped = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapped);
  const std::size_t skip = round_up(reinterpret_cast<std::uintptr_t>(start), kHugePage) -
                           reinterpret_cast<std::uintptr_t>(start);
  if (skip > 0) munmap(start, skip);
  munmap(start + skip + size, kHugePage - skip);
  madvise(start + skip, size, MADV_HUGEPAGE);
  return start + skip;
}

}  // namespace

bool Heap::add_stretch(std::size_t bytes) {
  std::size_t size = std::max(kStretch, round_up(bytes, kHugePage));
  std::byte* start = map_aligned(size);
  if (start == nullptr) {  // a process may be short of addresses, too
    size = round_up(bytes, kHugePage);
    start = map_aligned(size);
  }
  if (start == nullptr) return false;
  blocks_.emplace(start, Block{size, stretches_++, false});
  free_[0].emplace(size, start);
  return true;
}

void* Heap::allocate(std::size_t bytes) {
  const std::size_t size = round_up(bytes, kPage);
  const auto block = find_free(size);
  if (block == blocks_.end()) return nullptr;
  Block& taken = block->second;
  const std::size_t rest = taken.size - size;
  if (rest > 0) {
    std::byte* const begin = block->first + size;
    blocks_.emplace(begin, Block{rest, taken.stretch, taken.resident});
    free_like(taken).emplace(rest, begin);
  }
  taken.entry = free_like(taken).extract({taken.size, block->first});
  taken.size = size;
  if (!std::exchange(taken.resident, true)) resident_ += size;
  used_ += size;
  return block->first;
}

Heap::Blocks::iterator Heap::find_free(std::size_t size) {
  const auto resident = free_[1].lower_bound({size, nullptr});
  if (resident != free_[1].end()) return blocks_.find(resident->second);
  auto fresh = free_[0].lower_bound({size, nullptr});
  if (fresh == free_[0].end()) {
    if (!add_stretch(size)) return blocks_.end();
    fresh = free_[0].lower_bound({size, nullptr});
  }
  const auto block = blocks_.find(fresh->second);
  if (block == blocks_.begin()) return block;
  const auto before = std::prev(block);
  const Block& b = before->second;
  const bool joins = b.is_free() && b.resident && b.stretch == block->second.stretch;
  return joins ? grow(before, size) : block;
}

// Makes a free resident block as large as `size` at the cost of the fresh one behind it.
Heap::Blocks::iterator Heap::grow(Blocks::iterator block, std::size_t size) {
  const auto next = std::next(block);
  const std::size_t added = size - block->second.size;
  Block rest = {next->second.size - added, next->second.stretch, false};
  std::byte* const begin = next->first + added;
  free_[0].erase({next->second.size, next->first});
  blocks_.erase(next);
  if (rest.size > 0) {
    free_[0].emplace(rest.size, begin);
    blocks_.emplace(begin, std::move(rest));
  }
  resize_free(block, size);
  resident_ += added;
  return block;
}

void Heap::resize_free(Blocks::iterator block, std::size_t size) noexcept {
  auto entry = free_like(block->second).extract({block->second.size, block->first});
  block->second.size = size;
  entry.value().first = size;
  free_like(block->second).insert(std::move(entry));
}

void Heap::deallocate(void* memory) noexcept {
  const auto block = blocks_.find(static_cast<std::byte*>(memory));
  Block& freed = block->second;
  used_ -= freed.size;
  freed.entry.value() = {freed.size, block->first};
  free_like(freed).insert(std::move(freed.entry));
  join_next(block);
  if (block != blocks_.begin()) join_next(std::prev(block));
}

// Makes one of this block and the next, if both are free and of one kind.
void Heap::join_next(Blocks::iterator block) noexcept {
  const auto next = std::next(block);
  if (next == blocks_.end()) return;
  Block &a = block->second, &b = next->second;
  if (!a.is_free() || !b.is_free() || a.stretch != b.stretch || a.resident != b.resident) return;
  free_like(b).erase({b.size, next->first});
  resize_free(block, a.size + b.size);
  blocks_.erase(next);
}

void Heap::release() noexcept {
  for (auto& [begin, block] : blocks_) {
    if (!block.is_free() || !block.resident) continue;
    madvise(begin, block.size, MADV_DONTNEED);
    resident_ -= block.size;
    auto entry = free_[1].extract({block.size, begin});
    block.resident = false;
    free_[0].insert(std::move(entry));
  }
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const std::size_t before = blocks_.size();
    join_next(block);
    if (blocks_.size() == before) ++block;
  }
}

}  // namespace tapegrad
