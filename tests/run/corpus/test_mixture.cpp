// Plain texts that are mixed by weights.

#include <algorithm>

#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

std::string lines(const std::string& word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += word + " " + std::to_string(i) + "\n";
  return text;
}

run::Text read(const std::vector<std::string>& paths) {
  return run::read_text({.paths = paths, .weighted = true});
}

// The text of part i of a mixture.
std::string text_of_part(const run::TextData& data, std::size_t i) {
  const std::vector<data::Token> all = values_of(data.train);
  const data::WeightedTokens part = data.train.mixture().at(i);
  const std::span ids(all);
  return data.tokenizer.decode(
      ids.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size())));
}

// A folder of tokens of 16 bits.
std::string put_tokens(const TempFolder& folder, const std::string& name, data::Token first) {
  std::string train, val;
  for (data::Token i = 0; i < 40; ++i) {
    const auto id = static_cast<std::uint16_t>(first + i);
    train.append(reinterpret_cast<const char*>(&id), sizeof id);
    if (i < 10) val.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
  folder.put(name + "/train.bin", train);
  folder.put(name + "/val.bin", val);
  return (folder / name).string();
}

}  // namespace

TEST_CASE("a weight stands behind a path", "[mixture]") {
  CHECK(run::weighted_file("a.jsonl").weight == 1);
  CHECK(run::weighted_file("a.jsonl:2").weight == 2);
  CHECK(run::weighted_file("a.jsonl:0.5").path == "a.jsonl");
  CHECK(run::weighted_file("C:chats").path == "C:chats");
  CHECK_THROWS_WITH(run::weighted_file("a.jsonl:0"), ContainsSubstring("above 0"));
  CHECK_THROWS_WITH(run::weighted_file("a.jsonl:nan"), ContainsSubstring("above 0"));
  CHECK_THROWS_WITH(run::weighted_file("a.jsonl:1e9"), ContainsSubstring("at most 1000"));
}

TEST_CASE("a file whose name ends as a weight does is that file", "[mixture]") {
  const TempFolder folder;
  const std::string path = folder.put("x:2", "text").string();
  CHECK(run::weighted_file(path).path == path);
  CHECK(run::weighted_file(path).weight == 1);
  CHECK(run::weighted_file(path + ":3").path == path);
}

TEST_CASE("each path of a mixture is divided by itself, and all are validated with alike",
          "[mixture]") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", lines("cat", 100)).string();
  folder.put("b/1.txt", lines("dog", 30));
  folder.put("b/2.txt", lines("owl", 30));
  const run::Text text = read({a + ":2", (folder / "b").string() + "/:0.5"});
  CHECK(text.identity.name == "a.txt:2 + b:0.5");
  CHECK(text.identity.documents == 3);
  const run::TextOptions options{.tokenizer = "bpe:260"};
  const auto tokenizer =
      run::make_tokenizer(options, 1, [&]() -> const run::Text& { return text; });
  const run::TextData data = run::tokenize(text, tokenizer, {.seed = 1}, 8);
  REQUIRE(data.train.mixture().size() == 2);
  CHECK(data.train.mixture()[0].weight == 2);
  CHECK(data.train.mixture()[1].weight == 0.5);
  const std::string cats = text_of_part(data, 0), others = text_of_part(data, 1);
  CHECK(cats.starts_with("cat 0\ncat 1\n"));
  CHECK_THAT(cats, !ContainsSubstring("dog") && !ContainsSubstring("owl"));
  CHECK_THAT(others, !ContainsSubstring("cat"));
  const std::string val = tokenizer.decode(values_of(data.val));
  CHECK_THAT(val, ContainsSubstring("cat 99"));
  CHECK_THAT(val, ContainsSubstring("dog") || ContainsSubstring("owl"));
  CHECK(data.val.mixture().empty());
  const std::string shares = run::shares_text(data.train, text.mixture);
  CHECK_THAT(shares, ContainsSubstring(" % a.txt:2, ") && ContainsSubstring(" % b:0.5"));
}

TEST_CASE("a mixture has an identity of its own, and without weights there is none", "[mixture]") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", lines("cat", 50)).string();
  const std::string b = folder.put("b.txt", lines("dog", 50)).string();
  const run::Text plain = read({a, b});
  CHECK(plain.mixture.empty());
  CHECK(read({a + ":1", b + ":1"}).identity.fingerprint == plain.identity.fingerprint);
  CHECK(read({a + ":3"}).mixture.empty());  // alone, a weight says nothing
  const std::string twice = read({a + ":2", b}).identity.fingerprint;
  CHECK(twice != plain.identity.fingerprint);
  CHECK(twice != read({a, b + ":2"}).identity.fingerprint);
  CHECK(twice == read({a + ":2", b}).identity.fingerprint);
}

TEST_CASE("a mixture is validated with another text, if there is one", "[mixture]") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", lines("cat", 50)).string();
  const std::string b = folder.put("b.txt", lines("dog", 50)).string();
  run::Text text = read({a + ":2", b});
  text.val = std::make_shared<const run::Text>(read({folder.put("c.txt", lines("owl", 20))}));
  const run::TextOptions options{.tokenizer = "char"};
  const auto tokenizer =
      run::make_tokenizer(options, 1, [&]() -> const run::Text& { return text; });
  const run::TextData data = run::tokenize(text, tokenizer, {.seed = 1}, 8);
  CHECK(tokenizer.decode(values_of(data.val)) == lines("owl", 20));
  CHECK_THAT(text_of_part(data, 0), ContainsSubstring("cat 49"));
  CHECK_THAT(text_of_part(data, 1), ContainsSubstring("dog 49"));
}

TEST_CASE("a path that has no window is refused by its name", "[mixture]") {
  const TempFolder folder;
  const std::string a = folder.put("a.txt", lines("cat", 100)).string();
  const std::string b = folder.put("short.txt", "a few words\n").string();
  const run::Text text = read({a + ":2", b});
  const run::TextOptions options{.tokenizer = "char"};
  const auto tokenizer =
      run::make_tokenizer(options, 1, [&]() -> const run::Text& { return text; });
  CHECK_THROWS_WITH(run::tokenize(text, tokenizer, {.seed = 1}, 16),
                    ContainsSubstring("short.txt: its training part has"));
}

TEST_CASE("documents of a path end there, unless they are cut in two", "[mixture]") {
  const TempFolder folder;
  folder.put("a/1.txt", lines("cat", 60));
  if (GENERATE(true, false)) folder.put("a/2.txt", lines("cat", 60));
  const bool whole = std::filesystem::exists(folder / "a/2.txt");
  const std::string b = folder.put("b.txt", lines("dog", 100)).string();
  const run::Text text = read({(folder / "a").string() + ":2", b});
  const run::TextOptions options{.tokenizer = "bpe:260"};
  const auto tokenizer =
      run::make_tokenizer(options, 1, [&]() -> const run::Text& { return text; });
  const run::TextData data = run::tokenize(text, tokenizer, {.seed = 1}, 8);
  CHECK(text_of_part(data, 0).ends_with("<|endoftext|>") == whole);
  CHECK_THAT(tokenizer.decode(values_of(data.val)), ContainsSubstring("cat 59\n<|endoftext|>"));
}

TEST_CASE("a path of a mixture that has no text is named", "[mixture]") {
  const TempFolder folder;
  const std::string blank = folder.put("blank.txt", " \n\n").string();
  const std::string a = folder.put("a.txt", lines("cat", 100)).string();
  CHECK_THROWS_WITH(read({a + ":2", blank}),
                    ContainsSubstring("nothing but white space in " + blank));
}

TEST_CASE("folders of tokens are mixed, too", "[mixture]") {
  const TempFolder folder;
  const std::string a = put_tokens(folder, "a", 100), b = put_tokens(folder, "b", 500);
  run::Text text = run::read_text({.paths = {a + ":3", b}, .is_data = true, .weighted = true});
  CHECK(text.identity.name == "a:3 + b");
  run::check_tokens(text, 50'257);
  const std::string fingerprint = text.identity.fingerprint;
  run::Text other = run::read_text({.paths = {a, b + ":3"}, .is_data = true, .weighted = true});
  run::check_tokens(other, 50'257);
  CHECK(fingerprint != other.identity.fingerprint);
  const run::TextData data = run::tokenize(text, data::Tokenizer::gpt2(), {}, 8);
  CHECK(data.train.size() == 80);
  CHECK(data.val.size() == 20);
  REQUIRE(data.train.mixture().size() == 2);
  CHECK(data.train.mixture()[0].weight == 3);
  CHECK(values_of(data.train)[40] == 500);
  CHECK(run::shares_text(data.train, text.mixture) == "75.0 % a:3, 25.0 % b");
  folder.put("c/train.bin", "ab");
  folder.put("c/val.bin", "ab");
  folder.put("c/tokenizer.json", TempFolder::get([&] {
               const auto path = folder / "t.json";
               data::Tokenizer::of_characters("abc").save(path);
               return path;
             }()));
  CHECK_THROWS_WITH(
      run::read_text(
          {.paths = {a + ":3", (folder / "c").string()}, .is_data = true, .weighted = true}),
      ContainsSubstring("tokens of different tokenizers"));
}
