#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/bpe/piece_model.h"
#include "tapegrad/data/tokenize/sentencepiece/unknown_text.h"
#include "tapegrad/data/tokenize/text_tree.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// SentencePiece's Unigram (Kudo 2018, "Subword Regularization"): of all ways to divide a piece into
// tokens, the one whose scores, logarithms of probabilities, have the largest sum, found by
// Viterbi's algorithm. Of equal sums the first token to end at a place stays, as in Hugging Face's.
class Unigram : public PieceModel {
 public:
  // `text`: valid UTF-8, not empty, not added before. `score`: finite.
  void add(std::string_view text, Token token, double score);
  // A character that begins no token of its own is unknown, at the cost of 10 more than the least
  // score.
  void set_unknown(const UnknownText& unknown) { unknown_ = unknown; }

  // Error if a character is unknown and there is no token for it.
  void encode(std::string_view piece, std::vector<Token>& out) const override;

 private:
  struct Best {  // the best way to a place
    double score = 0;
    std::size_t begin = SIZE_MAX;  // of its last token; SIZE_MAX: there is no way
    Token token = 0;
  };
  std::vector<Best> best_ways(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<Token>& out) const;

  static constexpr double kUnknownPenalty = 10;
  TextTree tokens_;
  std::vector<double> scores_;  // of each token
  double least_ = std::numeric_limits<double>::infinity();
  UnknownText unknown_;
};

}  // namespace tapegrad::data
