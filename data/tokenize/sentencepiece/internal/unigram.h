#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/bpe/piece_model.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"
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
  // A user-defined piece, which nearly always wins against others. After all of these.
  void add_symbol(std::string_view text, Token token);

  // Error if a character is unknown and there is no token for it.
  void encode(std::string_view piece, std::vector<Token>& out) const override;
  // After cut_at_marks(), which is for scores of 32 bits, whose sums are exact here: ends before a
  // ▁, if that is a token, and no token has one behind its first character. So words are
  // remembered.
  std::size_t first_part(std::string_view piece) const override;
  void cut_at_marks();

 private:
  struct Best {  // the best way to a place
    double score = 0;
    std::size_t begin = SIZE_MAX;  // of its last token; SIZE_MAX: there is no way
    Token token = 0;
  };
  void set(std::string_view text, Token token, double score);
  std::vector<Best> best_ways(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<Token>& out) const;

  static constexpr double kUnknownPenalty = 10;
  TextTree tokens_;
  std::vector<double> scores_;  // of each token
  double least_ = std::numeric_limits<double>::infinity();
  // SentencePiece begins with FLT_MIN, so this is above all logarithms of probabilities.
  double largest_ = static_cast<double>(std::numeric_limits<float>::min());
  UnknownText unknown_;
  bool has_inner_mark_ = false, cuts_ = false;
};

}  // namespace tapegrad::data
