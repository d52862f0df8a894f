#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tapegrad/data/tokenize/bpe/piece_encoder.h"
#include "tapegrad/data/tokenize/hf/added_tokens.h"
#include "tapegrad/data/tokenize/hf/steps/normalizer.h"
#include "tapegrad/data/tokenize/hf/steps/pre_tokenizer.h"
#include "tapegrad/data/tokenize/sentencepiece/text_rules.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

class HfFile;

// A tokenizer as a file tokenizer.json of Hugging Face's tokenizers describes it. A text is cut at
// added tokens, normalized, cut into pieces, and each piece becomes tokens by one of three models:
// - bytes that merge (GPT-2, SmolLM, Llama 3, Qwen2 and their like): BytePairs
// - characters that merge, or else are bytes (Llama 2, Mistral 0.1, Gemma): CharPairs
// - pieces of a vocabulary by their scores (T5, ALBERT): Unigram
// A feature of the file that is not known here is refused by name: ids are the same as theirs, or
// there are none.
class HfTokenizer {
 public:
  // Error if `json` is not such a file: what is wrong, or not supported.
  explicit HfTokenizer(const std::string& json);
  // Of a file that was parsed, or whose parts stand elsewhere; `json` makes its text, which few ask
  // for.
  HfTokenizer(const HfFile& file, std::function<std::string()> json);

  // One more than the largest id. Ids in between may stand for nothing: their bytes are "".
  std::int64_t size() const { return std::ssize(bytes_); }
  // `token` must be in [0, size()).
  std::string_view bytes(Token token) const { return bytes_[static_cast<std::size_t>(token)]; }

  // True if "added_tokens" lists it.
  bool is_added(Token token) const { return added_.count(token) == 1; }

  // Encodes any bytes. Each byte that is not part of UTF-8 is encoded by itself. Special tokens in
  // `text` are ordinary text unless `read` takes them; other added tokens are always read.
  void encode(std::string_view text, const ReadSpecial& read, PieceCache& cache,
              std::vector<Token>& tokens) const;
  // See Tokenizer. Without tokens that are found in the normalized text alone.
  std::vector<std::size_t> special_places(std::string_view text) const;
  // True if there are any.
  bool finds_special_in_normalized() const { return changes_text() && normalized_special_; }

  // The tokens that the post-processor puts before a text, and encode() does not:
  // <|begin_of_text|>.
  const std::vector<Token>& begin() const { return begin_; }
  // The special token that ends a document by the names that files use.
  std::optional<Token> named_end() const { return named_end_; }
  std::string json() const { return json_(); }

  static constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;
  static constexpr std::int64_t kMaxSize = 4'000'000;

 private:
  friend class HfReader;
  bool changes_text() const { return rules_.has_value() || !normalizer_.empty(); }

  std::function<std::string()> json_;
  std::vector<std::string> bytes_;  // of each token that the file has
  std::shared_ptr<const PieceModel> model_;
  AddedTokens raw_, normalized_;     // which are found before and after normalizing
  bool normalized_special_ = false;  // some of normalized_ are special
  Normalizer normalizer_;
  std::optional<TextRules> rules_;  // SentencePiece's, in place of both steps around this line
  PreTokenizer pre_tokenizer_;
  std::unordered_set<Token> added_;
  std::vector<Token> begin_;
  std::optional<Token> named_end_;
};

// The JSON of GPT-2's older pair of files, vocab.json and merges.txt, as one tokenizer.json.
std::string tokenizer_json_of(std::string_view vocab_json, std::string_view merges_txt);

}  // namespace tapegrad::data
