#include <random>

#include "tapegrad/data/tokenize/bpe/byte_pairs.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::data;

namespace {

BytePairs bytes_alone() {
  BytePairs pairs;
  BytePairs::ByteTokens tokens{};
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i);
  pairs.set_bytes(tokens);
  return pairs;
}

std::vector<Token> encode(const BytePairs& pairs, std::string_view piece) {
  std::vector<Token> tokens;
  pairs.encode(piece, tokens);
  return tokens;
}

// As it is defined, with no thought of speed.
std::vector<Token> encode_slowly(const std::vector<std::pair<Merge, Token>>& merges,
                                 std::string_view piece) {
  std::vector<Token> tokens;
  for (const char c : piece) tokens.push_back(static_cast<unsigned char>(c));
  for (bool merged = true; merged;) {
    merged = false;
    for (const auto& [pair, token] : merges) {
      for (std::size_t i = 0; i + 1 < tokens.size() && !merged; ++i) {
        if (Merge(tokens[i], tokens[i + 1]) != pair) continue;
        tokens[i] = token;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  return tokens;
}

}  // namespace

TEST_CASE("the order of merges decides, not the ids of their tokens", "[byte_pairs]") {
  BytePairs pairs = bytes_alone();
  CHECK(pairs.add({'b', 'c'}, 900));
  CHECK(pairs.add({'a', 'b'}, 300));
  CHECK(!pairs.add({'a', 'b'}, 301));
  CHECK(pairs.merged({'a', 'b'}) == 300);
  CHECK(pairs.merged({'c', 'a'}) == -1);
  CHECK(encode(pairs, "abc") == std::vector<Token>{'a', 900});
  CHECK(encode(pairs, "ab") == std::vector<Token>{300});
}

// Among them are merges whose parts are made later in the order than they are: no training makes
// such, a file may have them.
TEST_CASE("short and long pieces are encoded as the definition says", "[byte_pairs]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    BytePairs pairs = bytes_alone();
    std::vector<std::pair<Merge, Token>> merges;
    for (Token token = 256; token < 280; ++token) {
      const auto part = [&] {
        return static_cast<Token>(random() % 3 == 0 ? 256 + random() % 24 : 'a' + random() % 3);
      };
      const Merge pair = {part(), part()};
      if (pairs.add(pair, token)) merges.emplace_back(pair, token);
    }
    for (const std::size_t size : {1, 7, 31, 32, 33, 60, 200}) {
      std::string piece;
      for (std::size_t i = 0; i < size; ++i) piece += static_cast<char>('a' + random() % 3);
      INFO(piece);
      CHECK(encode(pairs, piece) == encode_slowly(merges, piece));
    }
  }
}

TEST_CASE("a piece that is a token as a whole needs no merges", "[byte_pairs]") {
  BytePairs pairs = bytes_alone();
  pairs.add_whole("abc", 500);
  CHECK(encode(pairs, "abc") == std::vector<Token>{500});
  CHECK(encode(pairs, "abcd") == std::vector<Token>{'a', 'b', 'c', 'd'});
}
