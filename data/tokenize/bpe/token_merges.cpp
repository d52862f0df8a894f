#include "tapegrad/data/tokenize/bpe/token_merges.h"

#include <algorithm>
#include <map>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

bool TokenMerges::add(Merge pair, Token token, std::size_t rank) {
  const Made made = static_cast<Made>(rank) << 32 | static_cast<std::uint32_t>(token);
  return made_.add(pair_key(pair), made);
}

TokenMerges::Made TokenMerges::made_of(Merge pair) const { return made_.find(pair_key(pair)); }

Token TokenMerges::merged(Merge pair) const {
  const Made made = made_of(pair);
  return made == kNone ? -1 : token_of(made);
}

std::size_t TokenMerges::apply(std::span<const Token> start, std::vector<Token>& out) const {
  return start.size() <= kMostShort ? apply_short(start, out) : apply_long(start, out);
}

std::size_t TokenMerges::apply_short(std::span<const Token> start, std::vector<Token>& out) const {
  std::array<Token, kMostShort> tokens;
  std::array<Made, kMostShort> next;  // next[i]: what tokens i and i + 1 make
  std::size_t n = start.size(), looks = n;
  std::copy(start.begin(), start.end(), tokens.begin());
  for (std::size_t i = 0; i + 1 < n; ++i) {
    next[i] = made_of({tokens[i], tokens[i + 1]});
  }
  while (n > 1) {
    looks += n - 1;
    auto* const best =
        std::min_element(next.begin(), next.begin() + (n - 1),
                         [](Made left, Made right) { return rank_of(left) < rank_of(right); });
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
  return looks;
}

// Gives the result of apply_short() in less time: keeps the positions of each rank, and applies
// the merges of the least rank from left to right. Where training has made the merges, a merge
// creates pairs for later ones alone. In a file they may be in any order: then an earlier one goes
// first, and the rest of the positions wait.
std::size_t TokenMerges::apply_long(std::span<const Token> start, std::vector<Token>& out) const {
  check(start.size() < TokenChain::kNone, "[tokenizer] a word of {} characters is too long",
        start.size());
  TokenChain chain;
  chain.reserve(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) chain.append(start[i], i == 0);
  using Positions = std::vector<TokenChain::Position>;  // some of them may have lost their pair
  std::map<Rank, Positions> places;
  const auto made_at = [&](TokenChain::Position p) {
    return chain.next(p) == TokenChain::kNone ? kNone : made_of(chain.pair(p));
  };
  const auto note = [&](TokenChain::Position p) {
    if (p == TokenChain::kNone) return;
    const Made made = made_at(p);
    if (made != kNone) places[rank_of(made)].push_back(p);
  };
  for (TokenChain::Position p = 0; p < chain.size(); ++p) note(p);
  std::size_t looks = start.size();
  while (!places.empty()) {
    auto node = places.extract(places.begin());
    Positions& positions = node.mapped();
    looks += positions.size();
    if (!std::is_sorted(positions.begin(), positions.end())) {
      std::sort(positions.begin(), positions.end());
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const TokenChain::Position p = positions[i];
      const Made made = chain.is_dead(p) ? kNone : made_at(p);
      if (made == kNone || rank_of(made) != node.key()) continue;
      chain.merge(p, token_of(made));
      note(chain.prev(p));
      note(p);
      if (!places.empty() && places.begin()->first <= node.key()) {
        Positions& rest = places[node.key()];
        rest.insert(rest.end(), positions.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    positions.end());
        break;
      }
    }
  }
  for (TokenChain::Position p = 0; p != TokenChain::kNone; p = chain.next(p)) {
    out.push_back(chain.token(p));
  }
  return looks;
}

}  // namespace tapegrad::data
