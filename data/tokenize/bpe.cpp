#include "tapegrad/data/tokenize/bpe.h"

#include <algorithm>
#include <map>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/data/tokenize/gpt2_merges.h"
#include "tapegrad/data/tokenize/pretokenize.h"

namespace tapegrad::data {

namespace {

// Up to this size the quadratic search for the next merge is faster than keeping lists.
constexpr size_t max_short_piece = 32;

// How many different pieces one encode() remembers.
constexpr size_t max_remembered = size_t{1} << 20;

}  // namespace

// The tokens so far, and where in them the pieces stand that have been encoded: text repeats
// itself.
struct Bpe::Encoding {
  struct Span {
    size_t begin, size;
  };
  std::vector<Token> tokens;
  std::unordered_map<std::string_view, Span> seen;
};

Bpe::Bpe(std::vector<Merge> merges) : merges_(std::move(merges)) {
  for (const uint8_t byte : gpt2_byte_order()) {
    token_of_byte_[byte] = static_cast<Token>(size());
    append_token(std::string(1, static_cast<char>(byte)));
  }
  merged_.reserve(merges_.size());
  for (size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right] = merges_[i];
    const auto token = static_cast<Token>(size());
    check(left >= 0 && left < token && right >= 0 && right < token,
          "[tokenizer] merge {} makes token {} of {} and {}, but its parts must be tokens below {}",
          i, token, left, right, token);
    check(merged_.emplace(pair_key(merges_[i]), token).second,
          "[tokenizer] merge {} repeats an earlier one: tokens {} and {} already make {}", i, left,
          right, merged({left, right}));
    std::string joined(bytes(left));
    joined += bytes(right);
    check(joined.size() <= max_token_bytes,
          "[tokenizer] merge {} makes a token of {} bytes; {} are the most", i, joined.size(),
          max_token_bytes);
    append_token(joined);
  }
  append_token(end_of_text_bytes);
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
  const auto i = static_cast<size_t>(token);
  return std::string_view(bytes_).substr(begin_of_[i], begin_of_[i + 1] - begin_of_[i]);
}

Token Bpe::merged(Merge pair) const {
  const auto found = merged_.find(pair_key(pair));
  return found == merged_.end() ? no_merge : found->second;
}

std::vector<Token> Bpe::encode(std::string_view text, bool allow_special) const {
  Encoding encoding;
  while (allow_special) {
    const size_t special = text.find(end_of_text_bytes);
    if (special == std::string_view::npos) {
      break;
    }
    encode_ordinary(text.substr(0, special), encoding);
    encoding.tokens.push_back(end_of_text());
    text.remove_prefix(special + end_of_text_bytes.size());
  }
  encode_ordinary(text, encoding);
  return std::move(encoding.tokens);
}

void Bpe::encode_ordinary(std::string_view text, Encoding& encoding) const {
  std::vector<Token>& out = encoding.tokens;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text));
    text.remove_prefix(piece.size());
    if (piece.size() > max_short_piece) {
      encode_long(piece, out);
      continue;
    }
    if (const auto found = encoding.seen.find(piece); found != encoding.seen.end()) {
      for (size_t i = 0; i < found->second.size; ++i) {
        out.push_back(Token{out[found->second.begin + i]});
      }
      continue;
    }
    const size_t begin = out.size();
    encode_short(piece, out);
    if (encoding.seen.size() < max_remembered) {
      encoding.seen.emplace(piece, Encoding::Span{begin, out.size() - begin});
    }
  }
}

// The rule itself: of all pairs that can merge, the earliest merge applies, leftmost first.
void Bpe::encode_short(std::string_view piece, std::vector<Token>& out) const {
  std::array<Token, max_short_piece> tokens;
  std::array<Token, max_short_piece> next;  // next[i]: what tokens i and i + 1 make
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) {
    tokens[i] = token_of_byte_[static_cast<uint8_t>(piece[i])];
  }
  for (size_t i = 0; i + 1 < n; ++i) {
    next[i] = merged({tokens[i], tokens[i + 1]});
  }
  while (n > 1) {
    auto* const best = std::min_element(next.begin(), next.begin() + (n - 1));
    if (*best == no_merge) {
      break;
    }
    const auto i = static_cast<size_t>(best - next.begin());
    tokens[i] = next[i];
    std::copy(tokens.begin() + i + 2, tokens.begin() + n, tokens.begin() + i + 1);
    std::copy(next.begin() + i + 1, next.begin() + (n - 1), next.begin() + i);
    --n;
    if (i > 0) {
      next[i - 1] = merged({tokens[i - 1], tokens[i]});
    }
    if (i + 1 < n) {
      next[i] = merged({tokens[i], tokens[i + 1]});
    }
  }
  out.insert(out.end(), tokens.begin(), tokens.begin() + n);
}

// The same result with every merge done once, for all the places where it applies, left to right. A
// merge makes pairs only for later merges (its token is newer than the parts of any earlier one),
// so one pass through the merges in ascending order is enough.
void Bpe::encode_long(std::string_view piece, std::vector<Token>& out) const {
  check(piece.size() < TokenChain::none, "[tokenizer] {} bytes without a border between words",
        piece.size());
  TokenChain chain;
  chain.reserve(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    chain.append(token_of_byte_[static_cast<uint8_t>(piece[i])], i == 0);
  }
  std::map<Token, std::vector<TokenChain::Position>> places;  // of every merge that is still to do
  const auto note = [&](TokenChain::Position p) {
    if (p == TokenChain::none || chain.next(p) == TokenChain::none) {
      return;
    }
    if (const Token token = merged(chain.pair(p)); token != no_merge) {
      places[token].push_back(p);
    }
  };
  for (TokenChain::Position p = 0; p < chain.size(); ++p) {
    note(p);
  }
  while (!places.empty()) {
    auto node = places.extract(places.begin());
    const Merge merge = merges_[static_cast<size_t>(node.key()) - 256];
    for (const TokenChain::Position p : node.mapped()) {
      if (chain.holds(p, merge)) {
        chain.merge(p, node.key());
        note(chain.prev(p));
        note(p);
      }
    }
  }
  for (TokenChain::Position p = 0; p != TokenChain::none; p = chain.next(p)) {
    out.push_back(chain.token(p));
  }
}

}  // namespace tapegrad::data
