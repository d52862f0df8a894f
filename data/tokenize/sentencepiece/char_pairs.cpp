#include "tapegrad/data/tokenize/sentencepiece/internal/char_pairs.h"

#include <algorithm>
#include <bit>

namespace tapegrad::data {
namespace {

// Of valid UTF-8, by its first byte; a byte that begins no character stands alone.
std::size_t size_of_first(std::string_view piece) {
  const auto ones = static_cast<std::size_t>(std::countl_one(static_cast<std::uint8_t>(piece[0])));
  return std::min(piece.size(), ones >= 2 && ones <= 4 ? ones : 1);
}

std::size_t start_of_last(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::size_t CharPairs::first_char(std::string_view piece, Char& character) {
  const std::size_t size = size_of_first(piece);
  character = 0;
  for (std::size_t i = 0; i < size; ++i) {
    character = character << 8 | static_cast<std::uint8_t>(piece[i]);
  }
  return size;
}

void CharPairs::set_char(std::string_view character, Token token) {
  Char key = 0;
  first_char(character, key);
  chars_.add(key, static_cast<std::uint64_t>(token));
  if (key < 128) ascii_[key] = token;
}

void CharPairs::set_unknown(const UnknownText& unknown) {
  unknown_ = unknown;
  cuts_ = unknown.has_all_bytes();
}

bool CharPairs::add(Merge pair, std::string_view left, std::string_view right, Token token,
                    std::size_t rank) {
  // A token of a byte stands for another text than the one that is written.
  if (byte_of_shown(left) || byte_of_shown(right)) cuts_ = false;
  Char last = 0, first = 0;
  first_char(left.substr(start_of_last(left)), last);
  first_char(right, first);
  set_join(last, first);
  return merges_.add(pair, token, rank);
}

void CharPairs::add_symbol(std::string_view text, Token token) {
  symbols_.add(text, token);
  Char left = 0, right = 0;
  for (std::size_t at = first_char(text, left); at < text.size(); left = right) {
    at += first_char(text.substr(at), right);
    set_join(left, right);
  }
}

void CharPairs::set_join(Char left, Char right) {
  joins_[place_of(left, right)] = true;
  if (left < 128 && right < 128) ascii_joins_[left][right] = true;
}

bool CharPairs::may_join(Char left, Char right) const {
  return left < 128 && right < 128 ? ascii_joins_[left][right] : joins_[place_of(left, right)];
}

std::size_t CharPairs::first_part(std::string_view piece) const {
  // Without tokens of bytes, unknown characters may become one token, over any border.
  if (!whole_.empty() || !cuts_) return piece.size();
  Char left = 0, right = 0;
  std::size_t at = first_char(piece, left);
  for (; at < piece.size(); left = right) {
    const std::size_t size = first_char(piece.substr(at), right);
    if (!may_join(left, right)) break;
    at += size;
  }
  return at;
}

void CharPairs::encode(std::string_view piece, std::vector<Token>& out) const {
  if (!whole_.empty()) {
    if (const auto token = whole_.find(piece); token != whole_.end()) {
      out.push_back(token->second);
      return;
    }
  }
  std::vector<Token> start;
  start.reserve(piece.size());
  bool unknown = false;  // one is to be appended
  const auto append_unknown = [&] {
    if (unknown) start.push_back(*unknown_.token);
    unknown = false;
  };
  while (!piece.empty()) {
    if (const TextTree::Found symbol = symbols_.longest(piece); symbol.size > 0) {
      append_unknown();
      start.push_back(symbol.number);
      piece.remove_prefix(symbol.size);
      continue;
    }
    Char key = 0;
    const std::size_t size = first_char(piece, key);
    const std::uint64_t known =
        key < 128 ? static_cast<std::uint64_t>(ascii_[key]) : chars_.find(key);
    if (known != NumberMap::kNone) {
      append_unknown();
      start.push_back(static_cast<Token>(known));
    } else if (!unknown_.append_bytes(piece.substr(0, size), start) && unknown_.token) {
      if (!unknown_.fused) append_unknown();
      unknown = true;
    }
    piece.remove_prefix(size);
  }
  append_unknown();
  merges_.apply(start, out);
}

}  // namespace tapegrad::data
