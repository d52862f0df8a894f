#pragma once

#include <cstddef>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// The size in bytes of the first piece of `text`, which must not be empty, when GPT-2 cuts it by
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte-pair token never crosses the border between two pieces. \s is Unicode's White_Space; \p{L}
// and \p{N} are those of the installed utf8proc (2.8: Unicode 15); bytes that are not UTF-8 belong
// to none of these classes. The expression does not look at text before a piece, so a text is cut
// by calling this again on what follows the piece.
std::size_t first_piece(std::string_view text);

// The last place inside `text` between two characters where a border between pieces lies whatever
// stands before and behind; 0 if there is none. A text that is cut there has the pieces of its two
// parts. Such a place is before any character but a letter or number of the same kind if that is
// behind a letter or number, and before a space or a number if it is behind any other character but
// a space. (Behind a space, the space belongs to what follows; between other characters and letters
// there may be a contraction, 's.) `text` must be valid UTF-8; its last character may be
// incomplete.
std::size_t last_border(std::string_view text);

}  // namespace tapegrad::data
