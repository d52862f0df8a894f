#pragma once

#include <cstddef>
#include <memory>

#include "tapegrad/base/cxx20.h"
#include "tapegrad/base/error.h"

namespace tapegrad {

// Measures the memory of a computation without doing it. While a DryRun lives, on its thread:
//   - allocate() hands out addresses that have no memory behind them until they are written to, and
//     that read as zeros. The DryRun counts their bytes, and memory_stats() does not;
//   - parallel_for() and gemm() return at once, so that kernels compute nothing.
// So a training step of any model, forward, backward and update, takes milliseconds, and peak() is
// the memory that it would have needed, but for scratch memory inside of parallel loops. Numbers
// that come out are invalid, mostly 0. Tensors of before may take part; what a kernel would have
// written to them is not written.
class DryRun {
 public:
  // With `made`, random numbers are drawn, so that generators end where they would have ended;
  // otherwise they may stay where they are.
  enum class Draws { left_out, made };
  explicit DryRun(Draws draws = Draws::left_out);
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  std::size_t live() const;  // bytes that tensors of this run hold now
  std::size_t peak() const;  // the largest `live` so far, or since reset_peak()
  void reset_peak();

  struct Counters;

 private:
  std::shared_ptr<Counters> counters_;  // shared with the tensors, which may outlive the run
  std::shared_ptr<Counters>* outer_;    // of the dry run around this one, or null
};

// A limit of this process leaves a dry run too few addresses: no op is at fault, so that none names
// itself before the text.
class NoAddresses : public Error {
 public:
  using Error::Error;
};

// True if a DryRun lives on this thread, or if one lives that draws random numbers.
bool in_dry_run();
bool dry_run_draws();

namespace detail {
// For memory.cpp. A block of `bytes` for the thread's dry run, which counts `held` for it.
void* allocate_dry(std::size_t bytes, std::size_t held);
// False, having done nothing, if no dry run has made the block.
bool deallocate_dry(void* block, std::size_t bytes) noexcept;
}  // namespace detail

}  // namespace tapegrad
