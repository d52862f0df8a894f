#pragma once

#include <cstddef>
#include <string_view>

namespace tapegrad::data {

// The size in bytes of the first piece of `text`, which must not be empty, when GPT-2 cuts it by
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte-pair token never reaches over the border between two pieces. \s is Unicode's White_Space,
// \p{L} and \p{N} are as utf8proc knows them (2.8: Unicode 15); bytes that are not UTF-8 count as
// none of these. The expression looks at nothing before a piece, so cutting off one piece after the
// other is all.
size_t first_piece(std::string_view text);

}  // namespace tapegrad::data
