#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

void HfTokenizer::encode(std::string_view text, const ReadSpecial& read, PieceCache& cache,
                         std::vector<Token>& tokens) const {
  PieceEncoder encoder(*model_, cache, tokens);
  bool first = true;  // nothing of the text is done
  const auto encode_piece = [&](std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t size = model_->first_part(piece);
      encoder.append(piece.substr(0, size));
      piece.remove_prefix(size);
    }
  };
  const auto encode_ordinary = [&](std::string_view part) {
    pre_tokenizer_.cut(part, first, encode_piece);
    first = false;
  };
  const auto append = [&](Token token) {
    encoder.append(token);
    first = false;
  };
  const auto encode_valid = [&](std::string_view valid) {
    raw_.cut(valid, read, append, [&](std::string_view part) {
      std::string normalized;
      if (rules_) {
        part = normalized = (*rules_)(part, first);
      } else if (!normalizer_.empty()) {
        part = normalized = normalizer_(part);
      }
      // A changed text has other places. special_places() lets none of its letters be such a token.
      normalized_.cut(part, changes_text() ? ReadSpecial(read.any()) : read, append,
                      encode_ordinary);
      first = false;
    });
  };
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    encode_valid(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    encoder.append(text.substr(0, 1));
    first = false;
    text.remove_prefix(1);
  }
}

std::vector<std::size_t> HfTokenizer::special_places(std::string_view text) const {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (raw_.begins_special(rest) || (!changes_text() && normalized_.begins_special(rest))) {
      places.push_back(at);
    }
  }
  return places;
}

}  // namespace tapegrad::data
