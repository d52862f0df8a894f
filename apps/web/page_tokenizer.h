#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/char_vocab.h"

namespace tapegrad::web {

// The tokenizers that a page has: characters and byte pairs, as GPT-2 cuts and merges texts. Other
// files of Hugging Face's take libraries for Unicode and regular expressions, which would be larger
// than all the rest.
class PageTokenizer {
 public:
  // Of an object that data::Tokenizer::save() writes. Error, naming `path`, for another kind.
  PageTokenizer(const std::string& path, const Json& file);

  std::int64_t size() const;
  std::string_view bytes(data::Token token) const;  // none of a row that is no token
  std::vector<data::Token> encode(std::string_view text) const;

 private:
  std::variant<data::CharVocabulary, data::Bpe> vocabulary_;
};

}  // namespace tapegrad::web
