#include "tapegrad/data/grammar/vocabulary_mask.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "tapegrad/base/error.h"
#include "tapegrad/data/grammar/internal/byte_automaton.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostNewTerms = 500'000, kMostStates = 16'384;
constexpr std::size_t kMostMaskBytes = std::size_t{16} << 20;
constexpr std::size_t kFewOf = 64;  // few: one of so many

// The tokens that a walk has found so far.
class Found {
 public:
  explicit Found(std::int64_t vocab_size)
      : bits_((static_cast<std::size_t>(vocab_size) + 63) / 64) {}

  void set(Token token) { word(token) |= bit(token); }
  void clear(Token token) { word(token) &= ~bit(token); }
  TokenSet take() {
    std::size_t count = 0;
    for (const std::uint64_t word : bits_) count += static_cast<std::size_t>(std::popcount(word));
    return {std::move(bits_), count};
  }

 private:
  static std::uint64_t bit(Token token) { return std::uint64_t{1} << (token & 63); }
  std::uint64_t& word(Token token) { return bits_[static_cast<std::size_t>(token) >> 6]; }

  std::vector<std::uint64_t> bits_;
};

TokenSet walk(const TokenTrie& tokens, std::span<const AddedToken> added, ByteAutomaton& automaton,
              Term term) {
  Found found(tokens.vocab_size());
  // In a string of any characters, most tokens need no walk.
  const std::uint32_t any_chars = automaton.any_chars(term);
  if (any_chars > 0) {
    for (const auto& [token, characters] : tokens.plain()) {
      if (characters <= any_chars) found.set(token);
    }
  }
  std::vector<ByteAutomaton::State> states(tokens.longest() + 1);
  states[0] = automaton.state_of(term);
  const auto nodes = tokens.nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    if (any_chars > 0 && node.plain) {
      i = node.behind;
      continue;
    }
    const ByteAutomaton::State next = automaton.next(states[node.depth - 1U], node.byte);
    if (next == ByteAutomaton::kDead) {
      i = node.behind;
      continue;
    }
    states[node.depth] = next;
    for (const Token token : tokens.tokens_at(i)) found.set(token);
    ++i;
  }
  for (const auto& [token, byte] : added) {
    if (automaton.next(states[0], byte) != ByteAutomaton::kDead) found.set(token);
  }
  if (automaton.may_end(term)) {
    for (const Token token : tokens.ends()) found.set(token);
  }
  return found.take();
}

}  // namespace

TokenSet::TokenSet(std::vector<std::uint64_t> bits, std::size_t count)
    : count_(count), bits_(std::move(bits)) {
  if (count_ > bits_.size() * 64 / kFewOf) return;
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    for (std::uint64_t word = bits_[i]; word != 0; word &= word - 1) {
      few_.push_back(static_cast<Token>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
    }
  }
  bits_ = {};
}

bool TokenSet::has(Token token) const {
  if (token < 0) return false;
  if (bits_.empty()) return std::ranges::binary_search(few_, token);
  const auto place = static_cast<std::size_t>(token);
  return place / 64 < bits_.size() && (bits_[place / 64] >> (place % 64) & 1) != 0;
}

void TokenSet::keep_only(std::span<float> logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (bits_.empty()) {
    std::vector<float> kept;
    for (const Token token : few_) {
      const auto place = static_cast<std::size_t>(token);
      kept.push_back(place < logits.size() ? logits[place] : kNever);
    }
    std::ranges::fill(logits, kNever);
    for (std::size_t i = 0; i < few_.size(); ++i) {
      const auto place = static_cast<std::size_t>(few_[i]);
      if (place < logits.size()) logits[place] = kept[i];
    }
    return;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool kept = i / 64 < bits_.size() && (bits_[i / 64] >> (i % 64) & 1) != 0;
    logits[i] = kept ? logits[i] : kNever;
  }
}

// They grow with the texts. When they are full, all begins anew, and texts are read again.
struct VocabularyMask::Tables {
  std::mutex mutex = {};
  std::uint64_t age = 0;
  std::optional<ByteAutomaton> automaton = {};
  std::unordered_map<Term, std::shared_ptr<const TokenSet>> masks = {};
  std::size_t mask_bytes = 0;

  void begin(const Grammar& grammar) {
    ++age;
    masks.clear();
    mask_bytes = 0;
    automaton.emplace(grammar, kMostNewTerms, kMostStates);
  }

  std::shared_ptr<const TokenSet> mask(const TokenTrie& tokens, std::span<const AddedToken> added,
                                       Term term) {
    const Term key = automaton->shortened(term, static_cast<std::uint32_t>(tokens.longest()));
    const auto known = masks.find(key);
    if (known != masks.end()) return known->second;
    const auto mask = std::make_shared<const TokenSet>(walk(tokens, added, *automaton, key));
    if (mask_bytes + mask->bytes() > kMostMaskBytes) {
      masks.clear();
      mask_bytes = 0;
    }
    mask_bytes += mask->bytes();
    return masks[key] = mask;
  }
};

VocabularyMask::VocabularyMask(std::shared_ptr<const TokenTrie> tokens,
                               std::shared_ptr<const Grammar> grammar,
                               std::vector<AddedToken> added)
    : tokens_(std::move(tokens)),
      grammar_(std::move(grammar)),
      added_(std::move(added)),
      tables_(new Tables) {
  tables_->begin(*grammar_);
}

VocabularyMask::~VocabularyMask() = default;

// Calls `use` with the tables and the position in them, and once more with new ones if they become
// full.
template <class Use>
auto VocabularyMask::with_tables(Position& position, const Use& use) const {
  const std::scoped_lock lock(tables_->mutex);
  const auto found = [&] {
    if (position.age != tables_->age) {
      position.term = tables_->automaton->after(tables_->automaton->start(), position.text);
      position.age = tables_->age;
    }
    return use(*tables_);
  };
  try {
    return found();
  } catch (const TermsFull&) {
    tables_->begin(*grammar_);
  }
  try {
    return found();
  } catch (const TermsFull& error) {
    fail("[json_schema] the schema leaves open what its texts mean for too long: {}", error.what());
  }
}

VocabularyMask::Position VocabularyMask::behind(std::string text) const {
  Position position{.text = std::move(text)};
  with_tables(position, [&](Tables&) {
    check(position.term != ByteTerms::kNothing, "[json_schema] no text begins with '{}'",
          position.text);
    return 0;
  });
  return position;
}

bool VocabularyMask::fits(Position& position, std::string_view bytes) const {
  if (std::ranges::any_of(bytes, is_added_byte)) return false;
  return with_tables(position, [&](Tables& tables) {
    return tables.automaton->after(position.term, bytes) != ByteTerms::kNothing;
  });
}

std::string VocabularyMask::bytes_of(Token token) const {
  const auto added = std::ranges::find(added_, token, &AddedToken::token);
  if (added != added_.end()) return std::string(1, static_cast<char>(added->byte));
  return std::string(tokens_->bytes_of(token));
}

std::shared_ptr<const TokenSet> VocabularyMask::allowed(Position& position) const {
  return with_tables(position, [&](Tables& tables) {
    return tables.mask(*tokens_, added_, position.ended ? ByteTerms::kNothing : position.term);
  });
}

void VocabularyMask::accept(Position& position, Token token) const {
  const std::string bytes = bytes_of(token);
  const auto next = with_tables(position, [&](Tables& tables) {
    ByteAutomaton& automaton = *tables.automaton;
    const bool ends = std::ranges::find(tokens_->ends(), token) != tokens_->ends().end();
    if (ends && automaton.may_end(position.term)) position.ended = true;
    if (position.ended) return position.term;
    return bytes.empty() ? ByteTerms::kNothing : automaton.after(position.term, bytes);
  });
  check(next != ByteTerms::kNothing, "[json_schema] token {} may not follow", token);
  if (position.ended) return;
  position.text += bytes;
  position.term = next;
}

bool VocabularyMask::complete(Position& position) const {
  return with_tables(position, [&](Tables& tables) {
    return position.ended || tables.automaton->may_end(position.term);
  });
}

VocabularyMask::Cost VocabularyMask::cost() const {
  const std::scoped_lock lock(tables_->mutex);
  return {tables_->automaton->states(), tables_->masks.size(),
          tables_->automaton->bytes() + tables_->mask_bytes};
}

}  // namespace tapegrad::data
