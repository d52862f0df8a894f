#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"
#include "tapegrad/data/tokenize/bpe/text_hash.h"
#include "tapegrad/data/tokenize/bpe/token_chain.h"

namespace tapegrad::data {

// How often each piece (see first_piece) occurs in a corpus: all that training needs of it.
//
// The memory is bounded. Once there are more than the most pieces, or bytes in them, the rarest
// ones are dropped: all that occurred up to n times so far, with the least n that leaves half of
// the most (Manku & Motwani, Approximate frequency counts over data streams, VLDB 2002). The counts
// depend on nothing but the texts and their order. A corpus with fewer pieces is counted exactly:
// some gigabytes of English are at the border.
class PieceCounts {
 public:
  struct Most {
    std::size_t pieces = std::size_t{1} << 20, bytes = std::size_t{8} << 20;
  };
  // The size of a text's first piece.
  using First = std::size_t (*)(std::string_view text);
  PieceCounts() : PieceCounts(Most()) {}
  explicit PieceCounts(Most most, First first = first_piece) : most_(most), first_(first) {}

  // A text, or a part of one that Tokenizer::last_cut allows.
  void add(std::string_view text);

  using Counts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;
  const Counts& counts() const { return counts_; }
  std::int64_t text_bytes() const { return text_bytes_; }  // of all texts
  std::int64_t dropped() const { return dropped_; }        // pieces, of which some came again

 private:
  void drop_rarest();

  Most most_;
  First first_;
  Counts counts_;
  std::size_t bytes_ = 0;  // of the pieces
  std::int64_t text_bytes_ = 0, dropped_ = 0;
};

// Counts the pieces of a document that may have <|endoftext|> in it, which is no part of any piece.
void add_words(std::string_view document, PieceCounts& pieces);

// Learns the merges of a Bpe of `vocab_size` tokens (256 bytes, the merges and <|endoftext|>). Each
// step turns the most frequent pair of neighbours inside a piece into a token; of equally frequent
// pairs, the one with the smaller ids. A pair that occurs once is not merged. Calls `on_token` with
// the number of tokens so far. Error if no pair occurs twice before the vocabulary is full; it says
// how many tokens were found. Two tokens may have the same bytes, "ab" + "c" and "a" + "bc", unless
// such twins are left out: a tokenizer.json of Hugging Face's has none.
enum class Twins { allowed, left_out };
std::vector<Merge> train_merges(const PieceCounts& pieces, std::int64_t vocab_size,
                                const std::function<void(std::int64_t)>& on_token = {},
                                Twins twins = Twins::allowed);
std::vector<Merge> train_merges(std::span<const std::string_view> documents,
                                std::int64_t vocab_size);
inline std::vector<Merge> train_merges(std::string_view corpus, std::int64_t vocab_size) {
  return train_merges({&corpus, 1}, vocab_size);
}

}  // namespace tapegrad::data
