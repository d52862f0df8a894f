#include "tapegrad/data/tokenize/bpe/bpe.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/bpe/internal/gpt2_merges.h"

namespace tapegrad::data {

Bpe::Bpe(std::vector<Merge> merges) : merges_(std::move(merges)) {
  BytePairs::ByteTokens token_of_byte{};
  for (const std::uint8_t byte : gpt2_byte_order()) {
    token_of_byte[byte] = static_cast<Token>(size());
    append_token(std::string(1, static_cast<char>(byte)));
  }
  pairs_.set_bytes(token_of_byte);
  pairs_.reserve(merges_.size());
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right] = merges_[i];
    const auto token = static_cast<Token>(size());
    check(left >= 0 && left < token && right >= 0 && right < token,
          "[tokenizer] merge {} makes token {} of {} and {}, but its parts must be tokens below {}",
          i, token, left, right, token);
    check(pairs_.add(merges_[i], token),
          "[tokenizer] merge {} repeats an earlier one: tokens {} and {} already make {}", i, left,
          right, pairs_.merged(merges_[i]));
    std::string joined(bytes(left));
    joined += bytes(right);
    check(joined.size() <= kMaxTokenBytes,
          "[tokenizer] merge {} makes a token of {} bytes, which is too long; {} are the most", i,
          joined.size(), kMaxTokenBytes);
    append_token(joined);
  }
  append_token(kEndOfTextBytes);
}

std::shared_ptr<const Bpe> Bpe::gpt2() {
  static const auto shared = std::make_shared<const Bpe>(gpt2_merges());
  return shared;
}

void Bpe::append_token(std::string_view bytes) {
  bytes_ += bytes;
  begin_of_.push_back(bytes_.size());
}

std::string_view Bpe::bytes(Token token) const {
  const auto i = static_cast<std::size_t>(token);
  return std::string_view(bytes_).substr(begin_of_[i], begin_of_[i + 1] - begin_of_[i]);
}

void Bpe::encode(std::string_view text, const ReadSpecial& read, PieceCache& cache,
                 std::vector<Token>& tokens) const {
  PieceEncoder encoder(pairs_, cache, tokens);
  const auto encode_ordinary = [&](std::string_view ordinary) {
    while (!ordinary.empty()) {
      const std::size_t size = first_piece(ordinary);
      encoder.append(ordinary.substr(0, size));
      ordinary.remove_prefix(size);
    }
  };
  const auto next_special = [&] {
    std::size_t at = text.find(kEndOfTextBytes);
    while (at != text.npos && !read(text.substr(at, kEndOfTextBytes.size()))) {
      at = text.find(kEndOfTextBytes, at + 1);
    }
    return at;
  };
  for (std::size_t special; (special = next_special()) != text.npos;) {
    encode_ordinary(text.substr(0, special));
    encoder.append(end_of_text());
    text.remove_prefix(special + kEndOfTextBytes.size());
  }
  encode_ordinary(text);
}

std::size_t Bpe::last_cut(std::string_view text) const {
  constexpr std::size_t mark = kEndOfTextBytes.size();
  std::size_t size = text.size() - std::min(text.size(), mark);  // a mark may end behind the text
  while (const std::size_t cut = last_border(text.substr(0, size))) {
    const std::size_t begin = cut - std::min(cut, mark - 1);
    const std::size_t inside = text.substr(begin, cut - begin + mark - 1).find(kEndOfTextBytes);
    if (inside == text.npos) return cut;
    size = cut - 1;
  }
  return 0;
}

}  // namespace tapegrad::data
