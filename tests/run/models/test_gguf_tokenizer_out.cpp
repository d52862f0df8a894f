// What a GGUF file says of a tokenizer: all that decides ids, or it is not written.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

void check_refused(const nlohmann::json& file, const std::string& expected) {
  const TempFolder folder;
  const auto t = data::Tokenizer::of_hf(file.dump());
  INFO(expected);
  CHECK_THROWS_WITH(
      run::export_gguf(model_of(t, tiny(t)), folder / "file.gguf", stored_type("f32")),
      ContainsSubstring(expected));
  CHECK(folder.entries() == 0);
}

}  // namespace

TEST_CASE("whatever a tokenizer does to a text and GGUF has no word for is refused by name",
          "[gguf_export]") {
  using nlohmann::json;
  const json gpt2 = json::parse(golden_tokenizer("gpt2").hf_json()), qwen2 = qwen2_file();
  const auto changed = [](json file, const char* pointer, json value) {
    file[json::json_pointer(pointer)] = std::move(value);
    return file;
  };
  const json nfc = {{"type", "NFC"}}, lowercase = {{"type", "Lowercase"}};
  check_refused(
      changed(gpt2, "/normalizer", nfc),
      "does not normalize texts with the pre-tokenizer gpt-2, as this tokenizer does, by NFC");
  const json normalizers[] = {
      lowercase,
      {{"type", "NFKC"}},
      {{"type", "StripAccents"}},
      {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}},
      {{"type", "Prepend"}, {"prepend", "x"}},
      {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}},
      {{"type", "Sequence"}, {"normalizers", {nfc, lowercase}}}};
  for (const json& normalizer : normalizers) {
    const auto type = normalizer.at("type").get<std::string>();
    check_refused(changed(qwen2, "/normalizer", normalizer),
                  "does not normalize texts, as this tokenizer does, by " +
                      (type == "Sequence" ? "NFC Lowercase" : type));
  }
  check_refused(changed(qwen2, "/added_tokens/2/normalized", true),
                "finds added tokens in the text as it is, and '<tool>' is found in what NFC makes");
  check_refused(changed(gpt2, "/model/ignore_merges", true), "ignore_merges");
  const std::string no_name = "no name for the tokenizer's pre-tokenizer, ";
  check_refused(changed(gpt2, "/pre_tokenizer/use_regex", false), no_name + "ByteLevel;");
  check_refused(changed(gpt2, "/pre_tokenizer/add_prefix_space", true),
                no_name + "ByteLevel+regex+prefix;");
  for (const std::string behavior : {"Removed", "MergedWithPrevious", "MergedWithNext"}) {
    check_refused(changed(qwen2, "/pre_tokenizer/pretokenizers/0/behavior", behavior),
                  no_name + "Split-" + behavior + ":(?i:");
  }
}

TEST_CASE("a tokenizer that a GGUF file describes otherwise is refused with a text",
          "[gguf_export]") {
  // Of two added tokens, the one that is not normalized is found first, however short it is.
  auto file = nlohmann::json::parse(golden_tokenizer("gpt2").hf_json());
  auto shorter = file.at("added_tokens").at(1);
  shorter.update({{"id", 401}, {"content", "<to"}, {"normalized", false}});
  file["added_tokens"].push_back(shorter);
  check_refused(file, "a GGUF file cannot say how this tokenizer encodes texts: \"a<tool>a\"");
}

TEST_CASE("added tokens go into a GGUF file as texts, and come back", "[gguf_export]") {
  const TempFolder folder;
  auto file = nlohmann::json::parse(golden_tokenizer("gpt2").hf_json());
  const auto& vocab = file.at("model").at("vocab");
  auto& added = file.at("added_tokens");
  // "Ġt" is a token that merges make, too; the others are none of the vocabulary's.
  for (const auto& [text, id] : {std::pair<std::string, std::int64_t>("kuća", 401),
                                 {"Začnimo", 402},
                                 {"日本", 403},
                                 {"Ġt", vocab.at("Ġt").get<std::int64_t>()}}) {
    auto token = added.at(1);
    token.update({{"id", id}, {"content", text}});
    added.push_back(std::move(token));
  }
  const auto tokenizer = data::Tokenizer::of_hf(file.dump());
  run::export_gguf(model_of(tokenizer, tiny(tokenizer)), folder / "file.gguf", stored_type("f32"));
  const auto back = run::load(folder / "file.gguf").tokenizer;
  for (const std::string text : {"Začnimo, kuća 日本!", "the Ġt time"}) {
    CHECK(back.encode(text) == tokenizer.encode(text));
    CHECK(back.decode(back.encode(text)) == tokenizer.decode(tokenizer.encode(text)));
  }
  CHECK(back.decode(back.encode("Začnimo, kuća 日本!")) == "Začnimo, kuća 日本!");
  CHECK(back.decode(back.encode(" t")) == " t");
}
