#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using data::HfTokenizer;
using data::Token;
using data::Tokenizer;
using nlohmann::json;

namespace {

// The 256 bytes with ids from 1 on, and the tokens ab (300) and abc (400).
json small_file() {
  json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab[data::shown_bytes(std::string(1, static_cast<char>(byte)))] = byte + 1;
  }
  vocab["ab"] = 300;
  vocab["abc"] = 400;
  return {{"added_tokens",
           {{{"id", 0}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}},
            {{"id", 500}, {"content", "<tool>"}, {"special", false}, {"normalized", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

// The same with its added tokens in the vocabulary: in a folder they keep their ids.
json file_of_folder() {
  json file = small_file();
  for (const json& added : file["added_tokens"]) {
    file["model"]["vocab"][added.at("content").get<std::string>()] = added.at("id");
  }
  return file;
}

std::vector<Token> encode(const json& file, std::string_view text, bool special = true) {
  return Tokenizer::of_hf(file.dump()).encode(text, special);
}

using Ids = std::vector<Token>;

// A change of the small file, and what is said of it.
struct Fault {
  const char* pointer;
  json value;
  const char* message;
};

}  // namespace

TEST_CASE("documents end with the file's own token, or in an empty line", "[hf_tokenizer]") {
  json file = small_file();
  const std::vector<std::string_view> documents{"ab", "b<|endoftext|>\n", "a\n", "b"};
  CHECK(Tokenizer::of_hf(file.dump()).encode_documents(documents, true) ==
        encode(file, "ab<|endoftext|>b<|endoftext|>\na\n<|endoftext|>b"));
  file["added_tokens"][0]["content"] = "</s>";
  const std::vector<std::string_view> others{"ab</s>", "a", "b"};
  CHECK(Tokenizer::of_hf(file.dump()).encode_documents(others, true) ==
        encode(file, "ab</s>a</s>b"));
  file["added_tokens"][0]["content"] = "<none>";
  CHECK(Tokenizer::of_hf(file.dump()).encode_documents(documents, true) ==
        encode(file, "ab\n\nb<|endoftext|>\n\na\n\nb"));
}

TEST_CASE("texts become the ids of Hugging Face's tokenizers", "[hf_tokenizer]") {
  const auto all = testing::golden_json("tokenizers.json");
  for (const auto& [style, golden] : all.items()) {
    const Tokenizer tokenizer = Tokenizer::of_hf(golden.at("file").get<std::string>());
    const std::span<const Token> begin = tokenizer.begin();
    CHECK(Ids(begin.begin(), begin.end()) == golden.at("begin").get<Ids>());
    for (const json& encoding : golden.at("encodings")) {
      const auto text = encoding.at("text").get<std::string>();
      INFO(style << ": " << text);
      const Ids ids = tokenizer.encode(text, true);
      CHECK(ids == encoding.at("ids").get<Ids>());
      std::string decoded;
      for (const Token id : ids) decoded += tokenizer.token_bytes(id);
      CHECK(decoded == (style == "qwen2" ? data::nfc(text) : text));
    }
  }
}

TEST_CASE("ids, added tokens and holes are those of the file", "[hf_tokenizer]") {
  const Tokenizer tokenizer = Tokenizer::of_hf(small_file().dump());
  CHECK(tokenizer.vocab_size() == 501);
  CHECK(tokenizer.token_bytes(0) == "<|endoftext|>");
  CHECK(tokenizer.token_bytes(400) == "abc");
  CHECK(tokenizer.token_bytes(450).empty());
  CHECK(tokenizer.end_of_text() == 0);
  CHECK(tokenizer.begin().empty());
  CHECK(tokenizer.encode("abcab<|endoftext|>", true) == Ids{400, 300, 0});
  CHECK(tokenizer.encode("<tool>a", false) == Ids{500, 'a' + 1});
  CHECK(tokenizer.encode("<|endoftext|>", false).size() == 13);
}

TEST_CASE("an added token takes the white space beside it if the file says so", "[hf_tokenizer]") {
  json file = small_file();
  CHECK(encode(file, "ab <tool>\n ab") == Ids{300, ' ' + 1, 500, '\n' + 1, ' ' + 1, 300});
  file["added_tokens"][1]["lstrip"] = true;
  CHECK(encode(file, "ab <tool>\n ab") == Ids{300, 500, '\n' + 1, ' ' + 1, 300});
  file["added_tokens"][1]["rstrip"] = true;
  CHECK(encode(file, "ab <tool>\n ab") == Ids{300, 500, 300});
}

TEST_CASE("bytes that are not UTF-8 are encoded one by one", "[hf_tokenizer]") {
  for (const json& pre :
       {json({{"type", "ByteLevel"}, {"add_prefix_space", false}}),
        json({{"type", "Sequence"},
              {"pretokenizers",
               {{{"type", "Split"},
                 {"pattern", {{"Regex", "\\s+|\\S+"}}},
                 {"behavior", "Isolated"},
                 {"invert", false}},
                {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}})}) {
    json file = small_file();
    file["pre_tokenizer"] = pre;
    file["normalizer"] = {{"type", "NFC"}};
    CHECK(encode(file,
                 "abc\xFF"
                 "ab\xC3") == Ids{400, 0xFF + 1, 300, 0xC3 + 1});
  }
}

TEST_CASE("the older form of merges and of files is read", "[hf_tokenizer]") {
  json file = small_file();
  file["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  CHECK(encode(file, "abc") == Ids{400});
  file = small_file();
  file["model"]["vocab"]["<|endoftext|>"] = 257;
  const std::string merges = "#version: 0.2\na b\r\nab c\n";
  const Tokenizer pair =
      Tokenizer::of_hf(data::tokenizer_json_of(file["model"]["vocab"].dump(), merges));
  CHECK(pair.encode("abc<|endoftext|>", true) == Ids{400, 257});
  CHECK(pair.end_of_text() == 257);
}

TEST_CASE("ignore_merges takes pieces that are tokens as they are", "[hf_tokenizer]") {
  json file = small_file();
  file["model"]["merges"] = {"b c"};
  file["model"]["vocab"]["bc"] = 401;
  CHECK(encode(file, "abc") == Ids{'a' + 1, 401});
  file["model"]["ignore_merges"] = true;
  CHECK(encode(file, "abc") == Ids{400});
}

TEST_CASE("what is not supported is refused by name", "[hf_tokenizer]") {
  const std::vector<Fault> faults = {
      {"/normalizer", {{"type", "Nmt"}}, "the normalizer is not supported: {\"type\":\"Nmt\"}"},
      {"/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}}}}}, "prepend"},
      {"/pre_tokenizer", nullptr, "ByteLevel in the pre-tokenizer or the decoder alone"},
      {"/pre_tokenizer", {{"type", "Punctuation"}}, "the pre-tokenizer is not supported"},
      {"/decoder", nullptr, "a tokenizer without a decoder is not supported"},
      {"/decoder", {{"type", "Metaspace"}}, "ByteLevel in the pre-tokenizer or the decoder alone"},
      {"/model/type", "WordPiece", "the model is not supported: \"WordPiece\""},
      {"/model/dropout", 0.1, "dropout is not supported"},
      {"/model/byte_fallback", true, "byte_fallback is not supported"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix is not supported"},
      {"/added_tokens/1/single_word", true, "single_word is not supported"},
      {"/post_processor", {{"type", "RobertaProcessing"}}, "the post-processor is not supported"},
      {"/post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "</s>"}}}}}}},
       "the post-processor's token '</s>' is not among the added ones"},
  };
  for (const Fault& fault : faults) {
    json file = small_file();
    file[json::json_pointer(fault.pointer)] = fault.value;
    INFO(fault.pointer << " " << fault.value);
    CHECK_THROWS_WITH(HfTokenizer(file.dump()), ContainsSubstring(fault.message));
  }
}

TEST_CASE("a broken tokenizer.json is refused with the reason", "[hf_tokenizer]") {
  const std::vector<Fault> faults = {
      {"/model", nullptr, "no object \"model\""},
      {"/model/vocab", json::object(), "no \"vocab\", or an empty one"},
      {"/model/vocab", {{"a", 0}}, "no token for the byte 0"},
      {"/model/vocab/ab", 400, "has the id 400 of another token"},
      {"/model/vocab/ab", -1, "the id -1 of ab is out of range"},
      {"/model/vocab/ab", 4'000'000, "the id 4000000 of ab is out of range"},
      {"/model/vocab/ab", "1", "must be a whole number, not string"},
      {"/model/merges", nullptr, "needs a list \"merges\""},
      {"/model/merges", json::array({"a b c"}), "merge 0 is not two tokens"},
      {"/model/merges", json::array({json::array({"a"})}), "merge 0 is not a pair"},
      {"/model/merges", json::array({"a c"}), "merge 0 needs 'ac', which is not in the vocabulary"},
      {"/model/merges", {"a b", "a b"}, "merge 1 repeats an earlier one"},
      {"/added_tokens", 1, "\"added_tokens\" must be a list"},
      {"/added_tokens/0/content", "", "the added token 0 is empty"},
      {"/added_tokens/0/id", 300, "has the id 300 of another token"},
      {"/added_tokens/0/special", "yes", "\"special\" must be true or false"},
  };
  for (const Fault& fault : faults) {
    json file = small_file();
    file[json::json_pointer(fault.pointer)] = fault.value;
    INFO(fault.pointer << " " << fault.value);
    CHECK_THROWS_WITH(HfTokenizer(file.dump()), ContainsSubstring(fault.message));
  }
  std::string twice = small_file().dump();
  twice.insert(twice.find(R"("vocab":{)") + 9, R"("ab":300,)");
  CHECK_THROWS_WITH(HfTokenizer(twice), ContainsSubstring("'ab' is there twice"));
  CHECK_THROWS_AS(HfTokenizer(""), Error);
  CHECK_THROWS_AS(HfTokenizer("[]"), Error);
}

TEST_CASE("the content of an added token is text, and that of a piece is shown", "[hf_tokenizer]") {
  json file = small_file();
  file["model"]["vocab"]["Ġa"] = 401;
  file["model"]["vocab"]["<ć>"] = 402;  // as training puts special tokens there
  file["model"]["merges"].push_back("Ġ a");
  std::int64_t id = 501;
  for (const char* content : {"kuća", "Ġx", "日本"}) {
    file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", false}});
  }
  file["added_tokens"].push_back({{"id", 401}, {"content", "Ġa"}, {"special", false}});
  file["added_tokens"].push_back({{"id", 402}, {"content", "<ć>"}, {"special", true}});
  const Tokenizer tokenizer = Tokenizer::of_hf(file.dump());
  for (const std::string text : {"kuća", "Ġx", "日本"}) {
    CHECK(tokenizer.encode(text).size() == 1);
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
  CHECK(tokenizer.decode(tokenizer.encode("b kuća Ġx日本 a<ć>", true)) == "b kuća Ġx日本 a<ć>");
  // Merges make it of " a".
  CHECK(tokenizer.encode(" a") == Ids{401});
  CHECK(tokenizer.token_bytes(401) == " a");
  CHECK(tokenizer.token_bytes(402) == "<ć>");
}

TEST_CASE(
    "a space before texts is put where the file says so, and before each piece between added "
    "tokens",
    "[hf_tokenizer]") {
  json file = small_file();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  const Token space = ' ' + 1;
  CHECK(encode(file, "ab ab") == Ids{space, 300, space, 300});
  CHECK(encode(file, " ab<tool>ab<|endoftext|>") == Ids{space, 300, 500, space, 300, 0});
  CHECK(encode(file, "").empty());
}

TEST_CASE("a tokenizer.json is kept in a run folder as it is", "[hf_tokenizer]") {
  const TempFolder folder;
  const std::string text = file_of_folder().dump(2);
  folder.put("tokenizer.json", text);
  const Tokenizer tokenizer = Tokenizer::from_hf(folder / "");
  CHECK(tokenizer.kind() == "hf");
  CHECK(tokenizer.vocab_size() == 501);
  tokenizer.save(folder / "kept.json");
  CHECK(TempFolder::get(folder / "kept.json") == text);
  CHECK(Tokenizer::load(folder / "kept.json").encode("abcab") == Ids{400, 300});
  CHECK_THROWS_WITH(Tokenizer::from_hf(folder / "none"), ContainsSubstring("none"));
  folder.put("other/x", "");
  CHECK_THROWS_WITH(Tokenizer::from_hf(folder / "other"),
                    ContainsSubstring("neither tokenizer.json nor vocab.json nor tokenizer.model"));
}

TEST_CASE("texts end at the eos_token_id of a folder, or else at a token of a known name",
          "[hf_tokenizer]") {
  const TempFolder folder;
  folder.put("tokenizer.json", file_of_folder().dump());
  const auto read = [&] { return Tokenizer::from_hf(folder / ""); };
  CHECK(read().ends() == Ids{0});
  folder.put("config.json", R"({"eos_token_id": null})");
  CHECK(read().ends() == Ids{0});
  folder.put("config.json", R"({"eos_token_id": 300})");
  CHECK(read().ends() == Ids{300});
  CHECK(read().end_of_text() == 300);
  folder.put("generation_config.json", R"({"temperature": 0.6})");
  CHECK(read().ends() == Ids{300});
  folder.put("generation_config.json", R"({"eos_token_id": [400, 0]})");
  const Tokenizer tokenizer = read();
  CHECK(tokenizer.ends() == Ids{400, 0});
  CHECK(tokenizer.end_of_text() == 0);  // which separates documents by its name
  CHECK(tokenizer.padded(600).ends() == Ids{400, 0});
  CHECK(tokenizer.ending_at(std::vector<std::int64_t>{300})
            .encode_documents(std::vector<std::string_view>{"ab", "ab"}) == Ids{300, 300, 300});
}

TEST_CASE("the ends of a text are kept in a run folder", "[hf_tokenizer]") {
  const TempFolder folder;
  const Tokenizer named = Tokenizer::of_hf(small_file().dump());
  named.save(folder / "tokenizer.json");
  CHECK(folder.entries() == 1);
  named.ending_at(std::vector<std::int64_t>{400, 300}).save(folder / "tokenizer.json");
  CHECK(Tokenizer::load(folder / "tokenizer.json").ends() == Ids{400, 300});
  CHECK(TempFolder::get(folder / "tokenizer.json") == named.hf_json());
  std::filesystem::rename(folder / "generation_config.json", folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere", folder / "generation_config.json");
  CHECK_THROWS_WITH(Tokenizer::load(folder / "tokenizer.json"),
                    ContainsSubstring("generation_config.json"));
}

TEST_CASE("an eos_token_id that is no token is refused by name", "[hf_tokenizer]") {
  const TempFolder folder;
  folder.put("tokenizer.json", file_of_folder().dump());
  const auto complaint = [&](const std::string& value) -> std::string {
    folder.put("config.json", R"({"eos_token_id": )" + value + "}");
    try {
      Tokenizer::from_hf(folder / "");
      return "none";
    } catch (const Error& error) {
      CHECK_THAT(error.what(), ContainsSubstring(folder.path().string()));
      return error.what();
    }
  };
  CHECK(complaint("500") == "none");
  CHECK_THAT(complaint("501"), ContainsSubstring("eos_token_id 501 is no token") &&
                                   ContainsSubstring("which has 501"));
  CHECK_THAT(complaint("[0, -1]"), ContainsSubstring("eos_token_id -1 is no token"));
  CHECK_THAT(complaint("4294967296"), ContainsSubstring("eos_token_id 4294967296 is no token"));
  // A hole stands for no text.
  CHECK_THAT(complaint("301"), ContainsSubstring("eos_token_id 301 is no token"));
  CHECK_THAT(complaint("\"<eos>\""), ContainsSubstring("'eos_token_id' must be a whole number"));
  CHECK_THAT(complaint("[true]"), ContainsSubstring("'eos_token_id' must be a whole number"));
}

TEST_CASE("a pre-tokenizer of more steps, or longer ones, than any model has is refused",
          "[hf_tokenizer]") {
  json file = small_file();
  const json last = file["pre_tokenizer"];
  const auto with = [&](int steps, const std::string& pattern) {
    json list = json::array();
    for (int i = 0; i < steps; ++i) {
      list.push_back(
          {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", pattern}}}});
    }
    list.push_back(last);
    // Sequences in sequences count by what is in them.
    const json inner = {{"type", "Sequence"}, {"pretokenizers", list}};
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {inner}}};
    return file;
  };
  CHECK(encode(with(31, "a"), "abc") == Ids{98, 99, 100});
  CHECK_THROWS_WITH(encode(with(32, "a"), "abc"),
                    ContainsSubstring("has 33 steps; 32 are the most"));
  CHECK_THROWS_WITH(encode(with(5000, "a"), "abc"), ContainsSubstring("has 5001 steps"));
  CHECK_THROWS_WITH(encode(with(1, std::string(1 << 20, 'a')), "abc"),
                    ContainsSubstring("of 1048576 bytes is too long"));
}
