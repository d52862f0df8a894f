#include "tapegrad/base/memory/memory.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/memory/internal/heap.h"

namespace tapegrad {
namespace {

constexpr std::size_t kBlockAlignment = 64;
// Blocks of this size or more are the heap's, on huge pages: others cost a page fault for every 4
// KiB when they are first used, which takes as long as a product on some virtual machines.
constexpr std::size_t kLarge = std::size_t{1} << 15;

// Small sizes are rounded up to a multiple of an eighth of the power of two below them. This wastes
// 12.5 % at most, and requests of nearly equal size can use each other's blocks.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::max(kBlockAlignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

// A number for each rounded size: 1 to 7 for 64 to 448 bytes, then eight for each power of two.
std::size_t class_of(std::size_t rounded_bytes) {
  const std::size_t eighths = rounded_bytes / kBlockAlignment;
  if (eighths < 8) return eighths;
  const auto doublings = static_cast<std::size_t>(std::bit_width(eighths)) - 4;
  return 8 * doublings + (eighths >> doublings);
}

// The bytes that a block of that size takes, be it small or the heap's.
std::size_t held(std::size_t bytes) {
  return bytes < kLarge ? rounded(bytes) : Heap::rounded(bytes);
}

std::size_t physical_memory() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

class Cache {
 public:
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    void* block = bytes <= physical_memory() ? try_allocate(bytes) : nullptr;
    if (block == nullptr && bytes <= physical_memory()) {
      release_all();
      block = try_allocate(bytes);
    }
    check(block != nullptr, "out of memory: {} MiB asked for, {} MiB in use", bytes >> 20,
          live() >> 20);
    // The system lets a process ask for more memory than there is, and kills the process when it
    // uses that memory.
    if (reserved() > physical_memory()) release_all();
    peak_ = std::max(peak_, live());
    return block;
  }

  void deallocate(void* block, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (bytes >= kLarge) return heap_.deallocate(block);
    small_live_ -= rounded(bytes);
    small_[class_of(rounded(bytes))].free.push_back(block);  // does not throw: see allocate_small
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return {live(), peak_, reserved(), system_calls_};
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = live();
  }
  void release() {
    const std::lock_guard lock(mutex_);
    release_all();
  }

 private:
  struct SizeClass {
    std::size_t size = 0;    // of each block
    std::size_t blocks = 0;  // in use or not
    std::vector<void*> free;
  };

  std::size_t live() const { return small_live_ + heap_.used(); }
  std::size_t reserved() const { return small_reserved_ + heap_.resident(); }

  // Null if the system has no memory left.
  void* try_allocate(std::size_t bytes) {
    try {
      if (bytes < kLarge) return allocate_small(rounded(bytes));
      const std::size_t before = heap_.resident();
      void* block = heap_.allocate(bytes);
      system_calls_ += heap_.resident() > before;
      return block;
    } catch (const std::bad_alloc&) {  // no memory even for the block's bookkeeping
      return nullptr;
    }
  }

  void* allocate_small(std::size_t size) {
    SizeClass& c = small_[class_of(size)];
    void* block = nullptr;
    if (!c.free.empty()) {
      block = c.free.back();
      c.free.pop_back();
    } else {
      // `free` always has room for all blocks of this size, so that deallocate() cannot fail.
      if (c.free.capacity() <= c.blocks) c.free.reserve(2 * c.blocks + 1);
      block = std::aligned_alloc(kBlockAlignment, size);
      if (block == nullptr) return nullptr;
      c.size = size;
      ++c.blocks;
      ++system_calls_;
      small_reserved_ += size;
    }
    small_live_ += size;
    return block;
  }

  void release_all() {
    heap_.release();
    for (SizeClass& c : small_) {
      for (void* block : c.free) std::free(block);
      small_reserved_ -= c.size * c.free.size();
      c.blocks -= c.free.size();
      c.free.clear();
    }
  }

  std::mutex mutex_;
  std::array<SizeClass, 128> small_;  // by class_of: more than those of blocks below kLarge
  Heap heap_;
  std::size_t small_live_ = 0, small_reserved_ = 0, peak_ = 0, system_calls_ = 0;
};

// Never destroyed, since tensors with static lifetime may outlive every other static object.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return in_dry_run() ? detail::allocate_dry(bytes, held(bytes)) : cache().allocate(bytes);
}
void deallocate(void* block, std::size_t bytes) noexcept {
  if (block != nullptr && !detail::deallocate_dry(block, bytes)) cache().deallocate(block, bytes);
}
MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void release_cached_memory() { cache().release(); }

}  // namespace tapegrad
