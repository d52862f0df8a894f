#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/grammar/internal/json_texts.h"

namespace tapegrad::data {

// A deterministic automaton over the characters of a string, before JSON escapes them.
struct CharAutomaton {
  struct Edge {
    CharRange chars;
    int to;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges = {};  // ascending; other characters are refused
  };
  std::vector<State> states;  // the first one is where strings begin

  static constexpr std::size_t kMostStates = 20'000, kMostEdges = 1'000'000;
};

// The work that all strings of a schema may make together, in steps that are looked at.
class PatternWork {
 public:
  // Error if it becomes too much.
  void add(std::size_t steps) {
    done_ += steps;
    check(done_ <= kMost, "the patterns of the schema would take too long");
  }

 private:
  static constexpr std::size_t kMost = 100'000'000;
  std::size_t done_ = 0;
};

// The strings in which a regular expression of ECMA 262, with the flag u, finds a match. Error for
// what is not understood, or would need too many states: look-around, references to groups, \b, \p.
CharAutomaton automaton_of_pattern(std::string_view pattern, PatternWork& work);
// Strings of so many characters; kEndless: no bound.
CharAutomaton automaton_of_lengths(std::uint32_t least, std::uint32_t most, PatternWork& work);
// All strings but these, which are UTF-8.
CharAutomaton automaton_without(std::span<const std::string> strings);
// The strings that both accept. Error if it has too many states.
CharAutomaton both(const CharAutomaton& a, const CharAutomaton& b, PatternWork& work);

// The strings, without quotes, as JSON writes them. kNothing if there are none.
Term term_of(const CharAutomaton& automaton, ByteTerms& terms, JsonTexts& json);

}  // namespace tapegrad::data
