#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/text_tree.h"
#include "tapegrad/data/tokenize/train/internal/unigram_train.h"

namespace tapegrad::data {

// All ways to cut a word into pieces. Each of its characters must be a piece.
class PieceLattice {
 public:
  PieceLattice(const TextTree& tree, std::span<const ScoredPiece> pieces)
      : tree_(tree), pieces_(pieces) {}

  void set_word(std::string_view word);
  // Adds, to the value of each piece, `weight` times the number of its occurrences that is expected
  // by the probabilities of all ways. Returns the logarithm of the word's probability.
  double add_expected(double weight, std::span<double> expected);
  // The likeliest way: its pieces, from the last one on. `but`: a piece that is not taken as a
  // whole word, or -1; no way is left where the word is one character.
  const std::vector<std::int32_t>& best(std::int32_t but = -1);

 private:
  struct Edge {
    std::size_t begin, end;
    std::int32_t piece;
  };
  double score(const Edge& edge) const {
    return pieces_[static_cast<std::size_t>(edge.piece)].score;
  }

  const TextTree& tree_;
  std::span<const ScoredPiece> pieces_;
  std::size_t size_ = 0;                 // of the word
  std::vector<Edge> edges_;              // by their begins
  std::vector<double> before_, behind_;  // logarithms of the sums over all ways to a place, and on
  std::vector<std::int32_t> way_;
};

}  // namespace tapegrad::data
