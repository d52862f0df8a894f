#pragma once

#include <cstddef>

namespace tapegrad {

// The caching allocator behind every tensor. Freed memory is kept and handed out again, so that a
// training step, which asks for the same sizes each time, reaches the system only in its first
// rounds. Small blocks are kept by their sizes, larger ones are cut out of huge pages (heap.h).
// Blocks are 64-byte aligned. Safe to use from any thread.

struct MemoryStats {
  std::size_t live = 0;          // bytes held by tensors now
  std::size_t peak = 0;          // the largest `live` so far
  std::size_t reserved = 0;      // bytes taken from the system: live and cached
  std::size_t system_calls = 0;  // how often the system was asked for memory, or touched anew
};

// A block of at least `bytes` bytes, contents unspecified; nullptr for 0 bytes. Throws Error if the
// system has none left, even after all cached blocks were given back.
void* allocate(std::size_t bytes);
// Gives back a block of allocate(bytes): the same `bytes`.
void deallocate(void* block, std::size_t bytes) noexcept;

// A block that goes with its owner.
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
