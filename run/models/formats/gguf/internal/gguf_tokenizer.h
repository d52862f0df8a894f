#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// A key of GGUF files that are written here: the last row of the embedding and of the head is that
// of a token which ends texts, and which the model does not have. llama.cpp takes the token 11 for
// such a one unless a file names another. The row is the mean of the others, so that its logit is
// the mean of the other logits, and is never the largest one.
inline constexpr const char* kMeanEndRow = "tapegrad.mean_end_row";
// A key of ours: true if a tokenizer of Qwen2's kind normalizes texts. Other files do not say;
// Qwen2's own tokenizer does.
inline constexpr const char* kNfc = "tapegrad.nfc";

// The prefix of a tokenizer's keys.
inline const std::string kTokenizerKey = "tokenizer.ggml.";
// The types of tokens, as files number them.
inline constexpr std::int64_t kNormalToken = 1, kUnknownToken = 2, kControlToken = 3,
                              kUserDefinedToken = 4, kUnusedToken = 5, kByteToken = 6;

// The value of a key, or null if the file does not have it. Error, with the file and the key, if it
// is of another kind.
template <class T>
const T* find_gguf_value(const GgufFile& file, const std::string& key) {
  const auto found = file.keys().find(key);
  if (found == file.keys().end()) return nullptr;
  const T* const value = std::get_if<T>(&found->second);
  check(value != nullptr, "{}: the key '{}' is of another type than expected", file.name(), key);
  return value;
}
// The same, `absent` if the file does not have it.
template <class T>
T gguf_value(const GgufFile& file, const std::string& key, T absent) {
  const T* const value = find_gguf_value<T>(file, key);
  return value == nullptr ? absent : *value;
}

// The tokenizer that a file carries, with `rows` tokens. A byte-level BPE with one of the
// pre-tokenizers that families know (KnownPreTokenizer); SentencePiece's BPE (gguf_scored.h); or
// characters, which only files written here have. The text of a tokenizer.json is made when
// somebody asks for it. Error, with the file, for any other.
data::Tokenizer gguf_tokenizer(const std::shared_ptr<const GgufFile>& file, std::int64_t rows);

// True if it is the tokenizer that the file carries, also as earlier versions have kept it: without
// added tokens in the vocabulary.
bool is_gguf_tokenizer(const std::shared_ptr<const GgufFile>& file,
                       const data::Tokenizer& tokenizer);

// Adds the keys of a tokenizer. Returns whether a row for a token that ends texts is to be added to
// the model, whose tokenizer does not have one. Error if llama.cpp would make other
// ids, but that it leaves Qwen2's NFC out, with Qwen2's own files, too: what GGUF has no word for
// is refused by name, and what was written is read again and compared (written_tokenizer.h).
bool add_gguf_tokenizer(GgufKeys& keys, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
