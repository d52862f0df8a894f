#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/data/tokenize/bpe.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Text to tokens and back. Three kinds behind one handle, which is cheap to copy:
// - "char": one token per character of the training corpus
// - "gpt2": GPT-2's byte-level byte-pair encoding, 50,257 tokens, exactly
// - "bpe":  the same method, trained on a corpus
class Tokenizer {
 public:
  static Tokenizer of_characters(std::string_view corpus);
  static Tokenizer gpt2();
  // 256 bytes, vocab_size − 257 merges, <|endoftext|>. An Error if the corpus is too short for it.
  static Tokenizer train_bpe(std::string_view corpus, int64_t vocab_size);

  // Character tokenizers fail on characters that the corpus did not have. The others encode any
  // bytes, and read <|endoftext|> as the special token only if `allow_special`.
  std::vector<Token> encode(std::string_view text, bool allow_special = false) const;

  // The bytes of the tokens, which need not be whole characters (see Utf8Stream). A token outside
  // [0, vocab_size()) is an Error.
  std::string decode(std::span<const Token> tokens) const;
  std::string token_bytes(Token token) const;

  int64_t vocab_size() const;
  std::string_view kind() const { return kind_; }
  std::optional<Token> end_of_text() const;  // <|endoftext|>; character tokenizers have none

  // A JSON object; `save` replaces the file at once or not at all:
  //   {"format": "tapegrad-tokenizer", "version": 1, "kind": K, "vocab_size": V, …}
  // with "characters": "all of them, ascending" for the kind char, and "merges": [[left, right], …]
  // in tokens for the kind bpe. `load` checks everything and fails with path and reason.
  void save(const std::filesystem::path& path) const;
  static Tokenizer load(const std::filesystem::path& path);

 private:
  using Vocabulary =
      std::variant<std::shared_ptr<const CharVocabulary>, std::shared_ptr<const Bpe>>;

  Tokenizer(std::string_view kind, Vocabulary vocabulary)
      : kind_(kind), vocabulary_(std::move(vocabulary)) {}

  std::string_view bytes_of(Token token) const;

  std::string_view kind_;  // one of the three literals
  Vocabulary vocabulary_;
};

// The N of "bpe:N"; nothing if `spec` is anything else.
std::optional<int64_t> bpe_size(std::string_view spec);

// "char", "gpt2" or "bpe:N" with N tokens; char and bpe take their vocabulary from the corpus.
Tokenizer make_tokenizer(std::string_view spec, std::string_view corpus);

}  // namespace tapegrad::data
