#pragma once

#include <cstddef>
#include <map>
#include <set>

namespace tapegrad {

// Blocks of any size out of large stretches of address space, for all but small tensors. The
// smallest free block that is large enough serves a request, what is left of it stays free, and
// free neighbours become one: so a process takes hardly more from the system than its tensors hold
// at their peak. Stretches lie on huge pages. Not safe to use from several threads.
class Heap {
 public:
  // Begins on a page of memory. Null if the system has no addresses left. What the system gave
  // before is used first.
  void* allocate(std::size_t bytes);
  void deallocate(void* block) noexcept;
  // Gives all free blocks back to the system.
  void release() noexcept;

  // Bytes in use, and bytes that have been in use and were not given back.
  std::size_t used() const { return used_; }
  std::size_t resident() const { return resident_; }

 private:
  using FreeBlocks = std::set<std::pair<std::size_t, std::byte*>>;  // by size, then by address
  struct Block {
    std::size_t size;
    bool resident;  // has been in use: the system has given the memory, not only the addresses
    // While the block is in use: its entry among the free ones, so that to free it needs no memory.
    FreeBlocks::node_type entry = {};
    bool is_free() const { return entry.empty(); }
  };
  using Blocks = std::map<std::byte*, Block>;

  Blocks::iterator find_free(std::size_t size);
  Blocks::iterator find_fresh(std::size_t size);
  bool add_stretch(std::size_t bytes);
  void add_free(std::byte* begin, std::size_t size, bool resident);
  FreeBlocks& free_like(const Block& block) { return free_[block.resident ? 1 : 0]; }
  // Whether the block behind this one begins where it ends.
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
