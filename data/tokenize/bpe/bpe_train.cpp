#include "tapegrad/data/tokenize/bpe/bpe_train.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_set>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/bpe/internal/merge_trainer.h"

namespace tapegrad::data {

namespace {

// The words of the corpus, in bytes.
MergeTrainer trainer_of(const PieceCounts& pieces) {
  std::size_t total = 0;
  for (const auto& [piece, count] : pieces.counts()) total += piece.size();
  check(total < TokenChain::kNone,
        "[tokenizer] the corpus has {} bytes of distinct words; {} are the "
        "most that can be trained on",
        total, TokenChain::kNone - 1);
  MergeTrainer trainer(std::vector<std::size_t>(256, 1), Bpe::kMaxTokenBytes);
  trainer.reserve(total);
  std::array<Token, 256> token_of_byte;
  for (std::size_t i = 0; i < 256; ++i) {
    token_of_byte[gpt2_byte_order()[i]] = static_cast<Token>(i);
  }
  for (const auto& [word, count] : pieces.counts()) {
    for (std::size_t i = 0; i < word.size(); ++i) {
      trainer.append(token_of_byte[static_cast<std::uint8_t>(word[i])], i == 0, count);
    }
  }
  trainer.count();
  return trainer;
}

// The bytes of all tokens so far.
class TokenTextSet {
 public:
  TokenTextSet() {
    for (const std::uint8_t byte : gpt2_byte_order()) add(std::string(1, static_cast<char>(byte)));
  }
  bool has(Merge pair) const { return set_.count(merged(pair)) > 0; }
  void add(Merge pair) { add(merged(pair)); }

 private:
  std::string merged(Merge pair) const {
    return texts_[static_cast<std::size_t>(pair.first)] +
           texts_[static_cast<std::size_t>(pair.second)];
  }
  void add(std::string text) {
    set_.insert(text);
    texts_.push_back(std::move(text));
  }
  std::vector<std::string> texts_;
  std::unordered_set<std::string> set_;
};

}  // namespace

void PieceCounts::add(std::string_view text) {
  text_bytes_ += std::ssize(text);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_(text));
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
                                const std::function<void(std::int64_t)>& on_token, Twins twins) {
  check(vocab_size >= 257,
        "[tokenizer] a byte-pair vocabulary has at least 257 tokens (256 bytes and {}), not {}",
        Bpe::kEndOfTextBytes, vocab_size);
  check(vocab_size <= Bpe::kMaxSize,
        "[tokenizer] a vocabulary of {} tokens is too large; {} are the most", vocab_size,
        Bpe::kMaxSize);
  MergeTrainer trainer = trainer_of(pieces);
  std::optional<TokenTextSet> texts;
  if (twins == Twins::left_out) texts.emplace();
  std::vector<Merge> merges;
  while (trainer.tokens() + 1 < vocab_size) {
    const std::optional<Merge> best = trainer.take_best();
    check(best.has_value(),
          "[tokenizer] the corpus of {} bytes is too short for bpe:{}: after {} tokens no pair of "
          "neighbours occurs twice any more; choose bpe:{} or less",
          pieces.text_bytes(), vocab_size, trainer.tokens() + 1, trainer.tokens() + 1);
    if (texts) {
      if (texts->has(*best)) continue;
      texts->add(*best);
    }
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
