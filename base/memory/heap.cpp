#include "tapegrad/base/memory/internal/heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace tapegrad {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// The most that the system is asked for at a time. Addresses cost nothing until they are used, but
// a process may have few of them (ulimit -v).
constexpr std::size_t kLargestStretch = std::size_t{1} << 30;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::size_t page() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// `size` bytes of addresses that begin on a huge page, or null.
std::byte* map_aligned(std::size_t size) {
  // Maps one huge page more than needed, then unmaps what lies before and behind the aligned part.
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

std::size_t Heap::rounded(std::size_t bytes) { return round_up(bytes, page()); }

void* Heap::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const auto block = find_free(size);
  if (block == blocks_.end()) return nullptr;
  Block& taken = block->second;
  if (taken.size > size) add_free(block->first + size, taken.size - size, taken.resident);
  taken.entry = free_like(taken).extract({taken.size, block->first});
  taken.size = size;
  if (!std::exchange(taken.resident, true)) resident_ += size;
  used_ += size;
  return block->first;
}

Heap::Blocks::iterator Heap::find_free(std::size_t size) {
  const auto resident = free_[1].lower_bound({size, nullptr});
  if (resident != free_[1].end()) return blocks_.find(resident->second);
  const auto fresh = find_fresh(size);
  if (fresh != blocks_.end() || !add_stretch(size)) return fresh;
  return find_fresh(size);
}

// A block with fresh memory. If a free resident block lies directly before a fresh one, and both
// are large enough together, the resident block is grown into the fresh one.
Heap::Blocks::iterator Heap::find_fresh(std::size_t size) {
  for (const auto& [fresh_size, begin] : free_[0]) {
    const auto block = blocks_.find(begin);
    if (block != blocks_.begin()) {
      const auto before = std::prev(block);
      const Block& b = before->second;
      const bool joins = b.is_free() && b.resident && touches_next(before);
      if (joins && b.size + fresh_size >= size) return grow(before, size), before;
    }
    if (fresh_size >= size) return block;
  }
  return blocks_.end();
}

bool Heap::add_stretch(std::size_t bytes) {
  std::size_t size = std::max(next_stretch_, round_up(bytes, kHugePage));
  std::byte* start = map_aligned(size);
  if (start == nullptr) {
    size = round_up(bytes, kHugePage);
    start = map_aligned(size);
  }
  if (start == nullptr) return false;
  next_stretch_ = std::min(2 * next_stretch_, kLargestStretch);
  try {
    add_free(start, size, false);
  } catch (...) {
    munmap(start, size);
    throw;
  }
  return true;
}

void Heap::add_free(std::byte* begin, std::size_t size, bool resident) {
  FreeBlocks& like = free_[resident ? 1 : 0];
  const auto entry = like.emplace(size, begin).first;
  try {
    blocks_.emplace(begin, Block{size, resident});
  } catch (...) {
    like.erase(entry);
    throw;
  }
}

bool Heap::touches_next(Blocks::iterator block) const {
  const auto next = std::next(block);
  return next != blocks_.end() && block->first + block->second.size == next->first;
}

// Grows a free resident block to `size`, and shrinks the fresh block behind it by as much.
void Heap::grow(Blocks::iterator block, std::size_t size) noexcept {
  const std::size_t added = size - block->second.size;
  auto next = blocks_.extract(std::next(block));
  auto entry = free_[0].extract({next.mapped().size, next.key()});
  next.key() += added;
  next.mapped().size -= added;
  if (next.mapped().size > 0) {
    entry.value() = {next.mapped().size, next.key()};
    free_[0].insert(std::move(entry));
    blocks_.insert(std::move(next));
  }
  resize_free(block, size);
  resident_ += added;
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

// Joins this block with the next, if both are free, and both are resident or both fresh.
void Heap::join_next(Blocks::iterator block) noexcept {
  if (!touches_next(block)) return;
  const auto next = std::next(block);
  const Block &a = block->second, &b = next->second;
  if (!a.is_free() || !b.is_free() || a.resident != b.resident) return;
  free_like(b).erase({b.size, next->first});
  resize_free(block, a.size + b.size);
  blocks_.erase(next);
}

void Heap::release() noexcept {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto& [begin, b] = *block;
    if (!b.is_free() || munmap(begin, b.size) != 0) {
      ++block;
      continue;
    }
    if (b.resident) resident_ -= b.size;
    free_like(b).erase({b.size, begin});
    block = blocks_.erase(block);
  }
}

}  // namespace tapegrad
