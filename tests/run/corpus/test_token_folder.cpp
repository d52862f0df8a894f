#include "tapegrad/data/data_folder.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
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

// All of it, with ids of the folder's tokenizer.
run::Text checked(const TempFolder& folder) {
  run::Text text = run::read_token_folder(folder.path());
  run::check_tokens(text, text.tokens->tokenizer->vocab_size());
  return text;
}

std::string complaint(const TempFolder& folder) {
  try {
    checked(folder);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a folder of nanoGPT's data is learnt as the tokens that it has", "[token_folder]") {
  const TempFolder folder;
  put_characters(folder);
  const run::Text text = read(folder);
  CHECK(text.identity.name == "train.bin and val.bin");
  CHECK(text.identity.bytes == 18);
  const auto tokenizer =
      run::make_tokenizer({.tokenizer = ""}, 1, [&]() -> const run::Text& { return text; });
  CHECK(tokenizer.kind() == "char");
  const run::TextData data = run::tokenize(text, tokenizer, {}, 2);
  CHECK(values_of(data.train) == Tokens{1, 2, 3, 4, 5, 6});
  CHECK(values_of(data.val) == Tokens{18, 0, 7});
  // An evaluation is of the part for it.
  CHECK(values_of(run::tokens_of(text, tokenizer, "")) == Tokens{18, 0, 7});
  // A model may have rows behind these tokens.
  CHECK(run::tokenize(text, tokenizer.padded(64), {}, 2).train.size() == 6);
  CHECK_THROWS_WITH(run::tokenize(text, tokenizer, {}, 3),
                    ContainsSubstring("validation part has 3 tokens") &&
                        ContainsSubstring("tokens of more text") &&
                        !ContainsSubstring("--val-fraction"));
}

TEST_CASE("ids without a vocabulary are GPT-2's, with llm.c's header or without",
          "[token_folder]") {
  const TempFolder folder;
  const Ids train = {50256, 1, 2}, val = {3, 50256};
  folder.put("tiny_train.bin", with_header(train, 3));
  folder.put("tiny_val.bin", with_header(val, 2));
  const run::Text text = checked(folder);
  CHECK(text.tokens->tokenizer->kind() == "gpt2");
  CHECK(values_of(text.tokens->train.tokens) == Tokens{50256, 1, 2});
  folder.put("tiny_train.bin", bytes_of(train));
  CHECK(values_of(checked(folder).tokens->train.tokens) == Tokens{50256, 1, 2});
  CHECK(checked(folder).identity.fingerprint != text.identity.fingerprint);
}

TEST_CASE("another tokenizer than that of the ids is refused", "[token_folder]") {
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
      ContainsSubstring("has tokens of the tokenizer char"));
  CHECK_THROWS_WITH(run::read_text({{folder.path().string()}, "text", "utf-8", {"x"}}),
                    ContainsSubstring("validate with of its own"));
}

TEST_CASE("what divides or decodes a text is refused for tokens", "[token_folder]") {
  const TempFolder folder;
  put_characters(folder);
  const std::string path = folder.path().string();
  CHECK_THROWS_WITH(run::read_text({{path}, "story"}), ContainsSubstring("--field story: " + path));
  CHECK_THROWS_WITH(run::read_text({{path}, "text", "latin-1"}),
                    ContainsSubstring("--encoding latin-1: " + path));
  const run::Text text = read(folder);
  const data::Tokenizer& own = *text.tokens->tokenizer;
  CHECK_THROWS_WITH(run::tokenize(text, own, {.separator = "x"}, 1),
                    ContainsSubstring("--separator: " + path));
  CHECK_THROWS_WITH(run::tokens_of(text, own, "x"), ContainsSubstring("--separator: " + path));
  CHECK_THROWS_WITH(run::tokenize(text, own, {.val_fraction = 0.1}, 1),
                    ContainsSubstring("--val-fraction: " + path));
}

TEST_CASE("broken files of tokens are refused", "[token_folder]") {
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

TEST_CASE("a folder of tokens is no text", "[token_folder]") {
  const TempFolder tokens, texts;
  put_characters(tokens);
  const std::string text = texts.put("a.txt", "some text"), folder = tokens.path().string();
  CHECK_THROWS_WITH(run::read_text({{text, folder}}), ContainsSubstring(folder + ": it is tokens"));
  tokens.put("prepare-state.json", "{}");
  std::filesystem::remove(tokens / "val.bin");
  CHECK_THROWS_WITH(run::read_text({{folder}}),
                    ContainsSubstring(folder) && ContainsSubstring("has not finished this folder"));
  CHECK_THROWS_WITH(run::read_text({{folder, text}}), ContainsSubstring(folder + ": it is tokens"));
  // Somebody's data.json is.
  texts.put("data.json", "{\"letters\": 3}");
  CHECK(run::read_text({{texts.path().string()}}).identity.documents == 2);
}

TEST_CASE("numbered files are parts, in the order of their numbers", "[token_folder]") {
  const TempFolder folder;
  folder.put("web_train_000002.bin", bytes_of({3, 4}));
  folder.put("web_train_000001.bin", bytes_of({1, 2}));
  folder.put("web_val_000000.bin", bytes_of({5}));
  const run::Text text = checked(folder);
  CHECK(values_of(text.tokens->train.tokens) == Tokens{1, 2, 3, 4});
  CHECK(values_of(text.tokens->val.tokens) == Tokens{5});
  CHECK(text.identity.name == "web_train_000001.bin … (2 files) and web_val_000000.bin");
  folder.put("web_train.bin", bytes_of({3, 4}));
  CHECK(!run::is_token_folder(folder.path()));
  std::filesystem::remove(folder / "web_train.bin");
  folder.put("other_val.bin", bytes_of({3, 4}));
  CHECK_THAT(complaint(folder), ContainsSubstring("or several"));
  folder.put("prepare-state.json", "{}");
  CHECK_THAT(complaint(folder), ContainsSubstring("has not finished this folder"));
}

TEST_CASE("ids of 32 bits need a tokenizer, from the folder or the user", "[token_folder]") {
  const TempFolder folder;
  std::vector<std::int32_t> file(256);
  file[0] = 20240801, file[1] = 7, file[2] = 2;
  file.insert(file.end(), {5, 70'000});
  const std::string bytes(reinterpret_cast<const char*>(file.data()), 4 * file.size());
  folder.put("train.bin", bytes);
  folder.put("val.bin", bytes);
  run::Text text = read(folder);
  const auto own = [&]() -> const run::Text& { return text; };
  CHECK_THROWS_WITH(run::make_tokenizer({.tokenizer = ""}, 1, own),
                    ContainsSubstring("give it by --tokenizer"));
  const data::Tokenizer large = data::Tokenizer::gpt2().padded(70'001);
  CHECK(values_of(run::tokenize(text, large, {}, 1).train) == Tokens{5, 70'000});
  CHECK_THROWS_WITH(run::check_tokens(text, 70'000), ContainsSubstring("the id 70000 at place 1"));
  CHECK_NOTHROW(run::check_tokens(text, 70'001));
  data::Tokenizer::of_characters("abc").save(folder / "tokenizer.json");
  CHECK(read(folder).tokens->tokenizer->vocab_size() == 3);
}

namespace {

data::ShardInfo write(const std::filesystem::path& path, const Tokens& tokens) {
  data::ShardWriter writer(path, data::TokenFormat::nanogpt, 16);
  writer.write(tokens);
  return writer.finish();
}

}  // namespace

TEST_CASE("a prepared folder whose contents changed is refused by name", "[token_folder]") {
  const TempFolder folder;
  data::DataInfo info;
  info.train = {{write(folder / "train.bin", {1, 2, 3, 4})}, 3};
  info.val = {{write(folder / "val.bin", {0, 1})}, 1};
  info.source.name = "3 files";
  data::write_data_json(folder.path(), info, data::Tokenizer::of_characters("abcdef"));
  const run::Text text = checked(folder);
  CHECK(text.identity.fingerprint == read(folder).identity.fingerprint);
  CHECK_THAT(text.identity.name, ContainsSubstring("(3 files)"));
  const run::TextData data = run::tokenize(text, *text.tokens->tokenizer, {}, 1);
  CHECK(data.train_documents == 3);
  CHECK(data.val_documents == 1);
  folder.put("train.bin", bytes_of({1, 2, 3, 5}));
  CHECK_THAT(complaint(folder), ContainsSubstring("train.bin: its contents have changed"));
  // What was evaluated is the other part.
  CHECK_NOTHROW(run::tokens_of(read(folder), *text.tokens->tokenizer, ""));
  folder.put("val.bin", bytes_of({1, 0}));
  CHECK_THROWS_WITH(run::tokens_of(read(folder), *text.tokens->tokenizer, ""),
                    ContainsSubstring("val.bin: its contents have changed"));
}
