// The tokens that a folder's files add to those of its vocabulary, and their ids.

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

using Ids = std::vector<Token>;

// A folder with a tokenizer of 401 tokens, the last of which is <tool>, and these files.
Tokenizer tokenizer_beside(const std::map<std::string, std::string>& files) {
  const TempFolder folder;
  std::filesystem::copy_file(testing::golden_file("hf_llama") / "tokenizer.json",
                             folder / "tokenizer.json");
  for (const auto& [name, bytes] : files) folder.put(name, bytes);
  return Tokenizer::from_hf(folder / "");
}

}  // namespace

TEST_CASE("tokens that other files add beside a tokenizer.json get transformers' ids",
          "[hf_tokenizer]") {
  const Tokenizer plain = tokenizer_beside({});
  REQUIRE(plain.vocab_size() == 401);
  const auto id = [](const Tokenizer& t, const std::string& text) {
    const Ids ids = t.encode(text, true);
    return ids.size() == 1 ? ids.front() : -1;
  };
  SECTION("added_tokens.json; tokens that are not special are read in any text") {
    const auto t = tokenizer_beside({{"added_tokens.json", R"({"<b>": 402, "<a>": 401})"},
                                     {"special_tokens_map.json", R"({"pad_token": "<b>"})"}});
    CHECK(t.encode("<a>") == Ids{401});
    CHECK(id(t, "<b>") == 402);
    CHECK(t.encode("<b>") == plain.encode("<b>"));
    CHECK(t.decode(Ids{401, 402}) == "<a><b>");
    CHECK(Tokenizer::of_hf(t.hf_json()).encode("x<a>", true) == t.encode("x<a>", true));
  }
  SECTION("added_tokens_decoder, whose flags count, and which hides the other two files") {
    const auto t = tokenizer_beside(
        {{"added_tokens.json", R"({"<b>": 7})"},
         {"special_tokens_map.json", R"({"pad_token": "<c>"})"},
         {"tokenizer_config.json",
          R"({"added_tokens_decoder": {"401": {"content": "<a>", "special": true, "lstrip": true},)"
          R"("400": {"content": "<tool>", "special": true}}, "mask_token": "<mask>"})"}});
    CHECK(t.encode("x <a>", true) == Ids{t.encode("x").front(), 401});
    CHECK(t.encode("<tool>") != Ids{400});
    CHECK(id(t, "<tool>") == 400);
    CHECK(id(t, "<mask>") == 402);
    CHECK(t.vocab_size() == 403);
  }
  SECTION("named tokens: the map's come first, lists last, and known ones keep their ids") {
    const auto t = tokenizer_beside(
        {{"tokenizer_config.json",
          R"({"pad_token": "<x>", "eos_token": {"content": "<|endoftext|>"}, "unk_token": "<u>",)"
          R"("additional_special_tokens": ["<l>", "<tool>"]})"},
         {"special_tokens_map.json", R"({"pad_token": "<p>", "sep_token": null})"}});
    CHECK(id(t, "<u>") == 401);
    CHECK(id(t, "<p>") == 402);
    CHECK(id(t, "<l>") == 403);
    CHECK(id(t, "<x>") == -1);
    CHECK(t.encode("<tool>") == Ids{400});
    CHECK(t.vocab_size() == 404);
  }
  SECTION("an id that the token would not get is refused by name") {
    const auto refused = [](const std::string& name, const std::string& bytes,
                            const std::string& message) {
      CHECK_THROWS_WITH(tokenizer_beside({{name, bytes}}), ContainsSubstring(message));
    };
    refused("added_tokens.json", R"({"<a>": 403})",
            "added_tokens.json says that the added token '<a>' has the id 403, which beside this "
            "tokenizer is 401");
    refused("added_tokens.json", R"({"<tool>": 401})", "'<tool>' has the id 401");
    refused("added_tokens.json", R"({"<a>": "401"})", "'<a>' has no id");
    refused("added_tokens.json", "[", "not valid JSON");
    refused("tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<a>"}}})",
            "tokenizer_config.json says that the added token '<a>' has the id 5");
    refused("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<a>"}}})",
            "added_tokens_decoder: 'x' is no token with an id");
  }
}

TEST_CASE("a file's added tokens get the ids that Hugging Face's reader gives them",
          "[hf_tokenizer]") {
  const TempFolder folder;
  json file = json::parse(TempFolder::get(testing::golden_file("hf_llama") / "tokenizer.json"));
  const json tool = file.at("added_tokens").at(1);
  const auto token = [&](const char* content, std::int64_t id) {
    json added = tool;
    added.update({{"content", content}, {"id", id}});
    return added;
  };
  const auto the = file.at("model").at("vocab").at("Ġthe").get<Token>();
  file["added_tokens"] = {file["added_tokens"][0], token("<gap>", 407), token("", 401),
                          token("Ġthe", 400),      token("<gap>", 9),   token("<last>", 408)};
  folder.put("tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_hf(folder.path());
  CHECK(tokenizer.encode("<gap>") == Ids{400});
  CHECK(tokenizer.encode("Ġthe") == Ids{the});
  CHECK(tokenizer.encode("<last>") == Ids{401});
  CHECK(tokenizer.vocab_size() == 402);
  // Runs and exports have these ids.
  tokenizer.save(folder / "kept.json");
  CHECK(Tokenizer::load(folder / "kept.json").encode("<last>") == Ids{401});
  const json kept = json::parse(tokenizer.hf_json());
  CHECK(kept.at("added_tokens").at(1).at("id") == 400);
  CHECK(kept.at("added_tokens").at(2).at("id") == the);
}

TEST_CASE("a file without added tokens gains none, whatever else changes in it", "[hf_tokenizer]") {
  const TempFolder folder;
  json file = json::parse(TempFolder::get(testing::golden_file("hf_llama") / "tokenizer.json"));
  file.erase("added_tokens");
  file["post_processor"] = nullptr;
  folder.put("tokenizer.json", file.dump());
  folder.put("tokenizer_config.json",
             R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true, "x": Infinity})");
  const Tokenizer tokenizer = Tokenizer::from_hf(folder.path());
  CHECK_FALSE(json::parse(tokenizer.hf_json()).contains("added_tokens"));
  CHECK(tokenizer.encode("the") == tokenizer.encode(" the"));
}

TEST_CASE("files of settings that name tokens may have Python's Infinity", "[hf_tokenizer]") {
  const Tokenizer t = tokenizer_beside(
      {{"tokenizer_config.json", R"({"model_max_length": Infinity, "pad_token": "<p>"})"},
       {"special_tokens_map.json", R"({"x": NaN, "mask_token": "<m>"})"}});
  CHECK(t.encode("<p>", true) == Ids{401});
  CHECK(t.encode("<m>", true) == Ids{402});
}
