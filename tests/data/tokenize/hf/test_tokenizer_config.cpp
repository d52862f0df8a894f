// The keys of tokenizer_config.json that decide ids. Ids are those of transformers 5.12's
// AutoTokenizer.

#include <map>
#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using data::Token;
using data::Tokenizer;
using nlohmann::json;

namespace {

using TokenList = std::vector<Token>;
using Files = std::map<std::string, std::string>;

json golden_style(const char* style) { return testing::golden_json("tokenizers.json").at(style); }

void put_tables(const TempFolder& folder, const json& file) {
  std::string merges = "#version: 0.2\n";
  for (const json& merge : file.at("model").at("merges")) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  folder.put("vocab.json", file.at("model").at("vocab").dump());
  folder.put("merges.txt", merges);
}

// A folder of vocab.json and merges.txt, and these files.
Tokenizer of_tables(const Files& files, const char* style = "gpt2") {
  const TempFolder folder;
  put_tables(folder, json::parse(golden_style(style).at("file").get<std::string>()));
  for (const auto& [name, bytes] : files) folder.put(name, bytes);
  return Tokenizer::from_hf(folder.path());
}

// A folder of tokenizer.json, and these files.
Tokenizer beside_json(const Files& files) {
  const TempFolder folder;
  folder.put("tokenizer.json", golden_style("gpt2").at("file").get<std::string>());
  for (const auto& [name, bytes] : files) folder.put(name, bytes);
  return Tokenizer::from_hf(folder.path());
}

Files config(const std::string& text) { return {{"tokenizer_config.json", text}}; }
Files config_of(const std::string& text, const std::string& model_type) {
  return {{"tokenizer_config.json", text},
          {"config.json", R"({"model_type": ")" + model_type + R"("})"}};
}

// True if texts without added tokens have the ids of a golden style.
bool cuts_as(const Tokenizer& tokenizer, const char* style) {
  bool same = true;
  const json encodings = golden_style(style).at("encodings");
  REQUIRE(encodings.size() > 10);
  for (const json& encoding : encodings) {
    const auto text = encoding.at("text").get<std::string>();
    if (text.find("<tool>") != text.npos || text.find("<|") != text.npos) continue;
    same = same && tokenizer.encode(text) == encoding.at("ids").get<TokenList>();
  }
  return same;
}

}  // namespace

TEST_CASE("the class cuts texts for vocab.json and merges.txt", "[tokenizer_config]") {
  const std::string qwen2 = R"({"tokenizer_class": "Qwen2Tokenizer"})",
                    gpt2 = R"({"tokenizer_class": "GPT2TokenizerFast"})", none = "{}";
  CHECK(cuts_as(of_tables({}), "gpt2"));
  CHECK(cuts_as(of_tables(config(gpt2)), "gpt2"));
  CHECK(cuts_as(of_tables(config_of(none, "gpt2")), "gpt2"));
  CHECK(cuts_as(of_tables(config_of(gpt2, "qwen3")), "gpt2"));
  CHECK(cuts_as(of_tables(config(qwen2), "qwen2"), "qwen2"));
  CHECK(cuts_as(of_tables(config_of(none, "qwen3"), "qwen2"), "qwen2"));
  CHECK(cuts_as(of_tables({{"config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})"}}, "qwen2"),
                "qwen2"));
  // transformers does not believe what such a folder says.
  CHECK(cuts_as(of_tables(config_of(gpt2, "qwen2"), "qwen2"), "qwen2"));
  CHECK_FALSE(cuts_as(of_tables(config(gpt2), "qwen2"), "qwen2"));
  // GPT-2's cut, behind NFC.
  const auto neox = of_tables(config(R"({"tokenizer_class": "GPTNeoXTokenizerFast"})"));
  CHECK(neox.encode("the 12 caf\u00e9") == of_tables({}).encode("the 12 caf\u00e9"));
  CHECK(neox.encode("e\u0301") == of_tables({}).encode("\u00e9"));
  for (const char* name : {"CohereTokenizer", "PreTrainedTokenizerFast", "RobertaTokenizer"}) {
    CHECK_THROWS_WITH(of_tables(config(std::string(R"({"tokenizer_class": ")") + name + R"("})")),
                      ContainsSubstring("the tokenizer_class " + std::string(name).substr(0, 12)));
  }
  CHECK_THROWS_WITH(of_tables(config_of(none, "llama")),
                    ContainsSubstring("model_type 'llama' says by which rule"));
  CHECK_THROWS_WITH(of_tables(config_of(gpt2, "granite")),
                    ContainsSubstring("the tokenizer_class TokenizersBackend is not known"));
}

TEST_CASE("vocab.json and merges.txt get the space and the ends that the config says",
          "[tokenizer_config]") {
  const auto of = [](const std::string& keys, const char* name = "GPT2Tokenizer") {
    return of_tables(
        config(std::string(R"({"tokenizer_class": ")") + name + R"(", )" + keys + "}"));
  };
  const auto plain = of_tables({});
  CHECK(of(R"("add_prefix_space": true)").encode("the day") == plain.encode(" the day"));
  CHECK(of(R"("add_prefix_space": true)").encode(" the") == plain.encode(" the"));
  CHECK(of(R"("add_prefix_space": false)").encode("the") == plain.encode("the"));
  const auto begin = [](const Tokenizer& t) {
    return TokenList(t.begin().begin(), t.begin().end());
  };
  CHECK(begin(plain).empty());
  CHECK(begin(of(R"("add_bos_token": true)")) == TokenList{0});
  CHECK(begin(of(R"("add_bos_token": true, "bos_token": "the")")) == TokenList{400});
  CHECK(begin(of(R"("add_bos_token": true, "bos_token": null)")).empty());
  CHECK(begin(of(R"("add_bos_token": false)")).empty());
  CHECK(begin(of(R"("add_bos_token": true)", "Qwen2Tokenizer")).empty());
  CHECK(of(R"("add_eos_token": true, "eos_token": "!")").end_of_text() == plain.encode("!").at(0));
  CHECK_THROWS_WITH(of(R"("add_bos_token": 1)"),
                    ContainsSubstring("\"add_bos_token\" must be true or false"));
  // What is written says the same.
  const auto both = of(R"("add_prefix_space": true, "add_bos_token": true)");
  const auto again = Tokenizer::of_hf(both.hf_json());
  CHECK(begin(again) == TokenList{0});
  CHECK(again.encode("the day") == plain.encode(" the day"));
}

TEST_CASE("beside a tokenizer.json, the config's keys count as its class reads them",
          "[tokenizer_config]") {
  const auto plain = beside_json({});
  const auto with = [](const char* name, const std::string& keys) {
    return beside_json(
        config(std::string(R"({"tokenizer_class": ")") + name + R"(", )" + keys + "}"));
  };
  const std::string prefix = R"("add_prefix_space": true)";
  CHECK(with("GPT2Tokenizer", prefix).encode("the day") == plain.encode(" the day"));
  CHECK(with("Qwen2TokenizerFast", prefix).encode("the") == plain.encode(" the"));
  CHECK(with("PreTrainedTokenizerFast", prefix).encode("the") == plain.encode("the"));
  CHECK(with("GPT2Tokenizer", R"("add_prefix_space": null)").encode("the") == plain.encode("the"));
  // transformers does not go by these two there.
  CHECK(with("GPT2Tokenizer", R"("add_bos_token": true, "add_eos_token": true)").begin().empty());
  // The rule is that of tokenizer.json, which stays as it is.
  CHECK(with("Qwen2Tokenizer", R"("add_prefix_space": false)").hf_json() == plain.hf_json());
  for (const char* name : {"GPT2Tokenizer", "PreTrainedTokenizerFast"}) {
    CHECK_THROWS_WITH(with(name, R"("split_special_tokens": true)"),
                      ContainsSubstring("\"split_special_tokens\": true is not supported"));
  }
  CHECK(with("GPT2Tokenizer", R"("split_special_tokens": false)").encode("the") ==
        plain.encode("the"));
}
