#include "tapegrad/run/formats/token_files.h"
#include "tapegrad/run/text_data.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Ids = std::vector<std::uint16_t>;
using Tokens = std::vector<data::Token>;

std::string bytes_of(const Ids& ids) {
  return {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()};
}

// llm.c's file of these ids, whose header says `n`.
std::string with_header(const Ids& ids, std::int32_t n, std::int32_t version = 1) {
  std::vector<std::int32_t> header(256);
  header[0] = 20240520, header[1] = version, header[2] = n;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + bytes_of(ids);
}

// nanoGPT's data of 19 characters.
void put_characters(const TempFolder& folder, const Ids& train = {1, 2, 3, 4, 5, 6},
                    const Ids& val = {18, 0, 7}) {
  folder.put("train.bin", bytes_of(train));
  folder.put("val.bin", bytes_of(val));
  folder.put("meta.pkl", TempFolder::get(golden_file("nanogpt/meta_5.pkl")));
}

run::Text read(const TempFolder& folder) { return run::read_text({{folder.path().string()}}); }

std::string complaint(const TempFolder& folder) {
  try {
    read(folder);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a folder of nanoGPT's data is learnt as the tokens that it has", "[token_files]") {
  const TempFolder folder;
  put_characters(folder);
  const run::Text text = read(folder);
  CHECK(text.identity.name == "train.bin and val.bin");
  CHECK(text.identity.bytes == 18);
  const auto tokenizer = run::make_tokenizer({}, 1, [&]() -> const run::Text& { return text; });
  CHECK(tokenizer.kind() == "char");
  const run::TextData data = run::tokenize(text, tokenizer, {}, 2);
  CHECK(data.train == Tokens{1, 2, 3, 4, 5, 6});
  CHECK(data.val == Tokens{18, 0, 7});
  // An evaluation is of the part for it.
  CHECK(run::tokens_of(text, tokenizer, "") == data.val);
  // A model may have rows behind these tokens.
  CHECK(run::tokenize(text, tokenizer.padded(64), {}, 2).train == data.train);
  CHECK_THROWS_WITH(run::tokenize(text, tokenizer, {}, 3),
                    ContainsSubstring("validation part has 3 tokens"));
}

TEST_CASE("ids without a vocabulary are GPT-2's, with llm.c's header or without", "[token_files]") {
  const TempFolder folder;
  const Ids train = {50256, 1, 2}, val = {3, 50256};
  folder.put("tiny_train.bin", with_header(train, 3));
  folder.put("tiny_val.bin", with_header(val, 2));
  const run::Text text = read(folder);
  CHECK(text.tokens->tokenizer.kind() == "gpt2");
  CHECK(text.tokens->train == Tokens{50256, 1, 2});
  folder.put("tiny_train.bin", bytes_of(train));
  CHECK(read(folder).tokens->train == text.tokens->train);
  CHECK(read(folder).identity.fingerprint != text.identity.fingerprint);
}

TEST_CASE("another tokenizer than that of the ids is refused", "[token_files]") {
  const TempFolder folder;
  put_characters(folder);
  const run::Text text = read(folder);
  const auto refused = [&](const data::Tokenizer& tokenizer, const std::string& expected) {
    CHECK_THROWS_WITH(run::tokenize(text, tokenizer, {}, 1), ContainsSubstring(expected));
  };
  refused(data::Tokenizer::of_characters("abc"),
          "that one has 19 tokens, and this one 3. Give the text itself");
  refused(data::Tokenizer::gpt2(), "ids are those of another tokenizer, of the kind char: token 0");
  refused(data::Tokenizer::gpt2(), folder.path().string() + ": ");
  CHECK_THROWS_WITH(
      run::make_tokenizer({.tokenizer = "bpe:300"}, 1, [&]() -> const run::Text& { return text; }),
      ContainsSubstring("has its own tokens"));
  CHECK_THROWS_WITH(run::read_text({{folder.path().string()}, "text", "utf-8", {"x"}}),
                    ContainsSubstring("val.bin of its own"));
}

TEST_CASE("what divides or decodes a text is refused for tokens", "[token_files]") {
  const TempFolder folder;
  put_characters(folder);
  const std::string path = folder.path().string();
  CHECK_THROWS_WITH(run::read_text({{path}, "story"}), ContainsSubstring("--field story: " + path));
  CHECK_THROWS_WITH(run::read_text({{path}, "text", "latin-1"}),
                    ContainsSubstring("--encoding latin-1: " + path));
  const run::Text text = read(folder);
  const data::Tokenizer& own = text.tokens->tokenizer;
  CHECK_THROWS_WITH(run::tokenize(text, own, {.separator = "x"}, 1),
                    ContainsSubstring("--separator: " + path));
  CHECK_THROWS_WITH(run::tokens_of(text, own, "x"), ContainsSubstring("--separator: " + path));
  CHECK_THROWS_WITH(run::tokenize(text, own, {.val_fraction = 0.1}, 1),
                    ContainsSubstring("--val-fraction: " + path));
}

TEST_CASE("broken files of tokens are refused", "[token_files]") {
  const TempFolder folder;
  put_characters(folder);
  CHECK(complaint(folder) == "");
  folder.put("val.bin", bytes_of({1, 19}));
  CHECK_THAT(complaint(folder), ContainsSubstring("id 19 at place 1"));
  folder.put("val.bin", "abc");
  CHECK_THAT(complaint(folder), ContainsSubstring("no ids of 16 bits"));
  folder.put("val.bin", with_header({1, 2}, 3));
  CHECK_THAT(complaint(folder), ContainsSubstring("3 tokens, which does not fit"));
  folder.put("val.bin", with_header({1, 2}, -1));
  CHECK_THAT(complaint(folder), ContainsSubstring("-1 tokens"));
  folder.put("val.bin", with_header({1, 2}, 2, 7));
  CHECK_THAT(complaint(folder), ContainsSubstring("version 7"));
  std::filesystem::remove(folder / "val.bin");
  CHECK(!run::is_token_folder(folder.path()));
}
