#include "autograd/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "autograd/check.h"

namespace tapegrad {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{1} << 20;

// Sizes are rounded up to a multiple of an eighth of their power of two: at most 12.5 % is lost,
// and requests of nearly equal size find each other's blocks.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(bytes) / 8);
  const std::size_t size = (bytes + step - 1) / step * step;
  return size >= kLarge ? (size + kHugePage - 1) / kHugePage * kHugePage : size;
}

std::size_t physical_memory() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

class Cache {
 public:
  void* allocate(std::size_t bytes) {
    check(bytes < (std::size_t{1} << 48), "cannot allocate {} bytes", bytes);
    const std::size_t size = rounded(bytes);
    const std::lock_guard lock(mutex_);
    void* block = from_cache(size);
    if (block == nullptr) {
      // The system lets a process ask for more memory than there is, and ends it when it is used.
      if (stats_.reserved + size > physical_memory()) release_all();
      block = from_system(size);
    }
    if (block == nullptr) {
      release_all();
      block = from_system(size);
    }
    check(block != nullptr, "out of memory: {} MiB asked for, {} MiB in use", size >> 20,
          stats_.live >> 20);
    stats_.live += size_of_block(block, size);
    stats_.peak = std::max(stats_.peak, stats_.live);
    return block;
  }

  void deallocate(void* block, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t size = size_of_block(block, rounded(bytes));
    stats_.live -= size;
    free_[size].push_back(block);  // which has room for all blocks of this size
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    release_all();
  }

 private:
  // A small block is reused for its own size only. A large one may serve a request of half its
  // size: that wastes nothing, as it lay idle, and saves asking the system for more.
  void* from_cache(std::size_t size) {
    const std::size_t most = size < kLarge ? size : 2 * size;
    auto it = free_.lower_bound(size);
    while (it != free_.end() && it->first <= most && it->second.empty()) ++it;
    if (it == free_.end() || it->first > most) return nullptr;
    void* block = it->second.back();
    it->second.pop_back();
    return block;
  }

  std::size_t size_of_block(void* block, std::size_t size) const {
    return size < kLarge ? size : large_.at(block);
  }

  void* from_system(std::size_t size) {
    void* block = size < kLarge ? std::aligned_alloc(kAlignment, size) : map_large(size);
    if (block == nullptr) return nullptr;
    ++stats_.system_calls;
    stats_.reserved += size;
    free_[size].reserve(++blocks_[size]);
    if (size >= kLarge) large_[block] = size;
    return block;
  }

  static void* map_large(std::size_t size) {
    // Mapped with room to spare, so that a part that starts on a huge page can be cut out.
    void* mapped =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* start = static_cast<std::byte*>(mapped);
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    const std::size_t skip = (kHugePage - address % kHugePage) % kHugePage;
    if (skip > 0) munmap(start, skip);
    munmap(start + skip + size, kHugePage - skip);
    madvise(start + skip, size, MADV_HUGEPAGE);
    return start + skip;
  }

  void release_all() {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) {
        if (size < kLarge) {
          std::free(block);
        } else {
          munmap(block, size);
          large_.erase(block);
        }
      }
      stats_.reserved -= size * blocks.size();
      blocks_[size] -= blocks.size();
      blocks.clear();
    }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  std::map<std::size_t, std::size_t> blocks_;     // how many of each size there are, in use or not
  std::unordered_map<void*, std::size_t> large_;  // sizes of all blocks of kLarge and more
  MemoryStats stats_;
};

// Never destroyed: tensors with static lifetime may outlive every other static object.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

void* allocate(std::size_t bytes) { return bytes == 0 ? nullptr : cache().allocate(bytes); }
void deallocate(void* block, std::size_t bytes) noexcept {
  if (block != nullptr) cache().deallocate(block, bytes);
}
MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void release_cached_memory() { cache().release(); }

}  // namespace tapegrad
