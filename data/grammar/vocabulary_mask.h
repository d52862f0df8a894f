#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/data/grammar/token_trie.h"

namespace tapegrad::data {

// Some of the tokens of a vocabulary: a bit for each, or a list if they are few.
class TokenSet {
 public:
  TokenSet(std::vector<std::uint64_t> bits, std::size_t count);

  bool has(Token token) const;
  std::int64_t size() const { return static_cast<std::int64_t>(count_); }
  std::size_t bytes() const { return bits_.size() * 8 + few_.size() * sizeof(Token); }
  // Sets the logits of all others to −∞.
  void keep_only(std::span<float> logits) const;

 private:
  std::size_t count_;
  std::vector<std::uint64_t> bits_;  // empty if they are few
  std::vector<Token> few_;           // ascending
};

// Which tokens may follow a text so that it fits a grammar. What follows a state is found by a walk
// through the tree of tokens when the state is first met, and remembered. Any number of texts and
// threads may share one.
class VocabularyMask {
 public:
  VocabularyMask(std::shared_ptr<const TokenTrie> tokens, std::shared_ptr<const Grammar> grammar,
                 std::vector<AddedToken> added = {});
  ~VocabularyMask();

  // How far a text is.
  struct Position {
    std::string text = {};
    std::uint64_t age = 0;   // of the tables that `term` belongs to
    std::uint32_t term = 0;  // the texts that may follow
    bool ended = false;
  };

  // A text that begins with these bytes already. Error if none does.
  Position behind(std::string text) const;
  // True if it may go on with these bytes of text.
  bool fits(Position& position, std::string_view bytes) const;

  // The tokens that may come next: text, and those that end it if it is complete. None if it has
  // ended. Error if the tables become full of this text alone: it has hundreds of thousands of
  // characters that are counted, or the schema is made up to be ambiguous.
  std::shared_ptr<const TokenSet> allowed(Position& position) const;
  // Error if the token is not allowed.
  void accept(Position& position, Token token) const;
  bool complete(Position& position) const;

  struct Cost {
    std::size_t states, masks, bytes;
  };
  Cost cost() const;  // of the tables

 private:
  struct Tables;

  std::string bytes_of(Token token) const;
  template <class Use>
  auto with_tables(Position& position, const Use& use) const;

  std::shared_ptr<const TokenTrie> tokens_;
  std::shared_ptr<const Grammar> grammar_;
  std::vector<AddedToken> added_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace tapegrad::data
