#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

using ByteSet = std::bitset<256>;

// A set of texts, by its number in ByteTerms.
using Term = std::uint32_t;

// Thrown where more terms would be needed than may be made.
class TermsFull : public Error {
 public:
  using Error::Error;
};

// Sets of texts, built of bytes by sequence, choice, repetition and rules that name themselves, and
// what each becomes when its first byte is known: the derivative (Brzozowski, "Derivatives of
// Regular Expressions", 1964). Equal terms have one number, so a state of an automaton is a term,
// and a stack is a sequence.
//
// No term but kNothing is an empty set: whatever would be one becomes kNothing when it is built. So
// a text whose term is another can always be completed. (A rule must be given a body that is not
// empty.)
class ByteTerms {
 public:
  static constexpr Term kNothing = 0;  // no text
  static constexpr Term kEmpty = 1;    // the empty text alone
  static constexpr std::uint32_t kEndless = UINT32_MAX;

  // `alphabet`: bytes that texts may have; others are as if they were not asked for.
  explicit ByteTerms(std::size_t most_terms, const ByteSet& alphabet = ByteSet().set());

  Term bytes(const ByteSet& set);
  Term byte(std::uint8_t value) { return range(value, value); }
  Term range(std::uint8_t first, std::uint8_t last);
  Term one_of(std::string_view characters);
  Term text(std::string_view text);
  // Any of these texts, with what follows each.
  struct Followed {
    std::string_view text;
    Term next;
  };
  Term texts(std::vector<Followed> texts);

  Term sequence(Term first, Term second);
  Term sequence(std::initializer_list<Term> terms);
  Term either(std::vector<Term> terms);
  Term optional(Term term) { return either({kEmpty, term}); }
  // `least` to `most` times a term that is not the empty text.
  Term repeat(Term item, std::uint32_t least, std::uint32_t most);

  // A term whose texts are those of a body that comes later and may have the rule in it. What its
  // texts begin with, and whether the empty one is among them, must be known.
  Term rule(bool may_end, const ByteSet& first);
  void define(Term rule, Term body);

  bool may_end(Term term) const { return nodes_[term].may_end; }  // it has the empty text
  const ByteSet& first(Term term) const { return sets_[nodes_[term].first]; }  // of its texts
  // The texts that may stand behind this byte.
  Term after(Term term, std::uint8_t byte);
  Term after(Term term, std::string_view text);

  // A term that agrees with this one on what texts of at most `bytes` bytes may begin with or be:
  // counts that they cannot exhaust are gone. So fewer terms differ.
  Term shortened(Term term, std::uint32_t bytes);

  // How often `item` may be repeated before anything else, if this term begins with that; else 0.
  std::uint32_t repeats(Term term, Term item) const;

  std::size_t size() const { return nodes_.size(); }
  std::size_t most() const { return most_terms_; }
  // How many further terms may be made from now on.
  void allow_more(std::size_t terms) { most_terms_ = nodes_.size() + terms; }

 private:
  enum class Kind : std::uint8_t { nothing, empty, bytes, sequence, either, repeat, rule };
  struct Node {
    Kind kind;
    bool may_end;
    std::uint32_t first;         // the first bytes of the texts, by their number in sets_
    std::uint32_t a = 0, b = 0;  // parts; of either, the place and number of its members
    std::uint32_t least = 0, most = 0;
  };

  std::uint32_t set_number(const ByteSet& set);
  std::uint32_t joined(std::uint32_t a, std::uint32_t b);
  std::span<const Term> members(const Node& node) const {
    return {members_.data() + node.a, node.b};
  }
  std::size_t hash_of(const Node& node) const;
  bool same(const Node& a, const Node& b) const;
  Term interned(const Node& node);
  void grow_table();
  Term derived(Term term, std::uint8_t byte);
  Term shortened(Term term, std::uint32_t bytes, int& visits);
  Term texts(std::span<const Followed> sorted, std::size_t from);

  std::size_t most_terms_;
  ByteSet alphabet_;
  std::vector<Node> nodes_;
  std::vector<Term> members_;  // of all nodes of the kind either
  std::vector<Term> table_;    // nodes by their hash, open addressing; kNothing: free
  std::vector<ByteSet> sets_;
  std::unordered_map<ByteSet, std::uint32_t> set_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> joined_;
  std::unordered_map<std::uint64_t, Term> derived_;  // of terms that take time
};

}  // namespace tapegrad::data
