#include "tapegrad/data/tokenize/bpe.h"

#include <algorithm>
#include <map>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/data/tokenize/gpt2_merges.h"
#include "tapegrad/data/tokenize/pretokenize.h"

namespace tapegrad::data {

namespace {

// Up to this many bytes, searching the whole piece for each merge is faster than keeping lists.
constexpr std::size_t kMaxShortPiece = 32;

// The number of distinct pieces whose tokens one encode() remembers.
constexpr std::size_t kMaxRemembered = std::size_t{1} << 20;

}  // namespace

// The tokens so far, and where each piece was encoded in them: text repeats its words, and a
// repeated piece is copied.
struct Bpe::Encoding {
  struct Span {
    std::size_t begin, size;
  };
  std::vector<Token> tokens;
  std::unordered_map<std::string_view, Span> seen;
};

Bpe::Bpe(std::vector<Merge> merges) : merges_(std::move(merges)) {
  for (const std::uint8_t byte : gpt2_byte_order()) {
    token_of_byte_[byte] = static_cast<Token>(size());
    append_token(std::string(1, static_cast<char>(byte)));
  }
  merged_.reserve(merges_.size());
  for (std::size_t i = 0; i < merges_.size(); ++i) {
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

Token Bpe::merged(Merge pair) const {
  const auto found = merged_.find(pair_key(pair));
  return found == merged_.end() ? kNoMerge : found->second;
}

std::vector<Token> Bpe::encode(std::string_view text, bool allow_special) const {
  Encoding encoding;
  while (allow_special) {
    const std::size_t special = text.find(kEndOfTextBytes);
    if (special == std::string_view::npos) {
      break;
    }
    encode_ordinary(text.substr(0, special), encoding);
    encoding.tokens.push_back(end_of_text());
    text.remove_prefix(special + kEndOfTextBytes.size());
  }
  encode_ordinary(text, encoding);
  return std::move(encoding.tokens);
}

void Bpe::encode_ordinary(std::string_view text, Encoding& encoding) const {
  std::vector<Token>& out = encoding.tokens;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, first_piece(text));
    text.remove_prefix(piece.size());
    if (piece.size() > kMaxShortPiece) {
      encode_long(piece, out);
      continue;
    }
    if (const auto found = encoding.seen.find(piece); found != encoding.seen.end()) {
      for (std::size_t i = 0; i < found->second.size; ++i) {
        out.push_back(Token{out[found->second.begin + i]});
      }
      continue;
    }
    const std::size_t begin = out.size();
    encode_short(piece, out);
    if (encoding.seen.size() < kMaxRemembered) {
      encoding.seen.emplace(piece, Encoding::Span{begin, out.size() - begin});
    }
  }
}

// Byte-pair encoding as it is defined: while any pair can merge, the earliest merge is applied at
// its leftmost position.
void Bpe::encode_short(std::string_view piece, std::vector<Token>& out) const {
  std::array<Token, kMaxShortPiece> tokens;
  std::array<Token, kMaxShortPiece> next;  // next[i]: what tokens i and i + 1 make
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = token_of_byte_[static_cast<std::uint8_t>(piece[i])];
  }
  for (std::size_t i = 0; i + 1 < n; ++i) {
    next[i] = merged({tokens[i], tokens[i + 1]});
  }
  while (n > 1) {
    auto* const best = std::min_element(next.begin(), next.begin() + (n - 1));
    if (*best == kNoMerge) {
      break;
    }
    const auto i = static_cast<std::size_t>(best - next.begin());
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

// The same result in less time: goes through the merges once in ascending order, and applies each
// at all its positions from left to right. One pass is enough: a merge creates pairs for later
// merges only, since its token is newer than the parts of any earlier merge.
void Bpe::encode_long(std::string_view piece, std::vector<Token>& out) const {
  check(piece.size() < TokenChain::kNone, "[tokenizer] a word of {} bytes is too long",
        piece.size());
  TokenChain chain;
  chain.reserve(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    chain.append(token_of_byte_[static_cast<std::uint8_t>(piece[i])], i == 0);
  }
  std::map<Token, std::vector<TokenChain::Position>> places;  // positions by the merge's token
  const auto note = [&](TokenChain::Position p) {
    if (p == TokenChain::kNone || chain.next(p) == TokenChain::kNone) {
      return;
    }
    if (const Token token = merged(chain.pair(p)); token != kNoMerge) {
      places[token].push_back(p);
    }
  };
  for (TokenChain::Position p = 0; p < chain.size(); ++p) {
    note(p);
  }
  while (!places.empty()) {
    auto node = places.extract(places.begin());
    const Merge merge = merges_[static_cast<std::size_t>(node.key()) - 256];
    for (const TokenChain::Position p : node.mapped()) {
      if (chain.holds(p, merge)) {
        chain.merge(p, node.key());
        note(chain.prev(p));
        note(p);
      }
    }
  }
  for (TokenChain::Position p = 0; p != TokenChain::kNone; p = chain.next(p)) {
    out.push_back(chain.token(p));
  }
}

}  // namespace tapegrad::data
