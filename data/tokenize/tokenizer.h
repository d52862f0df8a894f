#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

class HfFile;
class PieceCache;
class PieceCounts;
class ReadSpecial;

// Turns text into tokens and back. A Tokenizer is a handle, cheap to copy, of one of four kinds:
// - "char": one token per character of the training corpus
// - "gpt2": exactly GPT-2's byte-level byte-pair encoding of 50,257 tokens
// - "bpe":  the same method, trained on a corpus
// - "hf":   what a tokenizer.json of Hugging Face's says: see HfTokenizer
class Tokenizer {
 public:
  // `separated`: a line break, which separates documents, is one of the characters.
  static Tokenizer of_characters(std::span<const std::string_view> documents, bool separated);
  static Tokenizer of_characters(std::span<const std::string_view> documents) {
    return of_characters(documents, documents.size() > 1);
  }
  // A token for each character of the text.
  static Tokenizer of_characters(std::string_view corpus) { return of_characters({&corpus, 1}); }
  static Tokenizer gpt2();  // of 50,257 tokens
  // Learns a vocabulary of 256 bytes, vocab_size − 257 merges and <|endoftext|>. Error if the
  // corpus is too short to learn so many.
  static Tokenizer train_bpe(std::span<const std::string_view> documents, std::int64_t vocab_size);
  static Tokenizer train_bpe(std::string_view corpus, std::int64_t vocab_size) {
    return train_bpe({&corpus, 1}, vocab_size);
  }
  // Learns from pieces that were counted; calls `on_token` with the number of tokens so far.
  static Tokenizer train_bpe(const PieceCounts& pieces, std::int64_t vocab_size,
                             const std::function<void(std::int64_t)>& on_token = {});
  // Builds a tokenizer from token bytes alone: characters in ascending order, or byte pairs, whose
  // merges are found out. Error if the tokens are neither.
  static Tokenizer of_tokens(std::span<const std::string> tokens);

  // A character tokenizer throws Error for a character that its corpus did not have. The other
  // kinds encode any bytes; they read <|endoftext|> as the special token only if `allow_special`.
  std::vector<Token> encode(std::string_view text, bool allow_special = false) const;
  // encode(text, true) of a text in which some bytes are letters: a special token that covers one
  // of them is ordinary text. `letters`: their places, ascending.
  std::vector<Token> encode_with_letters(std::string_view text,
                                         std::span<const std::size_t> letters) const;
  // The places at which the texts of special tokens begin, ascending; some may overlap. Error if
  // the tokenizer finds such a token in the normalized text alone, where it has no place.
  std::vector<std::size_t> special_places(std::string_view text) const;

  // Documents, one after the other, each with begin() before it. Between two of them is
  // end_of_text(), unless the first one ends with it already, white space aside. Without such a
  // token, it is an empty line.
  std::vector<Token> encode_documents(std::span<const std::string_view> documents,
                                      bool allow_special = false) const;

  // The last place inside a text at which it can be cut in two, so that the tokens of the parts,
  // one after the other, are those of the whole, whatever stands before and behind; 0 if none is
  // known. For a text that is UTF-8, to be encoded with allow_special. The kind hf knows none.
  std::size_t last_cut(std::string_view text) const;

  // The bytes of the tokens. They may begin or end in the middle of a character (see Utf8Stream).
  // Error if a token is outside [0, vocab_size()).
  std::string decode(std::span<const Token> tokens) const;
  // The bytes of one token, as decode() of it alone. Error if there is no such token.
  std::string token_bytes(Token token) const;

  std::int64_t vocab_size() const;
  // True if a token stands for more than its text, as <|endoftext|> does: of the kind hf, all that
  // "added_tokens" of the file lists.
  bool is_added(Token token) const;
  std::string_view kind() const { return kind_; }  // "char", "gpt2", "bpe" or "hf"
  // The token that separates documents: <|endoftext|>; of the kind "hf", the special token of this
  // name, or else of the name <|end_of_text|>, </s> or <eos>, or the first of ends() where these
  // are others. Character tokenizers have none.
  std::optional<Token> end_of_text() const;
  // The tokens that end a text which a model makes: those of ending_at(), or end_of_text().
  std::vector<Token> ends() const;
  // A copy with these ends. The first one is for programs that know a single one. None:
  // end_of_text() alone. Error if one is no token with a text.
  Tokenizer ending_at(std::span<const std::int64_t> ends) const;
  // The tokens before the first one of a document, and of a text for a model. Part of
  // encode_documents(), and not of encode().
  std::span<const Token> begin() const;
  // True if the tokens of a document's text do not have begin() themselves.
  bool lacks_begin(std::span<const Token> document) const;

  // The file is a JSON object, which `save` replaces atomically:
  //   {"format": "tapegrad-tokenizer", "version": 1, "kind": K, "vocab_size": V, …}
  // with "padded_size": N if padded() has made N tokens of these V,
  // with "characters": "all of them, ascending" for the kind char, and "merges": [[left, right], …]
  // in tokens for the kind bpe; or it is the tokenizer.json that a tokenizer of the kind hf is made
  // of. The tokens of ending_at() are "eos_token_id" in a file generation_config.json beside it, as
  // in folders of Hugging Face's; one that says them already stays as it is, and so does one
  // that says nothing of them: end_tokens.json says them then. `load` checks every field, and
  // refuses a symbolic link; its Errors say the path and the reason.
  void save(const std::filesystem::path& path) const;
  std::string file_text() const;  // that save() writes to `path`
  // Opens what save() has written. Error naming the path and what is wrong there.
  static Tokenizer load(const std::filesystem::path& path);
  // A tokenizer.json of Hugging Face's that gives the same ids; of one that was made of such a
  // file, that file. Error if there is none.
  std::string hf_json() const;
  // The same tokens by the kind bpe: of gpt2, and of a file of Hugging Face's that cuts and merges
  // texts as GPT-2's does. Error, with the reason, for another one.
  Tokenizer byte_pairs() const;
  // A copy with at least so many tokens. The new ones stand for no text: a model may have more rows
  // than its tokenizer has tokens.
  Tokenizer padded(std::int64_t vocab_size) const;
  // A copy that has these special tokens, too. The ids of new ones follow the others. Error for a
  // character tokenizer, whose tokens are characters alone.
  Tokenizer with_special(std::span<const std::string_view> names) const;
  // Reads a folder of Hugging Face's, with tokenizer.json or vocab.json and merges.txt, which may
  // be links, or a file tokenizer.json. A file that hf_json() made of characters gives these. A
  // folder's texts end at "eos_token_id" of generation_config.json, or else of config.json.
  static Tokenizer from_hf(const std::filesystem::path& path);
  // Reads either kind of tokenizer.json, or a folder that has one or what from_hf() takes. A file
  // of save() may not be a link.
  static Tokenizer open(const std::filesystem::path& path);
  // Reads the text of such a file; or what it would say, where `json` makes it of the same parts.
  static Tokenizer of_hf(std::string json);
  static Tokenizer of_hf(const HfFile& file, std::function<std::string()> json);

 private:
  struct Vocabulary;  // of one of the four kinds

  template <class Kind>
  Tokenizer(std::string_view kind, std::shared_ptr<Kind> vocabulary);

  friend class Encoder;
  std::string_view bytes_of(Token token) const;

  std::string_view kind_;  // one of the four literals
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::int64_t padded_size_ = 0;
  std::vector<Token> ends_;  // empty: end_of_text() by the vocabulary
};

// Encodes many texts with a tokenizer, and remembers the tokens of their words. For one thread.
class Encoder {
 public:
  // `text_bytes`: about as many as will be encoded, or more.
  Encoder(Tokenizer tokenizer, std::size_t text_bytes);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Appends the tokens of Tokenizer::encode.
  void encode(std::string_view text, bool allow_special, std::vector<Token>& tokens);
  // Appends the tokens of Tokenizer::encode_with_letters.
  void encode_with_letters(std::string_view text, std::span<const std::size_t> letters,
                           std::vector<Token>& tokens);

 private:
  void encode(std::string_view text, const ReadSpecial& read, std::vector<Token>& tokens);

  Tokenizer tokenizer_;
  std::unique_ptr<PieceCache> cache_;
};

// The separator of documents: see Tokenizer::encode_documents.
class DocumentEnds {
 public:
  DocumentEnds(const Tokenizer& tokenizer, bool allow_special);

  // A document's text, or the first or next piece of it, between last_cut() places.
  void see(std::string_view piece, bool first);
  // Between the document that was seen and one that follows.
  std::vector<Token> separator() const;

 private:
  const Tokenizer tokenizer_;
  const std::string mark_;
  bool has_mark_ = false;  // at its end
  char last_ = {};
};

// The N of "bpe:N"; nullopt if `spec` has another form.
std::optional<std::int64_t> bpe_size(std::string_view spec);

// The file beside a tokenizer.json that says which tokens end a text.
inline constexpr std::string_view kGenerationFile = "generation_config.json";

// True if `spec` names a file or a folder: with a '/' or a '.' in it, or one that is there and has
// none of the names of make_tokenizer().
bool is_path_of_tokenizer(std::string_view spec);

// Makes the tokenizer that `spec` names: "char", "gpt2", "bpe:N" with N tokens, or a path:
// see is_path_of_tokenizer() and Tokenizer::from_hf. The kinds char and bpe take their vocabulary
// from the corpus. Error, listing these, for another `spec`.
Tokenizer make_tokenizer(std::string_view spec, std::span<const std::string_view> documents);
inline Tokenizer make_tokenizer(std::string_view spec, std::string_view corpus) {
  return make_tokenizer(spec, {&corpus, 1});
}

}  // namespace tapegrad::data
