#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// How a piece of text, across whose borders no token reaches, becomes tokens.
class PieceModel {
 public:
  virtual ~PieceModel() = default;

  // Appends the tokens of `piece`.
  virtual void encode(std::string_view piece, std::vector<Token>& out) const = 0;
  // A piece may be longer than a word. The bytes of its first part: the tokens of the parts, one
  // after the other, are those of the piece. `piece` is not empty.
  virtual std::size_t first_part(std::string_view piece) const { return piece.size(); }
};

}  // namespace tapegrad::data
