#include "tapegrad/data/tokenize/bpe/byte_pairs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

bool BytePairs::add(Merge pair, Token token) {
  const Made made = static_cast<Made>(made_.size()) << 32 | static_cast<std::uint32_t>(token);
  return made_.emplace(pair_key(pair), made).second;
}

BytePairs::Made BytePairs::made_of(Merge pair) const {
  const auto found = made_.find(pair_key(pair));
  return found == made_.end() ? kNone : found->second;
}

Token BytePairs::merged(Merge pair) const {
  const Made made = made_of(pair);
  return made == kNone ? -1 : token_of(made);
}

void BytePairs::encode(std::string_view piece, std::vector<Token>& out) const {
  if (!whole_.empty()) {
    if (const auto token = whole_.find(piece); token != whole_.end()) {
      out.push_back(token->second);
      return;
    }
  }
  if (piece.size() <= kMaxShortPiece) {
    encode_short(piece, out);
  } else {
    encode_long(piece, out);
  }
}

void BytePairs::encode_short(std::string_view piece, std::vector<Token>& out) const {
  std::array<Token, kMaxShortPiece> tokens;
  std::array<Made, kMaxShortPiece> next;  // next[i]: what tokens i and i + 1 make
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = token_of_byte_[static_cast<std::uint8_t>(piece[i])];
  }
  for (std::size_t i = 0; i + 1 < n; ++i) {
    next[i] = made_of({tokens[i], tokens[i + 1]});
  }
  while (n > 1) {
    auto* const best = std::min_element(next.begin(), next.begin() + (n - 1));
    if (*best == kNone) {
      break;
    }
    const auto i = static_cast<std::size_t>(best - next.begin());
    tokens[i] = token_of(next[i]);
    std::copy(tokens.begin() + i + 2, tokens.begin() + n, tokens.begin() + i + 1);
    std::copy(next.begin() + i + 1, next.begin() + (n - 1), next.begin() + i);
    --n;
    if (i > 0) {
      next[i - 1] = made_of({tokens[i - 1], tokens[i]});
    }
    if (i + 1 < n) {
      next[i] = made_of({tokens[i], tokens[i + 1]});
    }
  }
  out.insert(out.end(), tokens.begin(), tokens.begin() + n);
}

// Gives the result of encode_short() in less time: keeps the positions of each pair that can merge,
// and applies the earliest merge at all its positions from left to right. Where training has made
// the merges, a merge creates pairs for later ones alone. In a file they may be in any order: then
// an earlier one goes first, and the rest of the positions wait.
void BytePairs::encode_long(std::string_view piece, std::vector<Token>& out) const {
  check(piece.size() < TokenChain::kNone, "[tokenizer] a word of {} bytes is too long",
        piece.size());
  TokenChain chain;
  chain.reserve(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    chain.append(token_of_byte_[static_cast<std::uint8_t>(piece[i])], i == 0);
  }
  struct Places {
    Merge pair;
    std::vector<TokenChain::Position> positions;  // some of them may have lost the pair
  };
  std::map<Made, Places> places;
  const auto note = [&](TokenChain::Position p) {
    if (p == TokenChain::kNone || chain.next(p) == TokenChain::kNone) return;
    const Merge pair = chain.pair(p);
    const Made made = made_of(pair);
    if (made == kNone) return;
    Places& at = places[made];
    at.pair = pair;
    at.positions.push_back(p);
  };
  for (TokenChain::Position p = 0; p < chain.size(); ++p) note(p);
  while (!places.empty()) {
    auto node = places.extract(places.begin());
    const Merge pair = node.mapped().pair;
    std::vector<TokenChain::Position>& positions = node.mapped().positions;
    if (!std::is_sorted(positions.begin(), positions.end())) {
      std::sort(positions.begin(), positions.end());
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const TokenChain::Position p = positions[i];
      if (!chain.holds(p, pair)) continue;
      chain.merge(p, token_of(node.key()));
      note(chain.prev(p));
      note(p);
      if (!places.empty() && places.begin()->first <= node.key()) {
        Places& rest = places[node.key()];
        rest.pair = pair;
        rest.positions.insert(rest.positions.end(),
                              positions.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                              positions.end());
        break;
      }
    }
  }
  for (TokenChain::Position p = 0; p != TokenChain::kNone; p = chain.next(p)) {
    out.push_back(chain.token(p));
  }
}

}  // namespace tapegrad::data
