#include "tapegrad/base/memory/dry_run.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "tapegrad/base/error.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad {

struct DryRun::Counters {
  std::atomic<std::size_t> live{0}, peak{0};
  bool draws = false;
};

namespace {

using Counters = std::shared_ptr<DryRun::Counters>;

constexpr std::size_t kAlignment = 64;
// Blocks below this size are ordinary zeroed memory: a mapping each would cost more than they do.
constexpr std::size_t kMapped = std::size_t{1} << 16;
// Blocks above this size, more than any machine has, get addresses that nobody can read or write.
// So counting the parameters of a model does not depend on how many addresses there are.
constexpr std::uint64_t kUntouchable = std::uint64_t{1} << 40;

thread_local Counters* current = nullptr;

struct Block {
  std::size_t bytes, held;
  bool mapped;
  Counters counters;
};

// Blocks by their addresses. Never destroyed: tensors of a dry run may have static lifetime.
struct Registry {
  std::mutex mutex;
  std::unordered_multimap<void*, Block> blocks;
  std::atomic<std::size_t> size{0};
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

void* map(std::size_t bytes, int protection) {
  void* block =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return block == MAP_FAILED ? nullptr : block;
}

// Says what keeps this process from `bytes` more of addresses.
[[noreturn]] void fail_without_addresses(std::size_t bytes) {
  const std::optional<AvailableMemory> memory = available_memory();
  if (!memory || !memory->limit.starts_with("ulimit")) {
    throw NoAddresses(fmt::format("out of memory: the system gives a dry run no {} of addresses",
                                  size_text(static_cast<double>(bytes))));
  }
  const double used = memory->total - memory->bytes;
  const double least = std::max(used + static_cast<double>(bytes), memory->total);
  throw NoAddresses(fmt::format(
      "the process limit ({0}) of {1} is too small even to estimate this run: the estimate takes "
      "addresses for all tensors that live at once, more than {2}, and no memory; how many "
      "altogether is known at its end alone. Raise the limit, for example with '{0} unlimited'",
      memory->limit, size_text(memory->total), size_text(least)));
}

// The next of a quarter of a million addresses, after which they are given out again: blocks of one
// address are searched one by one, so there must not be many.
void* untouchable_address() {
  constexpr std::size_t count = std::size_t{1} << 18;
  static std::atomic<std::size_t> next{0};
  static void* const first = map(count * kAlignment, PROT_NONE);
  if (first == nullptr) fail_without_addresses(count * kAlignment);
  return static_cast<std::byte*>(first) + next++ % count * kAlignment;
}

void* zeroed(std::size_t bytes) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* block = std::aligned_alloc(kAlignment, size);
  if (block == nullptr) fail_without_addresses(bytes);
  return std::memset(block, 0, size);
}

}  // namespace

DryRun::DryRun(Draws draws) : counters_(std::make_shared<Counters>()), outer_(current) {
  counters_->draws = draws == Draws::made;
  current = &counters_;
}
DryRun::~DryRun() { current = outer_; }

std::size_t DryRun::live() const { return counters_->live; }
std::size_t DryRun::peak() const { return counters_->peak; }
void DryRun::reset_peak() { counters_->peak = counters_->live.load(); }

bool in_dry_run() { return current != nullptr; }

bool dry_run_draws() { return in_dry_run() && (*current)->draws; }

void* detail::allocate_dry(std::size_t bytes, std::size_t held) {
  void* block = nullptr;
  bool mapped = false;
  if (bytes < kMapped) {
    block = zeroed(bytes);
  } else {
    mapped = bytes < kUntouchable;
    block = mapped ? map(bytes, PROT_READ | PROT_WRITE) : untouchable_address();
    if (block == nullptr) fail_without_addresses(bytes);
  }
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.blocks.emplace(block, Block{bytes, held, mapped, *current});
  ++r.size;
  DryRun::Counters& counters = **current;
  counters.live += held;
  counters.peak = std::max<std::size_t>(counters.peak, counters.live);
  return block;
}

bool detail::deallocate_dry(void* block, std::size_t bytes) noexcept {
  Registry& r = registry();
  if (r.size == 0) return false;
  const std::lock_guard lock(r.mutex);
  auto [it, end] = r.blocks.equal_range(block);
  while (it != end && it->second.bytes != bytes) ++it;
  if (it == end) return false;
  it->second.counters->live -= it->second.held;
  if (it->second.mapped) {
    munmap(block, bytes);
  } else if (bytes < kMapped) {
    std::free(block);
  }
  r.blocks.erase(it);
  --r.size;
  return true;
}

}  // namespace tapegrad
