#include "tapegrad/data/tokenize/bpe/bpe_train.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/byte_alphabet.h"
#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"

namespace tapegrad::data {

namespace {

using Position = TokenChain::Position;

// Holds each distinct piece of the corpus once, with its frequency as its weight. The weighted
// count of a pair is always exact; its list of positions may contain outdated ones. A merge visits
// only the positions of its own pair, so the cost of training is proportional to the number of
// positions that change.
class Trainer {
 public:
  explicit Trainer(const PieceCounts& pieces);

  // Removes the most frequent pair from the queue and returns it; the caller must merge it. nullopt
  // if no pair occurs twice.
  std::optional<Merge> take_best();
  // Merges all occurrences of `pair` into the next new token.
  void merge(Merge pair);

  std::int64_t tokens() const { return static_cast<std::int64_t>(token_size_.size()); }

 private:
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<Position> positions;
  };

  struct Candidate {
    std::int64_t count;
    Merge pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add(Position p);
  void remove(Position p);
  void enqueue(Merge pair, std::int64_t count);
  bool is_too_long(Merge pair) const {
    return token_size_[static_cast<std::size_t>(pair.first)] +
               token_size_[static_cast<std::size_t>(pair.second)] >
           Bpe::kMaxTokenBytes;
  }

  TokenChain chain_;
  std::vector<std::int64_t> weight_;  // of each position
  std::vector<std::size_t> token_size_ = std::vector<std::size_t>(256, 1);
  std::unordered_map<std::uint64_t, Occurrences> pairs_;  // by pair_key()
  // A candidate's count may be outdated: too high, but never too low.
  std::priority_queue<Candidate> queue_;
};

Trainer::Trainer(const PieceCounts& pieces) {
  std::size_t total = 0;
  for (const auto& [piece, count] : pieces.counts()) total += piece.size();
  check(total < TokenChain::kNone,
        "[tokenizer] the corpus has {} bytes of distinct words; {} are the "
        "most that can be trained on",
        total, TokenChain::kNone - 1);
  chain_.reserve(total);
  weight_.reserve(total);
  std::array<Token, 256> token_of_byte;
  for (std::size_t i = 0; i < 256; ++i) {
    token_of_byte[gpt2_byte_order()[i]] = static_cast<Token>(i);
  }
  for (const auto& [word, count] : pieces.counts()) {
    for (std::size_t i = 0; i < word.size(); ++i) {
      chain_.append(token_of_byte[static_cast<std::uint8_t>(word[i])], i == 0);
    }
    weight_.resize(chain_.size(), count);
  }
  for (Position p = 0; p < chain_.size(); ++p) {
    if (chain_.next(p) != TokenChain::kNone) {
      add(p);
    }
  }
  for (const auto& [key, occurrences] : pairs_) {
    enqueue(chain_.pair(occurrences.positions[0]), occurrences.count);
  }
}

void Trainer::add(Position p) {
  Occurrences& occurrences = pairs_[pair_key(chain_.pair(p))];
  occurrences.count += weight_[p];
  occurrences.positions.push_back(p);
}

void Trainer::remove(Position p) { pairs_[pair_key(chain_.pair(p))].count -= weight_[p]; }

void Trainer::enqueue(Merge pair, std::int64_t count) {
  if (count > 1 && !is_too_long(pair)) {
    queue_.push({count, pair});
  }
}

std::optional<Merge> Trainer::take_best() {
  while (!queue_.empty()) {
    const Candidate candidate = queue_.top();
    queue_.pop();
    const std::int64_t count = pairs_[pair_key(candidate.pair)].count;
    if (candidate.count == count) {
      return candidate.pair;
    }
    enqueue(candidate.pair, count);
  }
  return std::nullopt;
}

void Trainer::merge(Merge pair) {
  const auto token = static_cast<Token>(tokens());
  token_size_.push_back(token_size_[static_cast<std::size_t>(pair.first)] +
                        token_size_[static_cast<std::size_t>(pair.second)]);
  const std::vector<Position> positions = std::move(pairs_[pair_key(pair)].positions);
  std::vector<Merge> made;
  const auto add_new = [&](Position p) {
    add(p);
    made.push_back(chain_.pair(p));
  };
  for (const Position p : positions) {
    if (!chain_.holds(p, pair)) {
      continue;
    }
    const Position left = chain_.prev(p);
    const Position right = chain_.next(chain_.next(p));
    remove(p);
    if (left != TokenChain::kNone) {
      remove(left);
    }
    if (right != TokenChain::kNone) {
      remove(chain_.next(p));
    }
    chain_.merge(p, token);
    if (left != TokenChain::kNone) {
      add_new(left);
    }
    if (right != TokenChain::kNone) {
      add_new(p);
    }
  }
  pairs_.erase(pair_key(pair));
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
  for (const Merge& fresh : made) {
    enqueue(fresh, pairs_[pair_key(fresh)].count);
  }
}

}  // namespace

void PieceCounts::add(std::string_view text) {
  text_bytes_ += std::ssize(text);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text));
    text.remove_prefix(piece.size());
    if (const auto found = counts_.find(piece); found != counts_.end()) {
      ++found->second;
      continue;
    }
    counts_.emplace(piece, 1);
    bytes_ += piece.size();
    if (counts_.size() > most_.pieces || bytes_ > most_.bytes) drop_rarest();
  }
}

void PieceCounts::drop_rarest() {
  struct Sum {
    std::size_t pieces = 0, bytes = 0;
  };
  std::map<std::int64_t, Sum> by_count;
  for (const auto& [piece, count] : counts_) {
    Sum& sum = by_count[count];
    ++sum.pieces;
    sum.bytes += piece.size();
  }
  std::int64_t dropped = 0;  // pieces that occurred so often, or less
  Sum left{counts_.size(), bytes_};
  for (const auto& [count, sum] : by_count) {
    if (left.pieces <= most_.pieces / 2 && left.bytes <= most_.bytes / 2) break;
    dropped = count;
    left.pieces -= sum.pieces;
    left.bytes -= sum.bytes;
  }
  dropped_ += static_cast<std::int64_t>(counts_.size() - left.pieces);
  std::erase_if(counts_, [dropped](const auto& entry) { return entry.second <= dropped; });
  bytes_ = left.bytes;
}

void add_words(std::string_view document, PieceCounts& pieces) {
  constexpr std::string_view mark = Bpe::kEndOfTextBytes;
  for (std::size_t end = 0; (end = document.find(mark)) != document.npos;) {
    pieces.add(document.substr(0, end));
    document.remove_prefix(end + mark.size());
  }
  pieces.add(document);
}

std::vector<Merge> train_merges(const PieceCounts& pieces, std::int64_t vocab_size,
                                const std::function<void(std::int64_t)>& on_token) {
  check(vocab_size >= 257,
        "[tokenizer] a byte-pair vocabulary has at least 257 tokens (256 bytes and {}), not {}",
        Bpe::kEndOfTextBytes, vocab_size);
  check(vocab_size <= Bpe::kMaxSize,
        "[tokenizer] a vocabulary of {} tokens is too large; {} are the most", vocab_size,
        Bpe::kMaxSize);
  Trainer trainer(pieces);
  std::vector<Merge> merges;
  while (trainer.tokens() + 1 < vocab_size) {
    const std::optional<Merge> best = trainer.take_best();
    check(best.has_value(),
          "[tokenizer] the corpus of {} bytes is too short for bpe:{}: after {} tokens no pair of "
          "neighbours occurs twice any more; choose bpe:{} or less",
          pieces.text_bytes(), vocab_size, trainer.tokens() + 1, trainer.tokens() + 1);
    trainer.merge(*best);
    merges.push_back(*best);
    if (on_token) on_token(trainer.tokens() + 1);
  }
  return merges;
}

std::vector<Merge> train_merges(std::span<const std::string_view> documents,
                                std::int64_t vocab_size) {
  PieceCounts pieces;
  for (const std::string_view document : documents) pieces.add(document);
  return train_merges(pieces, vocab_size);
}

}  // namespace tapegrad::data
