#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/bpe/bpe_train.h"
#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/bpe/token_merges.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

using Tokens = std::vector<Token>;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    all.emplace_back(text.substr(0, first_piece(text)));
    text.remove_prefix(all.back().size());
  }
  return all;
}

Tokens bytes_as_tokens(std::string_view bytes) {
  Tokens tokens;
  for (const char byte : bytes) {
    const auto& order = gpt2_byte_order();
    tokens.push_back(static_cast<Token>(
        std::find(order.begin(), order.end(), static_cast<uint8_t>(byte)) - order.begin()));
  }
  return tokens;
}

void merge_everywhere(Tokens& tokens, Merge merge, Token merged) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (Merge{tokens[i], tokens[i + 1]} == merge) {
      tokens[i] = merged;
      tokens.erase(tokens.begin() + static_cast<int64_t>(i) + 1);
    }
  }
}

// The definition, at its own pace: each merge in turn, over every piece.
Tokens encode_naively(const std::vector<Merge>& merges, std::string_view text) {
  Tokens all;
  for (const std::string& piece : pieces(text)) {
    Tokens tokens = bytes_as_tokens(piece);
    for (size_t i = 0; i < merges.size(); ++i) {
      merge_everywhere(tokens, merges[i], static_cast<Token>(256 + i));
    }
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

std::vector<Merge> train_naively(std::string_view corpus, size_t merge_count) {
  std::vector<Tokens> words;
  for (const std::string& piece : pieces(corpus)) {
    words.push_back(bytes_as_tokens(piece));
  }
  std::vector<Merge> merges;
  while (merges.size() < merge_count) {
    std::map<Merge, int> counts;
    for (const Tokens& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        ++counts[{word[i], word[i + 1]}];
      }
    }
    const auto best = std::max_element(  // the first of equals, so the smallest ids
        counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < 2) {
      break;
    }
    merges.push_back(best->first);
    for (Tokens& word : words) {
      merge_everywhere(word, best->first, static_cast<Token>(255 + merges.size()));
    }
  }
  return merges;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, size_t size) {
  std::string text;
  while (text.size() < size) {
    text += alphabet[random() % alphabet.size()];
  }
  return text;
}

}  // namespace

TEST_CASE("GPT-2's tokenizer gives GPT-2's ids", "[bpe]") {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, Tokens>> cases = {
      {"Hello, I am", {15496, 11, 314, 716}},
      {"hello world", {31373, 995}},
      {"00000000000000000", {8269, 10535, 830}},
      {"today\n \n", {40838, 198, 220, 198}},
      {"hello  ", {31373, 220, 220}},
      {"a\r\nb", {64, 201, 198, 65}},
      {"\U0001F44D", {41840, 235}},
      {"x\u00b2\u00bd", {87, 31185, 23141}},
      {"a\0b"s, {64, 188, 65}},
      {"'''s 'S 's't", {7061, 6, 82, 705, 50, 705, 82, 470}},
      {"\uFFFD", {4210}},
      {"<|endoftext|>", {27, 91, 437, 1659, 5239, 91, 29}},
      {" \u0085"s + "0", {220, 126, 227, 15}},
      {"", {}},
  };
  const Tokenizer tokenizer = Tokenizer::gpt2();
  for (const auto& [text, ids] : cases) {
    INFO(text);
    CHECK(tokenizer.encode(text) == ids);
    CHECK(tokenizer.decode(ids) == text);
  }
}

TEST_CASE("GPT-2's vocabulary has 50,257 different tokens", "[bpe]") {
  const Tokenizer tokenizer = Tokenizer::gpt2();
  REQUIRE(tokenizer.vocab_size() == 50257);
  CHECK(tokenizer.end_of_text() == 50256);
  CHECK(tokenizer.token_bytes(0) == "!");
  CHECK(tokenizer.token_bytes(220) == " ");
  CHECK(tokenizer.token_bytes(256) == " t");
  CHECK(tokenizer.token_bytes(50255) == " gazed");
  CHECK(tokenizer.token_bytes(50256) == "<|endoftext|>");
  std::vector<std::string> all;
  for (Token token = 0; token < 50256; ++token) {
    all.push_back(tokenizer.token_bytes(token));
  }
  std::sort(all.begin(), all.end());
  CHECK(std::unique(all.begin(), all.end()) == all.end());
}

TEST_CASE("special tokens are recognised only when the caller allows them", "[bpe]") {
  const Tokenizer tokenizer = Tokenizer::gpt2();
  const std::string text = "<|endoftext|>Hello, I am<|endoftext|><|endoftext|>";
  CHECK(tokenizer.encode(text, true) == Tokens{50256, 15496, 11, 314, 716, 50256, 50256});
  const Tokens plain = tokenizer.encode(text);
  CHECK(std::count(plain.begin(), plain.end(), 50256) == 0);
  CHECK(tokenizer.decode(plain) == text);
  CHECK(tokenizer.encode("<|endoftext|", true) == tokenizer.encode("<|endoftext|"));
  // The text on either side is cut into pieces on its own.
  CHECK(tokenizer.encode("a <|endoftext|>b", true) == Tokens{64, 220, 50256, 65});
}

TEST_CASE("text is cut into pieces as by GPT-2's regular expression", "[bpe]") {
  using Pieces = std::vector<std::string>;
  CHECK(pieces("I'll say 'tis 42x") == Pieces{"I", "'ll", " say", " '", "tis", " 42", "x"});
  CHECK(pieces("'t's're've'm'll'd'x") ==
        Pieces{"'t", "'s", "'re", "'ve", "'m", "'ll", "'d", "'", "x"});
  CHECK(pieces("a   b") == Pieces{"a", "  ", " b"});
  CHECK(pieces("a\n\n b\t c") == Pieces{"a", "\n\n", " b", "\t", " c"});
  CHECK(pieces("a\n\nb \n") == Pieces{"a", "\n", "\n", "b", " \n"});
  CHECK(pieces("a\u3000\u00a0b") == Pieces{"a", "\u3000", "\u00a0", "b"});
  CHECK(pieces(" ") == Pieces{" "});
  CHECK(pieces("\u200b\u001c\u180e") == Pieces{"\u200b\u001c\u180e"});  // none of them White_Space
  CHECK(pieces("e\u0301 \u0663\u00bd\u2167") == Pieces{"e", "\u0301", " \u0663\u00bd\u2167"});
  CHECK(pieces("\u4e2d\u6587\u3002 \u00c9t\u00e9") ==
        Pieces{"\u4e2d\u6587", "\u3002", " \u00c9t\u00e9"});
  CHECK(pieces("a\xFF\xE4\xB8 \x80z") == Pieces{"a", "\xFF\xE4\xB8", " \x80", "z"});
}

TEST_CASE("any bytes are decoded to themselves", "[bpe]") {
  std::mt19937 random(1);
  const Tokenizer tokenizer = Tokenizer::gpt2();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  for (size_t size = 1; size < 300; ++size) {
    const std::string bytes = random_text(random, all, size);
    REQUIRE(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
  }
}

TEST_CASE("short and long pieces are encoded as the merges define it", "[bpe]") {
  std::mt19937 random(2);
  const Bpe bpe(train_naively(random_text(random, "aaab", 2000), 60));
  for (size_t size = 1; size < 150; ++size) {
    for (const std::string_view alphabet : {"a", "ab", "aaab"}) {
      const std::string text = random_text(random, alphabet, size);
      PieceCache cache(text.size());
      std::vector<Token> tokens;
      bpe.encode(text, false, cache, tokens);
      REQUIRE(tokens == encode_naively(bpe.merges(), text));
    }
  }
}

TEST_CASE("a million repeats are encoded with linear work", "[bpe]") {
  const Tokenizer tokenizer = Tokenizer::gpt2();
  const auto bpe = Bpe::gpt2();
  TokenMerges merges;
  merges.reserve(bpe->merges().size());
  for (size_t i = 0; i < bpe->merges().size(); ++i) {
    merges.add(bpe->merges()[i], static_cast<Token>(256 + i));
  }
  // The positions that merging looks at.
  const auto work = [&](const std::string& unit, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      text += unit;
    }
    size_t looks = 0;
    Tokens tokens;
    for (const std::string& piece : pieces(text)) {
      looks += merges.apply(bytes_as_tokens(piece), tokens);
    }
    CHECK(tokens == tokenizer.encode(text));
    return looks;
  };
  for (const std::string unit : {"a", "^", " ", "'s", "\u4e2d"}) {
    INFO(unit);
    // Eight times the text: linear work is 8 times as much, quadratic work 64 times.
    const size_t eighth = work(unit, 10'000), some = work(unit, 80'000);
    REQUIRE(some < 9 * eighth);
    CHECK(work(unit, 1'000'000) < 14 * some);
  }
}

TEST_CASE("training finds the same merges as counting anew each time", "[bpe]") {
  std::mt19937 random(3);
  const std::vector<std::string> alphabets = {"ab ", "aaaa ", "abcde  \n", "aaaaaaaaa\n", "ab'st "};
  for (const std::string& alphabet : alphabets) {
    for (const size_t size : {20U, 300U, 3000U}) {
      const std::string corpus = random_text(random, alphabet, size);
      const std::vector<Merge> expected = train_naively(corpus, 40);
      REQUIRE(train_merges(corpus, static_cast<int64_t>(257 + expected.size())) == expected);
    }
  }
}

TEST_CASE("a trained tokenizer has bytes, merges and end of text, in this order", "[bpe]") {
  const std::string corpus = "low low low lower newest newest";
  const Tokenizer tokenizer = Tokenizer::train_bpe(corpus, 260);
  CHECK(tokenizer.vocab_size() == 260);
  CHECK(tokenizer.end_of_text() == 259);
  CHECK(tokenizer.token_bytes(256) == "lo");
  CHECK(tokenizer.token_bytes(257) == "low");
  CHECK(tokenizer.token_bytes(258) == " low");
  CHECK(tokenizer.decode(tokenizer.encode(corpus)) == corpus);
  CHECK(tokenizer.encode("x<|endoftext|>", true).back() == 259);
  CHECK(Tokenizer::train_bpe("", 257).encode("any \xFF bytes").size() == 11);
}

TEST_CASE("a corpus too short for the vocabulary is an Error that says how far it got", "[bpe]") {
  // "ab" occurs twice, then nothing does.
  CHECK_THROWS_WITH(Tokenizer::train_bpe("ab cab", 1000),
                    ContainsSubstring("the corpus of 6 bytes is too short for bpe:1000") &&
                        ContainsSubstring("choose bpe:258 or less"));
  CHECK(Tokenizer::train_bpe("ab cab", 258).token_bytes(256) == "ab");
}

TEST_CASE("a vocabulary without room for the bytes, or of any size, is an Error", "[bpe]") {
  CHECK_THROWS_WITH(Tokenizer::train_bpe("text", 256), ContainsSubstring("at least 257 tokens"));
  CHECK_THROWS_AS(Tokenizer::train_bpe("text", -1), Error);
  CHECK_THROWS_WITH(Tokenizer::train_bpe("text", 1'000'001), ContainsSubstring("are the most"));
}

TEST_CASE("a training corpus of one endless word makes no endless tokens", "[bpe]") {
  const std::string corpus(100'000, 'a');
  // 2, 4, 8 … 256 bytes, and no further.
  CHECK_THROWS_WITH(train_merges(corpus, 1000), ContainsSubstring("choose bpe:265 or less"));
  const Bpe bpe(train_merges(corpus, 260));
  CHECK(bpe.bytes(258) == "aaaaaaaa");
}

TEST_CASE("rare pieces are dropped when there are too many", "[bpe]") {
  const std::string few = "a a a b b b c c d", many = few + " e f g h i j k l";
  PieceCounts exact, bounded({.pieces = 8, .bytes = 1000});
  for (const std::string_view text : {few, many}) exact.add(text);
  CHECK(exact.dropped() == 0);
  CHECK(exact.counts().at(" a") == 5 - 1);
  // The ninth piece drops those that occurred once, and then those that occurred so often.
  for (const std::string_view text : {few, many}) bounded.add(text);
  CHECK(bounded.dropped() > 0);
  CHECK(bounded.counts().size() <= 8);
  CHECK(bounded.counts().at(" b") == exact.counts().at(" b"));
  CHECK(bounded.counts().count(" e") == 0);
  CHECK(train_merges(bounded, 258) == train_merges(exact, 258));
  // Bytes are bounded, too.
  PieceCounts bytes({.pieces = 100, .bytes = 10});
  for (const std::string_view word : {" aaaa", " bbbb", " aaaa", " cccc"}) bytes.add(word);
  CHECK(bytes.counts().size() == 1);
  CHECK(bytes.counts().at(" aaaa") == 2);
}
