#include "tapegrad/data/grammar/internal/byte_automaton.h"

namespace tapegrad::data {

ByteAutomaton::ByteAutomaton(const Grammar& grammar, std::size_t most_terms,
                             std::size_t most_states)
    : terms_(grammar.terms),
      start_(grammar.start),
      any_char_(grammar.any_char),
      most_states_(most_states) {
  terms_.allow_more(most_terms);
  state_of(ByteTerms::kNothing);  // kDead
}

ByteAutomaton::State ByteAutomaton::state_of(Term term) {
  const auto known = states_of_.find(term);
  if (known != states_of_.end()) return known->second;
  if (rows_.size() >= most_states_) throw TermsFull("the automaton has too many states");
  const auto state = static_cast<State>(rows_.size());
  rows_.emplace_back();
  // Most bytes lead nowhere, which is known without a search.
  const ByteSet& first = terms_.first(term);
  for (std::size_t b = 0; b < 256; ++b) rows_.back()[b] = first[b] ? kUnknown : kDead;
  state_terms_.push_back(term);
  states_of_.emplace(term, state);
  return state;
}

ByteAutomaton::State ByteAutomaton::find_next(State state, std::uint8_t byte) {
  const State next = state_of(terms_.after(state_terms_[state], byte));
  return rows_[state][byte] = next;
}

std::size_t ByteAutomaton::bytes() const {
  constexpr std::size_t kOfState = 256 * sizeof(State) + 64, kOfTerm = 50;
  return states() * kOfState + terms_.size() * kOfTerm;
}

}  // namespace tapegrad::data
