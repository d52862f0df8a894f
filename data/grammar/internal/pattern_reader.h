#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/data/grammar/internal/json_texts.h"

namespace tapegrad::data {

// A regular expression as a tree.
struct PatternNode {
  enum class Kind { empty, begin, end, chars, sequence, either, repeat };
  Kind kind = Kind::empty;
  CharRanges chars = {};
  std::vector<PatternNode> parts = {};
  std::uint32_t least = 0, most = 0;  // of repeat; kEndless: no bound
};

// Reads one of ECMA 262 with the flag u, whose characters are code points. Error, with the place,
// for what it does not have or what an automaton cannot do: look-around, \1, \b, \p.
PatternNode read_pattern(std::string_view pattern);

}  // namespace tapegrad::data
