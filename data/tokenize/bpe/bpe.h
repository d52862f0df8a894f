#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/bpe/byte_pairs.h"
#include "tapegrad/data/tokenize/bpe/piece_encoder.h"
#include "tapegrad/data/tokenize/bpe/token_chain.h"
#include "tapegrad/data/tokenize/read_special.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Byte-level byte-pair encoding as in GPT-2 (Radford et al. 2019; Sennrich, Haddow, Birch 2016).
// The merges alone decide all ids: 0 … 255 are the bytes in GPT-2's order (the 188 printable
// characters of Latin-1 first), 256 + i is the token that merge i makes, and <|endoftext|> is last.
class Bpe {
 public:
  static constexpr std::string_view kEndOfTextBytes = "<|endoftext|>";
  static constexpr std::int64_t kMaxSize = 1'000'000;
  // The longest token: a limit, so that a few corrupt merges cannot describe tokens of any length.
  static constexpr std::size_t kMaxTokenBytes = 256;

  // Error if a merge refers to a later token, repeats another merge or makes too long a token.
  explicit Bpe(std::vector<Merge> merges);

  // GPT-2's own 50,257 tokens. The object is made once and shared.
  static std::shared_ptr<const Bpe> gpt2();

  std::int64_t size() const { return static_cast<std::int64_t>(begin_of_.size()) - 1; }
  Token end_of_text() const { return static_cast<Token>(size() - 1); }
  const std::vector<Merge>& merges() const { return merges_; }

  // `token` must be in [0, size()).
  std::string_view bytes(Token token) const;

  // Encodes any bytes, UTF-8 or not. <|endoftext|> in `text` is ordinary text
  // unless `read` takes it.
  void encode(std::string_view text, const ReadSpecial& read, PieceCache& cache,
              std::vector<Token>& tokens) const;
  // See Tokenizer.
  std::size_t last_cut(std::string_view text) const;

 private:
  void append_token(std::string_view bytes);

  std::vector<Merge> merges_;
  BytePairs pairs_;
  std::string bytes_;                     // of all tokens, one after the other
  std::vector<std::size_t> begin_of_{0};  // token i is bytes_[begin_of_[i], begin_of_[i + 1])
};

}  // namespace tapegrad::data
