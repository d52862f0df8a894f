#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/comm/processes.h"

namespace tapegrad::run {

// The order in which ranks have the batches of a step. Without groups, rank r has the batches r,
// r + R, … of R ranks. Of G groups of neighbours, of K ranks each, group g has the batches g,
// g + G, … and its member m the batches g + G m, g + G m + R, …
struct RankOrder {
  int ranks = 1, groups = 1;

  int members() const { return ranks / groups; }
  int group_of(int rank) const { return rank / members(); }
  // The first batch of that rank, and the rank whose first batch that is.
  int first_batch(int rank) const { return group_of(rank) + groups * (rank % members()); }
  int rank_of(int batch) const { return batch % groups * members() + batch / groups; }
};

// Rank r of R processes has made values r, r + R, … of `count`: all of them, in order. If a signal
// has asked one of the processes to stop, it interrupts all. Null: one process has made them all.
// With `groups`, their order is RankOrder's.
template <class T>
std::vector<T> in_order(std::vector<T> own, std::size_t count, Processes* processes,
                        std::optional<int> groups = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (processes == nullptr) return own;
  std::string mine(1, interrupt_requested() ? 1 : 0);
  mine.append(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(T));
  const std::vector<std::string> all = processes->all_gather(mine);
  for (const std::string& text : all) {
    if (text.front() != 0) interrupt();
  }
  const int ranks = processes->size();
  const RankOrder order{ranks, groups.value_or(ranks)};
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int turn = static_cast<int>(i % all.size());
    const auto rank = static_cast<std::size_t>(order.rank_of(turn));
    const char* from = all[rank].data() + 1 + i / all.size() * sizeof(T);
    std::memcpy(&values[i], from, sizeof(T));
  }
  return values;
}

}  // namespace tapegrad::run
