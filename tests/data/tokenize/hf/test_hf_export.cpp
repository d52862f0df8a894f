#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using data::Tokenizer;

namespace {

const std::string kText =
    "the cat sat on the mat, and the dog's 12 cats ate.\n\n  the the é中👍 naïve\t";

Tokenizer written(const Tokenizer& tokenizer) {
  const TempFolder folder;
  return Tokenizer::from_hf(folder.put("tokenizer.json", tokenizer.hf_json()));
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (data::Token t = 0; t < tokenizer.vocab_size(); ++t) {
    tokens.push_back(tokenizer.token_bytes(t));
  }
  return tokens;
}

}  // namespace

TEST_CASE("byte pairs as a tokenizer.json give the same ids", "[hf_export]") {
  for (const Tokenizer& ours :
       {Tokenizer::train_bpe(kText + kText + kText, 275), Tokenizer::gpt2()}) {
    const Tokenizer theirs = written(ours);
    CHECK(theirs.kind() == "hf");
    CHECK(theirs.vocab_size() == ours.vocab_size());
    CHECK(theirs.end_of_text() == ours.end_of_text());
    for (const std::string& text : {kText, std::string("the<|endoftext|>cat \x80")}) {
      CHECK(theirs.encode(text, true) == ours.encode(text, true));
    }
    CHECK(tokens_of(theirs) == tokens_of(ours));
  }
}

TEST_CASE("a tokenizer.json that works as GPT-2's is one of byte pairs", "[hf_export]") {
  for (const Tokenizer& ours :
       {Tokenizer::train_bpe(kText + kText + kText, 275), Tokenizer::gpt2()}) {
    for (const Tokenizer& like : {ours, written(ours).padded(60'000)}) {
      const Tokenizer pairs = like.byte_pairs();
      CHECK(pairs.kind() == "bpe");
      CHECK(pairs.vocab_size() == like.vocab_size());
      CHECK(pairs.end_of_text() == ours.end_of_text());
      for (const std::string& text : {kText, std::string("the<|endoftext|>cat \x80")}) {
        CHECK(pairs.encode(text, true) == ours.encode(text, true));
      }
      for (data::Token t = 0; t < ours.vocab_size(); ++t) {
        REQUIRE(pairs.token_bytes(t) == ours.token_bytes(t));
      }
    }
  }
  // GPT-2's own file says it in other words.
  nlohmann::json file = nlohmann::json::parse(written(Tokenizer::gpt2()).hf_json());
  file["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  file["pre_tokenizer"].erase("use_regex");
  file["model"]["continuing_subword_prefix"] = "";
  for (nlohmann::json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  CHECK(Tokenizer::of_hf(file.dump()).byte_pairs().encode(kText) ==
        Tokenizer::gpt2().encode(kText));
}

TEST_CASE("a tokenizer that does not work as GPT-2's is no byte pairs, with the reason",
          "[hf_export]") {
  using nlohmann::json;
  const json file = json::parse(Tokenizer::train_bpe(kText + kText + kText, 275).hf_json());
  const auto refused = [](const json& changed, const std::string& words) {
    INFO(changed);
    CHECK_THROWS_WITH(Tokenizer::of_hf(changed.dump()).byte_pairs(), ContainsSubstring(words));
  };
  const auto refused_with = [&](const char* pointer, const json& value, const std::string& words) {
    json changed = file;
    changed[json::json_pointer(pointer)] = value;
    refused(changed, words);
  };
  refused_with("/normalizer", {{"type", "NFC"}}, "its normalizer");
  refused_with("/pre_tokenizer/add_prefix_space", true, "its pre-tokenizer");
  refused_with("/pre_tokenizer/use_regex", false, "its pre-tokenizer");
  refused_with("/model/ignore_merges", true, "ignore_merges");
  refused_with("/added_tokens/0/lstrip", true, "its added tokens");
  refused_with("/added_tokens/0/special", false, "its added tokens");
  refused_with("/added_tokens", json::array(), "its added tokens");
  json more = file["added_tokens"][0];
  more["id"] = 275, more["content"] = "<x>";
  refused_with("/added_tokens/1", more, "its added tokens");
  json begins = file;
  begins["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single",
                               {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  refused(begins, "its post-processor");
  json swapped = file;
  std::swap(swapped["model"]["vocab"]["a"], swapped["model"]["vocab"]["b"]);
  refused(swapped, "GPT-2's order");
  json fewer = file;
  fewer["model"]["merges"].erase(fewer["model"]["merges"].size() - 1);
  refused(fewer, "GPT-2's order");
  CHECK_THROWS_WITH(Tokenizer::of_characters("ab").byte_pairs(), ContainsSubstring("characters"));
}

TEST_CASE("characters as a tokenizer.json are characters again", "[hf_export]") {
  const Tokenizer ours = Tokenizer::of_characters(kText + "\"\\ <|endoftext|>");
  const Tokenizer theirs = written(ours);
  CHECK(theirs.kind() == "char");
  CHECK(tokens_of(theirs) == tokens_of(ours));
  CHECK(theirs.encode(kText) == ours.encode(kText));
}

TEST_CASE("a tokenizer.json that is not quite one of characters is not read as one",
          "[hf_export]") {
  const auto json = nlohmann::json::parse(Tokenizer::of_characters("ab").hf_json());
  const TempFolder folder;
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json changed = json;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    INFO(changed);
    CHECK_THROWS_AS(Tokenizer::from_hf(folder.put("tokenizer.json", changed.dump())), Error);
  };
  // With a token for unknown characters it is a BPE that has no merges.
  nlohmann::json with_unknown = json;
  with_unknown["model"]["unk_token"] = "a";
  CHECK(Tokenizer::of_hf(with_unknown.dump()).kind() == "hf");
  refused("/model/vocab", {{"a", 1}, {"b", 0}});
  refused("/model/vocab", {{"ab", 0}, {"b", 1}});
  refused("/model/vocab", {{"", 0}, {"b", 1}});
  refused("/normalizer", {{"type", "NFC"}});
  refused("/pre_tokenizer", {{"type", "Whitespace"}});
  refused("/added_tokens", {{{"id", 2}, {"content", "<x>"}}});
}

TEST_CASE("a tokenizer is found out from the bytes of its tokens", "[hf_export]") {
  for (const Tokenizer& ours : {Tokenizer::train_bpe(kText + kText + kText, 275), Tokenizer::gpt2(),
                                Tokenizer::of_characters(kText)}) {
    const Tokenizer again = Tokenizer::of_tokens(tokens_of(ours));
    CHECK(again.kind() == ours.kind());
    CHECK(tokens_of(again) == tokens_of(ours));
    CHECK(again.encode(kText) == ours.encode(kText));
  }
  using Tokens = std::vector<std::string>;
  CHECK_THROWS_WITH(Tokenizer::of_tokens(Tokens{}), ContainsSubstring("no tokens"));
  CHECK_THROWS_WITH(Tokenizer::of_tokens(Tokens{"b", "a"}), ContainsSubstring("neither"));
  Tokens tokens = tokens_of(Tokenizer::train_bpe(kText + kText + kText, 275));
  std::swap(tokens[3], tokens[4]);
  CHECK_THROWS_WITH(Tokenizer::of_tokens(tokens), ContainsSubstring("token 3 is not the byte"));
  std::swap(tokens[3], tokens[4]);
  tokens[256] = "xyz";
  CHECK_THROWS_WITH(Tokenizer::of_tokens(tokens), ContainsSubstring("token 256 is not made"));
}

TEST_CASE("every kind of tokenizer is padded by ids without text, and remains of its kind",
          "[hf_export]") {
  const Tokenizer padded = Tokenizer::gpt2().padded(50304);
  CHECK(padded.vocab_size() == 50304);
  CHECK(padded.encode(kText) == Tokenizer::gpt2().encode(kText));
  CHECK(padded.end_of_text() == 50256);
  CHECK(padded.token_bytes(50300).empty());
  CHECK(padded.kind() == "gpt2");
  const Tokenizer letters = Tokenizer::of_characters("ab").padded(4);
  CHECK(letters.kind() == "char");
  CHECK(letters.padded(3).vocab_size() == 4);
  CHECK(letters.decode(std::vector<tapegrad::data::Token>{1, 3, 0}) == "ba");
  CHECK_THROWS_AS(letters.token_bytes(4), Error);
  const TempFolder folder;
  for (const Tokenizer& tokenizer : {padded, letters}) {
    tokenizer.save(folder / "tokenizer.json");
    const Tokenizer back = Tokenizer::load(folder / "tokenizer.json");
    CHECK(back.kind() == tokenizer.kind());
    CHECK(back.vocab_size() == tokenizer.vocab_size());
  }
  std::string file = TempFolder::get(folder / "tokenizer.json");
  file.replace(file.find("\"padded_size\":4"), 15, "\"padded_size\":2");
  CHECK_THROWS_WITH(Tokenizer::load(folder.put("tokenizer.json", file)),
                    ContainsSubstring("padded_size 2 is not from 3"));
}
