// Tokenizers of SentencePiece's kinds, from a tokenizer.json.

#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using data::Token;
using data::Tokenizer;
using nlohmann::json;

namespace {

using Ids = std::vector<Token>;

json golden_of(const char* style) { return testing::golden_json("sentencepiece.json").at(style); }
json file_of(const char* style) {
  return json::parse(golden_of(style).at("file").get<std::string>());
}

std::string shown(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.flush();
}

struct Change {
  const char* style;
  const char* pointer;
  json value;
  const char* message;
};

void check_refused(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    json file = file_of(change.style);
    file[json::json_pointer(change.pointer)] = change.value;
    INFO(change.style << " " << change.pointer << " " << change.value);
    CHECK_THROWS_WITH(Tokenizer::of_hf(file.dump()), ContainsSubstring(change.message));
  }
}

}  // namespace

TEST_CASE("SentencePiece's texts become the ids of Hugging Face's tokenizers, and texts again",
          "[sentencepiece]") {
  const auto all = testing::golden_json("sentencepiece.json");
  for (const auto& [style, golden] : all.items()) {
    const Tokenizer tokenizer = Tokenizer::of_hf(golden.at("file").get<std::string>());
    for (const json& encoding : golden.at("encodings")) {
      const auto text = encoding.at("text").get<std::string>();
      INFO(style << ": " << text);
      const Ids ids = tokenizer.encode(text, true);
      CHECK(ids == encoding.at("ids").get<Ids>());
      CHECK(shown(decode_text(tokenizer, ids)) == encoding.at("decoded").get<std::string>());
    }
  }
}

TEST_CASE("a long text without pre-tokenizer has the tokens of its words", "[sentencepiece]") {
  const Tokenizer tokenizer = Tokenizer::of_hf(file_of("llama").dump());
  const Ids word = tokenizer.encode("the cat,");
  Ids many;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += i == 0 ? "the cat," : " the cat,";
    many.insert(many.end(), word.begin(), word.end());
  }
  CHECK(tokenizer.encode(text) == many);
}

TEST_CASE("tokens that stream are bytes, each of a character alone", "[sentencepiece]") {
  const Tokenizer tokenizer = Tokenizer::of_hf(file_of("llama").dump());
  const Ids ids = tokenizer.encode("x👍");
  REQUIRE(ids.size() >= 5);
  Utf8Stream stream;
  std::vector<std::string> pieces;
  for (const Token id : ids) pieces.push_back(stream.push(tokenizer.token_bytes(id)));
  CHECK(pieces.back() == "👍");
  CHECK(pieces[pieces.size() - 2].empty());
  CHECK(tokenizer.decode(ids) == " x👍");
  CHECK(decode_text(tokenizer, ids) == "x👍");
}

TEST_CASE("bytes that are not UTF-8 become the tokens of bytes", "[sentencepiece]") {
  const Tokenizer tokenizer = Tokenizer::of_hf(file_of("gemma").dump());
  CHECK(tokenizer.decode(tokenizer.encode("cat\xFFthe\xC3")) == "cat\xFFthe\xC3");
}

TEST_CASE("what stands before and behind a text in the post-processor begins and ends documents",
          "[sentencepiece]") {
  const Tokenizer albert = Tokenizer::of_hf(file_of("albert").dump());
  CHECK(albert.decode(albert.begin()) == "<s>");
  CHECK(albert.end_of_text() == albert.encode("</s>", true).front());
  const std::vector<std::string_view> documents{"the cat", "the mat"};
  CHECK(albert.decode(albert.encode_documents(documents)) == "<s> the cat</s><s> the mat");
}

TEST_CASE("an unknown character needs a token", "[sentencepiece]") {
  json file = file_of("t5");
  file["model"]["unk_id"] = nullptr;
  const Tokenizer tokenizer = Tokenizer::of_hf(file.dump());
  CHECK_THROWS_WITH(tokenizer.encode("ж"), ContainsSubstring("has no token for 'ж'"));
}

TEST_CASE("steps of SentencePiece's files that are not known are refused by name",
          "[sentencepiece]") {
  check_refused({
      {"llama", "/normalizer", {{"type", "BertNormalizer"}}, "the normalizer is not supported"},
      {"llama", "/normalizer/normalizers/1/pattern", "x", "the normalizer is not supported"},
      {"mistral", "/pre_tokenizer/prepend_scheme", "often", "the prepend_scheme is not supported"},
      {"mistral", "/pre_tokenizer/replacement", "_____", "not one character"},
      {"gemma", "/pre_tokenizer/behavior", "Contiguous", "the pre-tokenizer is not supported"},
      {"gemma", "/pre_tokenizer/invert", true, "the pre-tokenizer is not supported"},
      {"gemma", "/decoder", nullptr, "without a decoder"},
      {"gemma", "/decoder", {{"type", "ByteLevel"}}, "ByteLevel in the pre-tokenizer or"},
      {"llama", "/decoder/decoders/3/stop", 1, "the decoder is not supported"},
      {"llama", "/decoder/decoders/0/content", "    ", "the decoder is not supported"},
      {"llama", "/model/type", "WordPiece", "the model is not supported"},
      {"llama", "/added_tokens/0/single_word", true, "single_word is not supported"},
      {"t5", "/post_processor/single", json::array({{{"SpecialToken", {{"id", "</s>"}}}}}),
       "the post-processor is not supported"},
  });
}

TEST_CASE("broken tables of SentencePiece's files are refused with the reason", "[sentencepiece]") {
  json merges = json::array();
  merges.push_back(json::array({"", "t"}));
  check_refused({
      {"llama", "/model/unk_token", "<none>", "the unk_token '<none>' is not in the vocabulary"},
      {"unknown", "/model/unk_token", nullptr, "would be left out without a word"},
      {"llama", "/model/merges", merges, "merge 0 has an empty part"},
      {"t5", "/model/unk_id", 100000, "the unk_id 100000 is no token"},
      {"t5", "/model/vocab", json::object({{"a", 0}}), "needs a list \"vocab\""},
      {"t5", "/model/vocab", json::array({json::array({"a", "b"})}),
       "token 0 of the list \"vocab\" is not a text and its"},
      {"t5", "/normalizer/normalizers/0/precompiled_charsmap", "A!", "is not in base64"},
      {"t5", "/normalizer/normalizers/0/precompiled_charsmap", "AA==", "have 1 bytes, too few"},
      {"t5", "/normalizer/normalizers/0/precompiled_charsmap", "/////w==", "cannot be an array"},
      {"llama", "/normalizer/normalizers/0/prepend", std::string(300, 'x'), "256 are the most"},
      {"llama", "/normalizer/normalizers/1/pattern/String", "", "a text of no bytes"},
  });
}

TEST_CASE("replacing makes no text without bound", "[sentencepiece]") {
  json file = file_of("llama"), steps = json::array();
  for (int i = 0; i < 30; ++i) {
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(200, 'a')}});
  }
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const Tokenizer tokenizer = Tokenizer::of_hf(file.dump());
  CHECK_THROWS_WITH(tokenizer.encode("aaaa"), ContainsSubstring("normalizing makes more than"));
}

TEST_CASE("two steps make no more than one may", "[sentencepiece]") {
  json file = file_of("llama");
  const auto grow = [](const char* kind) -> json {
    return {{"type", "Replace"}, {"pattern", {{kind, "a"}}}, {"content", std::string(60, 'a')}};
  };
  for (const char* kind : {"String", "Regex"}) {
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {grow(kind), grow(kind)}}};
    const Tokenizer tokenizer = Tokenizer::of_hf(file.dump());
    CHECK_THROWS_WITH(tokenizer.encode(std::string(1000, 'a')),
                      ContainsSubstring("normalizing makes more than"));
  }
}

TEST_CASE("a mark of several spaces is no mark", "[sentencepiece]") {
  json file = file_of("t5");
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "    "}, {"split", false}};
  CHECK_THROWS_WITH(Tokenizer::of_hf(file.dump()), ContainsSubstring("not one character"));
}

TEST_CASE("ignore_merges takes pieces of characters that are tokens as they are",
          "[sentencepiece]") {
  json file = file_of("llama");
  file["model"]["ignore_merges"] = true;
  file["normalizer"] = nullptr;
  const Tokenizer whole = Tokenizer::of_hf(file.dump());
  const Token the = file["model"]["vocab"].at("▁the").get<Token>();
  CHECK(whole.encode("▁the") == Ids{the});
}
