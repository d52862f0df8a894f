#include "tapegrad/nn/generation/speculative/lookup.h"

#include <algorithm>

namespace tapegrad::nn {
namespace {

// Of eight rows, the last seven cost about as much as one or two passes, by the model's size. So
// proposals pay if a good third of them is right.
constexpr double kWorthwhile = 0.4;
constexpr double kNewest = 0.25;  // the weight of the last proposal
constexpr std::int64_t kLeastPause = 4, kMostPause = 64;

// How many tokens before `a` and before `b` are equal, up to `most`.
std::size_t match_before(const std::int32_t* a, const std::int32_t* b, std::size_t most) {
  std::size_t n = 0;
  while (n < most &&
         a[-1 - static_cast<std::ptrdiff_t>(n)] == b[-1 - static_cast<std::ptrdiff_t>(n)]) {
    ++n;
  }
  return n;
}

// The place behind the latest of the longest matches with the text's end, of at least `shortest`
// tokens; the end if there is none.
std::size_t place_in(std::span<const std::int32_t> text, std::size_t shortest) {
  const std::int32_t* const end = text.data() + text.size();
  std::size_t place = text.size(), longest = shortest - 1;
  for (std::size_t at = text.size() - 1; at > longest; --at) {
    const std::size_t most = std::min<std::size_t>(at, Lookup::kLongest);
    const std::size_t match = match_before(text.data() + at, end, most);
    if (match <= longest) continue;
    place = at;
    longest = match;
    if (longest == Lookup::kLongest) break;
  }
  return place;
}

}  // namespace

Tokens Lookup::propose(std::span<const std::int32_t> text, std::int64_t most, const Rng&) {
  if (waits_ > 0) {
    --waits_;
    return {};
  }
  const auto count = static_cast<std::size_t>(std::min(most, reach_));
  const auto searched = text.last(std::min<std::size_t>(text.size(), kSearched));
  const std::size_t shortest = share_ < kWorthwhile ? kShortest + 1 : kShortest;
  if (most <= 0 || searched.size() <= shortest) return {};
  const std::size_t place = place_in(searched, shortest);
  Tokens proposal;
  // A place near the end runs into the proposal itself: a text that repeats itself goes on so.
  for (std::size_t i = place; place < searched.size() && proposal.size() < count; ++i) {
    proposal.push_back(i < searched.size() ? searched[i] : proposal[i - searched.size()]);
  }
  return proposal;
}

void Lookup::learn(std::int64_t proposed, std::int64_t right) {
  share_ += kNewest * (static_cast<double>(right) / static_cast<double>(proposed) - share_);
  reach_ = right == proposed ? std::min(2 * reach_, kMostLookup) : right + 1;
  if (share_ >= kWorthwhile) {
    pause_ = 0;
    return;
  }
  reach_ = 1;
  pause_ = std::clamp(2 * pause_, kLeastPause, kMostPause);
  waits_ = pause_;
}

}  // namespace tapegrad::nn
