#include "tapegrad/apps/serve/choice.h"

#include <algorithm>
#include <utility>

namespace tapegrad::serve {

std::int64_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

Choice::Choice(const data::Tokenizer& tokenizer, std::vector<std::string> stops,
               std::int64_t first_character)
    : tokenizer_(tokenizer), stop_(std::move(stops)), decoded_characters_(first_character) {}

Choice::Piece Choice::push(const nn::NewToken& token) {
  if (stopped()) return {};
  ++tokens_;
  const std::string text = characters_.push(tokenizer_.token_bytes(token.token));
  pending_.push_back({{token, decoded_characters_}, decoded_, decoded_ + text.size()});
  decoded_ += text.size();
  decoded_characters_ += characters_of(text);
  return show(stop_.push(text), stopped());
}

Choice::Piece Choice::end() {
  if (stopped()) return {};
  std::string rest = stop_.push(characters_.flush());
  rest += stop_.flush();
  return show(std::move(rest), true);
}

// Of a token in which a stop begins, a part may be shown. Those behind it are no part of the text.
Choice::Piece Choice::show(std::string text, bool last) {
  shown_ += text.size();
  Piece piece{.text = std::move(text)};
  const auto is_shown = [&](const Pending& p) {
    return p.end <= shown_ || (last && (p.begin < shown_ || !stopped()));
  };
  while (!pending_.empty() && is_shown(pending_.front())) {
    piece.tokens.push_back(std::move(pending_.front().shown));
    pending_.pop_front();
  }
  return piece;
}

}  // namespace tapegrad::serve
