#pragma once

#include <cstddef>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The caching allocator behind every tensor. Freed memory is kept and handed out again. A training
// step asks for the same sizes each time, so only the first steps ask the system for memory. Small
// blocks are kept in a list per size; larger ones are cut out of huge pages (heap.h). Blocks are
// 64-byte aligned. Safe to use from any thread.

struct MemoryStats {
  std::size_t live = 0;      // bytes held by tensors now
  std::size_t peak = 0;      // the largest `live` so far
  std::size_t reserved = 0;  // bytes taken from the system: live and cached
  // How often the system was asked for memory, or memory was used that had never been used before.
  std::size_t system_calls = 0;
};

// A block of at least `bytes` bytes, contents unspecified; nullptr for 0 bytes. Error if the system
// has no memory left, even after all cached blocks were given back.
void* allocate(std::size_t bytes);
// Gives back a block that allocate(bytes) returned. `bytes` must be the same number.
void deallocate(void* block, std::size_t bytes) noexcept;

// A block that is given back when this object is destroyed.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes), data_(allocate(bytes)) {}
  ~Scratch() { deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

MemoryStats memory_stats();
void reset_peak_memory();
// Returns every cached block to the system.
void release_cached_memory();

}  // namespace tapegrad
