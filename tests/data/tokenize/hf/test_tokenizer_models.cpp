// SentencePiece's own files, tokenizer.model.

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/base64.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/data/tokenize/sentencepiece/charsmap.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using data::Token;
using data::Tokenizer;
using nlohmann::json;

namespace {

using Ids = std::vector<Token>;

json golden_of(const char* style) {
  return testing::golden_json("tokenizer_models.json").at(style);
}
std::string model_of(const json& golden) {
  return bytes_of_base64(golden.at("file").get<std::string>(), "file");
}

// Protobuf's wire format.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(std::uint64_t field, std::uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string bytes(std::uint64_t field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}
std::string piece(const std::string& text, float score = 0, std::uint64_t type = 1) {
  std::string score_field = varint(2 << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(score);
  for (int shift = 0; shift < 32; shift += 8) score_field += static_cast<char>(bits >> shift);
  return bytes(1, bytes(1, text) + score_field + number(3, type));
}
const std::string kUnknown = piece("<unk>", 0, 2);

}  // namespace

TEST_CASE("a tokenizer.model gives SentencePiece's ids, and so does the tokenizer.json made of it",
          "[tokenizer_models]") {
  const TempFolder folder;
  const json all = testing::golden_json("tokenizer_models.json");
  for (const auto& [style, golden] : all.items()) {
    const auto tokenizer = Tokenizer::from_hf(folder.put("m.model", model_of(golden)));
    const auto written = Tokenizer::of_hf(tokenizer.hf_json());
    tokenizer.save(folder / "tokenizer.json");
    const auto saved = Tokenizer::load(folder / "tokenizer.json");
    for (const json& encoding : golden.at("encodings")) {
      const auto text = encoding.at("text").get<std::string>();
      INFO(style << ": " << text);
      const Ids ids = encoding.at("ids").get<Ids>();
      CHECK(tokenizer.encode(text) == ids);
      CHECK(written.encode(text) == ids);
      CHECK(saved.encode(text) == ids);
      Utf8Stream stream;
      const std::string decoded = stream.push(decode_text(tokenizer, ids));
      CHECK(decoded + stream.flush() == encoding.at("decoded").get<std::string>());
    }
    CHECK(saved.end_of_text() == tokenizer.end_of_text());
  }
}

TEST_CASE("a tokenizer.model's pieces are special, added or ordinary by their types",
          "[tokenizer_models]") {
  const TempFolder folder;
  const auto symbols =
      Tokenizer::from_hf(folder.put("m.model", model_of(golden_of("bpe symbols"))));
  const auto is = [&](const char* text) { return symbols.encode(text, true); };
  const Token sep = symbols.encode("a<sep>").back();
  CHECK(symbols.token_bytes(sep) == "<sep>");
  CHECK(symbols.is_added(sep));
  CHECK(symbols.encode("</s>").size() > 2);
  CHECK(is("</s>") == Ids{2});
  CHECK(symbols.end_of_text() == Token{2});
  // SentencePiece adds no tokens by itself.
  CHECK(symbols.begin().empty());
  const auto named = Tokenizer::from_hf(folder.put("m.model", model_of(golden_of("other names"))));
  CHECK(named.token_bytes(named.end_of_text().value()) == "<end>");
}

TEST_CASE("a user-defined piece that is called special is none that a text spells",
          "[tokenizer_models]") {
  const TempFolder folder;
  for (const char* style : {"bpe symbols", "unigram symbols"}) {
    const auto tokenizer = Tokenizer::from_hf(folder.put("m.model", model_of(golden_of(style))));
    const Token sep = tokenizer.encode("a<sep>").back();
    json file = json::parse(tokenizer.hf_json());
    for (json& added : file.at("added_tokens")) {
      if (added.at("id") == sep) added["special"] = true;
    }
    const auto special = Tokenizer::of_hf(file.dump());
    INFO(style);
    CHECK(special.encode("a<sep>", true).back() == sep);
    for (const Token token : special.encode("a<sep>")) CHECK(token != sep);
  }
}

TEST_CASE("a rule of a broken charsmap ends with a character", "[tokenizer_models]") {
  std::vector<std::uint32_t> units(256);
  units[0xC3] =
      0xC3 | 1U << 8 | (0xC3U ^ 1) << 10;  // a rule for byte C3, whose text units[1] places
  std::string bytes{'\0', '\4', '\0', '\0'};
  for (const std::uint32_t unit : units) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(unit >> shift);
  }
  const data::Charsmap rules(bytes + "x");
  CHECK(rules.longest("\xC3").value().text == "x");
  CHECK(!rules.longest("é"));
  CHECK(!rules.shortest("é"));
}

TEST_CASE("a folder's config says what stands before a text of its tokenizer.model",
          "[tokenizer_models]") {
  const TempFolder folder;
  folder.put("tokenizer.model", model_of(golden_of("bpe llama")));
  const auto begin = [&](const char* config) {
    folder.put("tokenizer_config.json", config);
    return Tokenizer::from_hf(folder.path()).begin().size();
  };
  CHECK(Tokenizer::from_hf(folder.path()).begin().size() == 1);
  CHECK(begin(R"({"tokenizer_class": "LlamaTokenizer"})") == 1);
  CHECK(begin(R"({"tokenizer_class": "GemmaTokenizer"})") == 1);
  CHECK(begin(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false})") == 0);
  CHECK(begin(R"({"tokenizer_class": "T5Tokenizer"})") == 0);
  CHECK(begin(R"({"tokenizer_class": "T5Tokenizer", "add_bos_token": true})") == 1);

  const auto encode = [&](const char* config) {
    folder.put("tokenizer_config.json", config);
    return Tokenizer::from_hf(folder.path()).encode("a</s>a", true);
  };
  const Ids legacy = encode("{}"), later = encode(R"({"legacy": false})");
  REQUIRE(legacy.size() == 3);
  CHECK(legacy[0] == legacy[2]);
  CHECK(later.front() == legacy[0]);
  CHECK(later.back() != legacy[2]);
  const auto again = Tokenizer::of_hf(Tokenizer::from_hf(folder.path()).hf_json());
  CHECK(again.encode("a</s>a", true) == later);
}

TEST_CASE("a tokenizer.model that is broken or not supported is refused with file and reason",
          "[tokenizer_models]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& file, const std::string& expected) {
    INFO(expected);
    CHECK_THROWS_WITH(Tokenizer::from_hf(folder.put("hostile.model", file)),
                      ContainsSubstring("hostile.model") && ContainsSubstring(expected));
  };
  const std::string whole = kUnknown + piece("a", -1);
  CHECK(Tokenizer::from_hf(folder.put("m.model", whole)).encode("a").size() == 2);
  refused("", "0 pieces of the type UNKNOWN");
  refused("IQ== 0\nIg== 1\n", "cannot be read as a file of SentencePiece's");
  refused(whole + "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "bytes, and the file 0 more");
  refused(whole + std::string(11, '\xff'), "more than 10 bytes");
  refused(whole + "\x0b", "a field has the type 3");
  refused(whole + number(1, 7), "the field 1 has the type 0, not 2");
  refused(whole.substr(0, whole.size() - 1), "bytes, and the file");
  refused(whole + kUnknown, "2 pieces of the type UNKNOWN");
  refused(whole + piece("a", -2), "'a' is there twice");
  refused(whole + piece("", -2), "the piece 2 is empty");
  refused(whole + piece("\xff", -2), "the piece 2 is not UTF-8");
  refused(whole + piece(std::string("b\0", 2), -2), "the piece 2 has a NUL");
  refused(whole + piece("b", std::nanf("")), "the score of the piece 2, 'b', is not finite");
  refused(whole + piece("b", std::numeric_limits<float>::infinity()), "is not finite");
  refused(whole + piece("b", 0, 5), "'b', is UNUSED");
  refused(whole + piece("b", 0, 9), "'b', has the type 9");
  refused(whole + piece("b", 0, 6), "'b', is no byte");
  refused(whole + piece("<0x00>", 0, 6), "1 pieces of the type BYTE");
  refused(whole + piece(std::string(257, 'b')), "257 bytes; 256 are the most");
  refused(kUnknown, "no piece of the type NORMAL");
  refused(whole + bytes(2, number(3, 3)), "its model_type is 3");
  refused(whole + bytes(2, number(24, 1)), "treat_whitespace_as_suffix is not supported");
  refused(whole + bytes(2, number(35, 1)), "with byte_fallback true there are 256");
  refused(whole + bytes(3, bytes(2, "\x01")), "the rules of a normalizer have 1 bytes");
  refused(whole + bytes(3, number(5, 0)), "escape_whitespaces: false");
  refused(whole + bytes(5, bytes(2, "\x01")), "rules for decoding");
}
