#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/tokenize/bpe/token_chain.h"

namespace tapegrad::data {

// The most frequent pair of neighbouring tokens in weighted words, again and again (Sennrich,
// Haddow, Birch 2016). The weighted count of a pair is always exact; its list of positions may
// contain outdated ones. A merge visits only the positions of its own pair, so the cost of training
// is proportional to the number of positions that change.
class MergeTrainer {
 public:
  // `token_sizes`: the bytes of each token that words begin with. No merge makes a token of more
  // than `most_bytes`.
  MergeTrainer(std::vector<std::size_t> token_sizes, std::size_t most_bytes)
      : token_size_(std::move(token_sizes)), most_bytes_(most_bytes) {}

  void reserve(std::size_t tokens);
  // The next token of a word of that weight.
  void append(Token token, bool begins_word, std::int64_t weight);
  // Counts the pairs; after the last append().
  void count();

  // Removes the most frequent pair from the queue and returns it, of equally frequent ones that
  // with the smaller ids. nullopt if no pair occurs twice. The caller merges it, or leaves it.
  std::optional<Merge> take_best();
  // Merges all occurrences of `pair` into the next new token, or into one that there is already.
  Token merge(Merge pair);
  void merge_into(Merge pair, Token token);

  std::int64_t tokens() const { return static_cast<std::int64_t>(token_size_.size()); }

 private:
  using Position = TokenChain::Position;
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<Position> positions;
  };
  struct Candidate {
    std::int64_t count;
    Merge pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add(Position p);
  void remove(Position p);
  void enqueue(Merge pair, std::int64_t count);
  std::size_t merged_size(Merge pair) const {
    return token_size_[static_cast<std::size_t>(pair.first)] +
           token_size_[static_cast<std::size_t>(pair.second)];
  }

  TokenChain chain_;
  std::vector<std::int64_t> weight_;  // of each position
  std::vector<std::size_t> token_size_;
  std::size_t most_bytes_;
  std::unordered_map<std::uint64_t, Occurrences> pairs_;  // by pair_key()
  // A candidate's count may be outdated: too high, but never too low.
  std::priority_queue<Candidate> queue_;
};

}  // namespace tapegrad::data
