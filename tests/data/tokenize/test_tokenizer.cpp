#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

using Tokens = std::vector<Token>;

}  // namespace

TEST_CASE("a character tokenizer numbers the distinct characters in order", "[tokenizer]") {
  const Tokenizer tokenizer = Tokenizer::of_characters("hello\n \u4e2d\u00e9h");
  CHECK(tokenizer.kind() == "char");
  CHECK(tokenizer.vocab_size() == 8);  // \n, space, e, h, l, o, é, 中
  CHECK(tokenizer.encode("hello") == Tokens{3, 2, 4, 4, 5});
  CHECK(tokenizer.encode("\u4e2d\u00e9 \n") == Tokens{7, 6, 1, 0});
  CHECK(tokenizer.decode(Tokens{7, 6, 1, 0}) == "\u4e2d\u00e9 \n");
  CHECK(tokenizer.token_bytes(6) == "\u00e9");
  CHECK_FALSE(tokenizer.end_of_text().has_value());
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE("an unknown character is named with its place and the vocabulary", "[tokenizer]") {
  const Tokenizer tokenizer = Tokenizer::of_characters("abc\n");
  CHECK_THROWS_WITH(
      tokenizer.encode("ab\u00e9"),
      ContainsSubstring("'\u00e9' (U+00E9) at byte 2 is not in the vocabulary, which "
                        "is made of the 4 characters of the training corpus: \\nabc"));
  CHECK_THROWS_WITH(tokenizer.encode("a\u0007"), ContainsSubstring("U+0007 at byte 1"));
  CHECK_THROWS_WITH(tokenizer.encode("\U0001F44D"), ContainsSubstring("(U+1F44D) at byte 0"));
  CHECK_THROWS_AS(Tokenizer::of_characters("a\u4e2d").encode("\u00e9"), Error);
  CHECK_THROWS_WITH(tokenizer.encode("a\xFF"), ContainsSubstring("not UTF-8 at byte 1 (0xff)"));
}

TEST_CASE("a character tokenizer needs a corpus of UTF-8", "[tokenizer]") {
  CHECK_THROWS_WITH(Tokenizer::of_characters("caf\xE9 x"),
                    ContainsSubstring("the corpus is not UTF-8 at byte 3 (0xe9)"));
  CHECK_THROWS_WITH(Tokenizer::of_characters(""), ContainsSubstring("at least one character"));
}

TEST_CASE("a token outside the vocabulary is an Error with its number", "[tokenizer]") {
  const Tokenizer chars = Tokenizer::of_characters("abc");
  CHECK_THROWS_WITH(
      chars.decode(Tokens{0, 3}),
      ContainsSubstring("token 3 at position 1 is outside the vocabulary of 3 tokens"));
  CHECK_THROWS_AS(chars.token_bytes(-1), Error);
  CHECK_THROWS_WITH(Tokenizer::gpt2().decode(Tokens{50257}),
                    ContainsSubstring("vocabulary of 50257 tokens"));
}

TEST_CASE("make_tokenizer reads char, gpt2 and bpe:N", "[tokenizer]") {
  const std::string corpus = "the cat, the hat, the rat";
  CHECK(make_tokenizer("char", corpus).kind() == "char");
  CHECK(make_tokenizer("gpt2", corpus).vocab_size() == 50257);
  const Tokenizer bpe = make_tokenizer("bpe:260", corpus);
  CHECK(bpe.kind() == "bpe");
  CHECK(bpe.vocab_size() == 260);
  for (const std::string spec : {"", "Char", "bpe", "bpe:", "bpe:x", "bpe:260x", "bpe: 260",
                                 "bpe:+260", "bpe:99999999999999999999", "gpt2 ", "word"}) {
    CHECK_THROWS_WITH(make_tokenizer(spec, corpus),
                      ContainsSubstring("'" + spec + "' is not a tokenizer: choose char") &&
                          ContainsSubstring("gpt2") && ContainsSubstring("bpe:N"));
  }
}

TEST_CASE("a saved tokenizer is loaded as the same", "[tokenizer]") {
  const TempFolder folder;
  const std::string corpus = "the cat\n\"the\" \\hat\u4e2d\u0001 the rat \U0001F44D";
  for (const std::string spec : {"char", "gpt2", "bpe:260"}) {
    const Tokenizer tokenizer = make_tokenizer(spec, corpus);
    tokenizer.save(folder / "tokenizer.json");
    const Tokenizer loaded = Tokenizer::load(folder / "tokenizer.json");
    CHECK(loaded.kind() == tokenizer.kind());
    CHECK(loaded.vocab_size() == tokenizer.vocab_size());
    CHECK(loaded.encode(corpus) == tokenizer.encode(corpus));
    CHECK(loaded.decode(loaded.encode(corpus)) == corpus);
    CHECK(loaded.end_of_text() == tokenizer.end_of_text());
  }
  CHECK(folder.entries() == 1);
}

TEST_CASE("a tokenizer file that cannot be used is an Error with path and reason", "[tokenizer]") {
  const TempFolder folder;
  const std::string head = R"({"format": "tapegrad-tokenizer", "version": 1, "kind": )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"{", "not valid JSON at byte 2"},
      {"\xFF\xFE", "not valid JSON"},
      {head + "1e999}", "not valid JSON"},
      {std::string(1'000'000, '['), "nested too deeply"},
      {"[]", "not an object"},
      {"null", "not an object"},
      {"{}", "not an object with \"format\""},
      {R"({"format": 7})", "not an object with \"format\""},
      {R"({"format": "tapegrad-tokenizer"})", "\"version\" is missing"},
      {R"({"format": "tapegrad-tokenizer", "version": "1"})", "must be an integer, not string"},
      {R"({"format": "tapegrad-tokenizer", "version": 1.0})", "must be an integer, not number"},
      {R"({"format": "tapegrad-tokenizer", "version": 2})", "its version is 2"},
      {R"({"format": "tapegrad-tokenizer", "version": 18446744073709551615})",
       "its version is 18446744073709551615"},
      {head + R"("gpt2", "vocab_size": 18446744073709551615})",
       "its vocab_size is 18446744073709551615"},
      {head + "null}", "\"kind\" must be string, not null"},
      {head + R"("word"})", "its kind is 'word'"},
      {head + R"("gpt2"})", "\"vocab_size\" is missing"},
      {head + R"("gpt2", "vocab_size": 5})", "its vocab_size is 5, but it describes 50257 tokens"},
      {head + R"("char", "vocab_size": 2})", "\"characters\" is missing"},
      {head + R"("char", "vocab_size": 2, "characters": ["a"]})", "must be string, not array"},
      {head + R"("char", "vocab_size": 0, "characters": ""})", "at least one character"},
      {head + R"("char", "vocab_size": 2, "characters": "ba"})", "not ascending: 'a' (U+0061)"},
      {head + R"("char", "vocab_size": 2, "characters": "aa"})", "not ascending"},
      {head + R"("char", "vocab_size": 2, "characters": "\ud800"})", "not valid JSON"},
      {head + R"("bpe", "vocab_size": 258})", "\"merges\" is missing"},
      {head + R"("bpe", "vocab_size": 258, "merges": {}})", "must be array, not object"},
      {head + R"("bpe", "vocab_size": 258, "merges": [1]})", "merge 0 is not a pair"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[1, 2, 3]]})", "merge 0 is not a pair"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[1, "a"]]})", "must be two tokens"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[1, 2.5]]})", "must be two tokens"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[1, -2]]})", "a token -2"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[18446744073709551615, 2]]})",
       "a token 18446744073709551615"},
      {head + R"("bpe", "vocab_size": 258, "merges": [[1, 256]]})", "tokens below 256"},
      {head + R"("bpe", "vocab_size": 259, "merges": [[1, 2], [1, 2]]})", "repeats an earlier"},
      {head + R"("bpe", "vocab_size": 259, "merges": [[1, 2]]})", "describes 258 tokens"},
  };
  for (const auto& [text, reason] : cases) {
    const auto path = folder.put("tokenizer.json", text);
    INFO(text.substr(0, 100));
    CHECK_THROWS_WITH(Tokenizer::load(path),
                      ContainsSubstring(path.string()) && ContainsSubstring(reason));
  }
  CHECK_THROWS_WITH(Tokenizer::load(folder / "none"), ContainsSubstring("No such file"));
}

TEST_CASE("merges cannot describe tokens of any length", "[tokenizer]") {
  const TempFolder folder;
  std::string merges = "[0, 0]";
  for (int token = 256; token < 300; ++token) {  // each twice as long as the one before
    merges += fmt::format(", [{}, {}]", token, token);
  }
  const auto path = folder.put(
      "tokenizer.json",
      R"({"format": "tapegrad-tokenizer", "version": 1, "kind": "bpe", "vocab_size": 302, "merges": [)" +
          merges + "]}");
  CHECK_THROWS_WITH(Tokenizer::load(path), ContainsSubstring("a token of 512 bytes"));
}

TEST_CASE("a stream passes on whole characters only", "[utf8]") {
  const std::string text = "a\u00e9\u4e2d\U0001F44D!\n";
  Utf8Stream stream;
  std::string out;
  for (const char byte : text) {
    const std::string part = stream.push(std::string_view(&byte, 1));
    CHECK_FALSE(find_invalid_utf8(part).has_value());
    out += part;
  }
  CHECK(out == text);
  CHECK(stream.flush().empty());
  CHECK(stream.push("x\xF0\x9F") == "x");
  CHECK(stream.push("\x91\x8Dy") == "\U0001F44Dy");
}

TEST_CASE("a stream replaces bytes that are not UTF-8", "[utf8]") {
  const auto through = [](std::string_view bytes) {
    Utf8Stream stream;
    std::string text = stream.push(bytes);
    return text + stream.flush();
  };
  CHECK(through("a\x80z") == "a\uFFFDz");
  CHECK(through("a\xE4\xB8z") == "a\uFFFDz");                        // a character that breaks off
  CHECK(through("\xF0\x9F\x91") == "\uFFFD");                        // the same at the end
  CHECK(through("\xC0\xAF") == "\uFFFD\uFFFD");                      // overlong
  CHECK(through("\xE0\x80\x80") == "\uFFFD\uFFFD\uFFFD");            // overlong
  CHECK(through("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");            // a surrogate
  CHECK(through("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  CHECK(through("\xF4\x8F\xBF\xBF\xC2\xE4") == "\U0010FFFF\uFFFD\uFFFD");
}
