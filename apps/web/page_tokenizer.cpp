#include "tapegrad/apps/web/page_tokenizer.h"

#include "tapegrad/data/tokenize/bpe/internal/merges_json.h"

namespace tapegrad::web {
namespace {

using Vocabulary = std::variant<data::CharVocabulary, data::Bpe>;

Vocabulary vocabulary_of(const std::string& path, const Json& file) {
  std::string kind;
  get(path, file, "kind", kind);
  if (kind == "char") {
    std::string characters;
    get(path, file, "characters", characters);
    return data::CharVocabulary(characters);
  }
  check(kind == "bpe", "{}: a page has no tokenizer of the kind '{}'", path, kind);
  const auto merges = file.find("merges");
  check(merges != file.end(), "{}: 'merges' is missing", path);
  return data::Bpe(data::merges_of_json(*merges));
}

}  // namespace

PageTokenizer::PageTokenizer(const std::string& path, const Json& file)
    : vocabulary_(vocabulary_of(path, file)) {}

std::int64_t PageTokenizer::size() const {
  return std::visit([](const auto& vocabulary) { return vocabulary.size(); }, vocabulary_);
}

std::string_view PageTokenizer::bytes(data::Token token) const {
  if (token < 0 || token >= size()) return {};
  return std::visit([&](const auto& vocabulary) { return vocabulary.bytes(token); }, vocabulary_);
}

std::vector<data::Token> PageTokenizer::encode(std::string_view text) const {
  std::vector<data::Token> tokens;
  if (const auto* bpe = std::get_if<data::Bpe>(&vocabulary_)) {
    data::PieceCache cache(text.size());
    bpe->encode(text, true, cache, tokens);
  } else {
    std::get<data::CharVocabulary>(vocabulary_).encode(text, tokens);
  }
  return tokens;
}

}  // namespace tapegrad::web
