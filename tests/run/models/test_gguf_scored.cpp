// SentencePiece's BPE in GGUF files: tokens and scores.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using nlohmann::json;

json scored_golden(const char* style) { return golden_json("sentencepiece.json").at(style); }
json scored_file(const char* style) {
  return json::parse(scored_golden(style).at("file").get<std::string>());
}

void export_scored(const json& file, const fs::path& path) {
  const auto tokenizer = data::Tokenizer::of_hf(file.dump());
  run::export_gguf(model_of(tokenizer, tiny(tokenizer)), path, stored_type("f32"));
}

}  // namespace

TEST_CASE("SentencePiece's BPE goes into a GGUF file as tokens with scores, and comes back",
          "[gguf_scored]") {
  const TempFolder folder;
  json without_space = scored_file("llama");
  without_space["normalizer"]["normalizers"].erase(0);
  without_space["decoder"]["decoders"].erase(3);
  without_space["post_processor"] = nullptr;
  for (const json& file : {scored_file("llama"), without_space}) {
    const auto tokenizer = data::Tokenizer::of_hf(file.dump());
    export_scored(file, folder / "file.gguf");
    CHECK(std::get<std::string>(GgufFile(folder / "file.gguf").keys().at("tokenizer.ggml.model")) ==
          "llama");
    const data::Tokenizer back = run::load(folder / "file.gguf").tokenizer;
    const auto written = data::Tokenizer::of_hf(back.hf_json());
    CHECK(back.ends() == tokenizer.ends());
    CHECK(std::ranges::equal(back.begin(), tokenizer.begin()));
    const json golden = scored_golden("llama");
    for (const json& encoding : golden.at("encodings")) {
      const auto text = encoding.at("text").get<std::string>();
      INFO(text);
      const auto ids = tokenizer.encode(text, true);
      CHECK(back.encode(text, true) == ids);
      CHECK(written.encode(text, true) == ids);
      CHECK(back.decode(ids) == tokenizer.decode(ids));
    }
  }
}

TEST_CASE("what llama.cpp's SentencePiece would encode otherwise is refused", "[gguf_scored]") {
  const TempFolder folder;
  const auto refused = [&](const json& file, const std::string& expected) {
    CHECK_THROWS_WITH(export_scored(file, folder / "file.gguf"), ContainsSubstring(expected));
    CHECK_FALSE(fs::exists(folder / "file.gguf"));
  };
  refused(scored_file("mistral"), "normalizer or pre-tokenizer does otherwise");
  refused(scored_file("unknown"), "needs a token <0x00> and byte_fallback");
  refused(scored_file("gemma"), "llama.cpp has no rstrip, which the token '<h1>' has");
  refused(scored_file("t5"), "Unigram");
  json fewer = scored_file("llama");
  fewer["model"]["merges"].erase(fewer["model"]["merges"].size() - 1);
  refused(fewer, "the merges of this tokenizer that make");
  json whole = scored_file("llama");
  whole["model"]["ignore_merges"] = true;
  refused(whole, "no ignore_merges");
}

TEST_CASE("a GGUF file with broken tokens and scores is refused with file and reason",
          "[gguf_scored]") {
  const TempFolder folder;
  export_scored(scored_file("llama"), folder / "file.gguf");
  const auto complaint = [&](const auto& change) {
    Edited edited(folder / "file.gguf");
    change(edited.keys);
    return edited.complaint();
  };
  using Numbers = std::vector<std::int64_t>;
  const std::string key = "tokenizer.ggml.";
  CHECK_THAT(complaint([&](GgufKeys& keys) { keys.erase(key + "scores"); }),
             ContainsSubstring("scores 0 for"));
  CHECK_THAT(complaint([&](GgufKeys& keys) { keys[key + "model"] = std::string("t5"); }),
             ContainsSubstring("'t5' is not supported, only gpt2"));
  CHECK_THAT(complaint([&](GgufKeys& keys) { keys[key + "bos_token_id"] = std::int64_t{99999}; }),
             ContainsSubstring("bos_token_id 99999 is no token"));
  CHECK_THAT(complaint([&](GgufKeys& keys) { keys[key + "add_eos_token"] = true; }),
             ContainsSubstring("add_eos_token is not supported"));
  CHECK_THAT(complaint([&](GgufKeys& keys) { std::get<Numbers>(keys[key + "token_type"])[3] = 9; }),
             ContainsSubstring("is of type 9, which is not known"));
  CHECK_THAT(complaint([&](GgufKeys& keys) { std::get<Numbers>(keys[key + "token_type"])[3] = 5; }),
             ContainsSubstring("255 of 256 tokens are bytes"));
  CHECK_THAT(complaint([&](GgufKeys& keys) {
               std::get<std::vector<double>>(keys[key + "scores"])[300] = INFINITY;
             }),
             ContainsSubstring("is not finite"));
}

TEST_CASE("an unknown token without a text is a token of its model, and padding is none",
          "[model]") {
  json file = scored_file("unknown");
  file["model"]["sentencepiece"] = {
      {"silent", {0, 1, 2}}, {"symbols", json::array()}, {"unknown", 0}, {"unknown_surface", ""}};
  const auto tokenizer = data::Tokenizer::of_hf(file.dump());
  REQUIRE(tokenizer.token_bytes(0).empty());
  run::TextModel model = model_of(tokenizer, tiny(tokenizer.padded(tokenizer.vocab_size() + 2)));
  run::rule_out_padding(model.gpt, tokenizer);
  const auto ruled_out = model.gpt.ruled_out.to_vector<float>();
  CHECK(ruled_out[0] == 0);
  CHECK(std::count(ruled_out.begin(), ruled_out.end(), 0.0F) == tokenizer.vocab_size());
}
