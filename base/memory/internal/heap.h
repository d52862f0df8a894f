#pragma once

#include <cstddef>
#include <map>
#include <set>

namespace tapegrad {

// Hands out blocks of any size, for all but small tensors. The blocks are cut out of large
// stretches of address space, which lie on huge pages. A request takes the smallest free block that
// is large enough; the rest of that block stays free; free neighbours are joined. So a process
// takes hardly more memory from the system than its tensors hold at their peak. Not safe to use
// from several threads.
//
// A block is fresh until it is first in use: the system has given addresses for it, but no memory.
// Afterwards it is resident. Free resident blocks are used before fresh ones.
class Heap {
 public:
  // A block that begins on a page of memory. Null if the system has no addresses left.
  void* allocate(std::size_t bytes);
  void deallocate(void* block) noexcept;
  // The size of the block that a request for so many bytes gets.
  static std::size_t rounded(std::size_t bytes);
  // Gives all free blocks back to the system.
  void release() noexcept;

  // Bytes of blocks in use, and bytes of all resident blocks.
  std::size_t used() const { return used_; }
  std::size_t resident() const { return resident_; }

 private:
  using FreeBlocks = std::set<std::pair<std::size_t, std::byte*>>;  // by size, then by address
  struct Block {
    std::size_t size;
    bool resident;
    // While the block is in use, its node for the set of free blocks is kept here, so that freeing
    // the block needs no memory.
    FreeBlocks::node_type entry = {};
    bool is_free() const { return entry.empty(); }
  };
  using Blocks = std::map<std::byte*, Block>;

  Blocks::iterator find_free(std::size_t size);
  Blocks::iterator find_fresh(std::size_t size);
  bool add_stretch(std::size_t bytes);
  void add_free(std::byte* begin, std::size_t size, bool resident);
  FreeBlocks& free_like(const Block& block) { return free_[block.resident ? 1 : 0]; }
  // True if the next block begins where this one ends.
  bool touches_next(Blocks::iterator block) const;
  void grow(Blocks::iterator block, std::size_t size) noexcept;
  void resize_free(Blocks::iterator block, std::size_t size) noexcept;
  void join_next(Blocks::iterator block) noexcept;

  Blocks blocks_;
  FreeBlocks free_[2];  // fresh; resident
  std::size_t next_stretch_ = std::size_t{64} << 20;
  std::size_t used_ = 0, resident_ = 0;
};

}  // namespace tapegrad
