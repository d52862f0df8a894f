#include "tapegrad/apps/web/page_tokenizer.h"

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
  const Json list = file.value("merges", Json());
  check(list.is_array(), "{}: 'merges' must be a list", path);
  std::vector<data::Merge> merges;
  for (const Json& pair : list) {
    const bool fits = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                      pair[1].is_number_unsigned();
    check(fits, "{}: merge {} is not a pair of tokens", path, merges.size());
    merges.emplace_back(pair[0].get<data::Token>(), pair[1].get<data::Token>());
  }
  return data::Bpe(std::move(merges));
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
