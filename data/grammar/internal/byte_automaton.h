#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/grammar/internal/grammar.h"

namespace tapegrad::data {

// Follows texts of a grammar: by terms, or by the states of a deterministic automaton, which are
// made when they are first reached and are faster where many texts begin alike. For one thread.
class ByteAutomaton {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  // TermsFull is thrown when it has grown by more than `most_terms` terms or has more than
  // `most_states` states of a kilobyte each.
  ByteAutomaton(const Grammar& grammar, std::size_t most_terms, std::size_t most_states);

  Term start() const { return start_; }
  Term after(Term term, std::string_view text) { return terms_.after(term, text); }
  bool may_end(Term term) const { return terms_.may_end(term); }
  // A term from which texts of at most so many bytes go on as from this one.
  Term shortened(Term term, std::uint32_t bytes) { return terms_.shortened(term, bytes); }
  // How many characters a string may have from here on, if all of them may be any and it is a
  // string that the text is in; kEndless: no bound; 0: else.
  std::uint32_t any_chars(Term term) const { return terms_.repeats(term, any_char_); }

  State state_of(Term term);
  State next(State state, std::uint8_t byte) {
    const State known = rows_[state][byte];
    return known != kUnknown ? known : find_next(state, byte);
  }

  std::size_t states() const { return rows_.size(); }
  std::size_t bytes() const;  // of memory, about

 private:
  static constexpr State kUnknown = UINT32_MAX;

  State find_next(State state, std::uint8_t byte);

  ByteTerms terms_;
  Term start_, any_char_;
  std::size_t most_states_;
  std::deque<std::array<State, 256>> rows_;
  std::vector<Term> state_terms_;
  std::unordered_map<Term, State> states_of_;
};

}  // namespace tapegrad::data
