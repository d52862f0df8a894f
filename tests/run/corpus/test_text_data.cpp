#include <algorithm>

#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/train/batches.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

TEST_CASE("equal texts have equal fingerprints, whatever they are called", "[text_data]") {
  const TempFolder folder;
  const std::string path = folder.put("a.txt", "some words\n");
  const run::Text read = run::read_text({{path}}), made = run::make_text("b", "some words\n");
  CHECK(read.identity.name == "a.txt");
  CHECK(read.identity.bytes == 11);
  CHECK(read.identity.fingerprint == made.identity.fingerprint);
  CHECK(read.identity.fingerprint != run::make_text("b", "some words").identity.fingerprint);
  CHECK(run::make_text("", "").identity.fingerprint == "cbf29ce484222325");  // FNV-1a's start
}

TEST_CASE("a text becomes a part to train on and one to validate with", "[text_data]") {
  const run::Text text = run::make_text("t", std::string(900, 'a') + std::string(100, 'b'));
  const data::Tokenizer tokenizer =
      run::make_tokenizer({.tokenizer = "char"}, 1337, [&]() -> const run::Text& { return text; });
  const run::TextData data = run::tokenize(text, tokenizer, {}, 16);
  CHECK(tokenizer.vocab_size() == 2);
  CHECK(values_of(data.train) == std::vector<data::Token>(900, 0));
  CHECK(values_of(data.val) == std::vector<data::Token>(100, 1));
  CHECK_THROWS_WITH(run::tokenize(text, tokenizer, {}, 100),
                    ContainsSubstring("its validation part has 100 tokens"));
}

TEST_CASE("the parts have the tokens of all documents with the end of each", "[text_data]") {
  const TempFolder folder;
  std::string joined;
  for (int i = 0; i < 9; ++i) {
    const std::string text = "the story of number " + std::to_string(i) + "\n";
    folder.put(std::to_string(i), text);
    joined += (i > 0 ? "<|endoftext|>" : "") + text;
  }
  const run::Text text = run::read_text({{folder.path()}});
  const data::Tokenizer gpt2 = data::Tokenizer::gpt2();
  const auto all = gpt2.encode(joined, true);
  for (std::uint64_t seed = 1; seed < 30; ++seed) {  // some draw the last document, most do not
    const run::TextData data = run::tokenize(text, gpt2, {.seed = seed}, 4);
    CHECK(data.train_documents == 8);
    CHECK(data.val_documents == 1);
    std::vector<data::Token> found = values_of(data.train), expected = all;
    const std::vector<data::Token> val = values_of(data.val);
    found.insert(found.end(), val.begin(), val.end());
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    REQUIRE(found == expected);
  }
  // A text by itself is as it was before there were documents.
  const run::Text plain = run::make_text("plain", joined);
  const run::TextData data = run::tokenize(plain, gpt2, {}, 4);
  CHECK(data.train_documents == 0);
  CHECK(gpt2.decode(values_of(data.train)) + gpt2.decode(values_of(data.val)) == joined);
  const std::vector<data::Token> train = values_of(data.train);
  CHECK(std::count(train.begin(), train.end(), 50256) == 0);
}

TEST_CASE("a text to validate with adds its characters, and no document", "[text_data]") {
  const TempFolder folder;
  const auto characters = [&](const std::string& corpus, const std::string& val) {
    const run::CorpusSource source{{folder / corpus}, "text", "utf-8", {folder / val}};
    const run::Text text = run::text_of_new_run(source, [] { return run::make_text("", ""); });
    const run::TextOptions options{.tokenizer = "char"};
    return run::make_tokenizer(options, 1, [&]() -> const run::Text& { return text; }).vocab_size();
  };
  folder.put("one/a.txt", "ab ab");
  folder.put("other/c.txt", "c ab");
  folder.put("two/d.txt", "ab c");
  folder.put("two/e.txt", "b a");
  CHECK(characters("one", "other") == 4);
  CHECK(characters("two", "other") == 5);  // and a line break, which separates documents
  CHECK(characters("one", "two") == 5);
}

TEST_CASE("documents that are too few for their parts are no fault", "[text_data]") {
  const TempFolder folder;
  const run::Text text =
      run::read_text({{folder.put("t.jsonl", "{\"text\":\"a\"}\n{\"text\":\"a\"}\n")}});
  CHECK_THROWS_WITH(run::tokenize(text, data::Tokenizer::gpt2(), {.val_fraction = 0.9}, 16),
                    ContainsSubstring("the corpus is too short: its training part has"));
}

TEST_CASE("GPT-2's tokens do not need the text", "[text_data]") {
  const auto no_text = []() -> const run::Text& { fail("the text was read"); };
  CHECK(run::make_tokenizer({.tokenizer = "gpt2"}, 1337, no_text).vocab_size() == 50257);
  CHECK_THROWS_WITH(run::check_tokenizer("bpe:12"), ContainsSubstring("from 257 to"));
}

TEST_CASE("batches go on where their state was taken, random or in passes", "[text_data]") {
  std::vector<data::Token> tokens(500);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<data::Token>(i);
  const auto kind = GENERATE(run::BatchKind::random, run::BatchKind::epochs);
  const run::BatchPlan plan = run::batch_plan({.batches = kind, .block_size = 8}, /*batch_size=*/4);
  CHECK(plan.stride == 8);
  run::Batches batches(tokens, plan, Rng(1)), again(tokens, plan, Rng(2));
  for (int i = 0; i < 20; ++i) batches.next();
  again.set_state(batches.state());
  for (int i = 0; i < 20; ++i) CHECK(batches.next().inputs == again.next().inputs);
  CHECK((batches.per_epoch() > 0) == (kind == run::BatchKind::epochs));
}

TEST_CASE("one call makes of a run's paths the tokens that its steps make", "[text_data]") {
  const TempFolder folder;
  for (int i = 0; i < 9; ++i) {
    folder.put("texts/" + std::to_string(i), "the story<|endoftext|>of " + std::to_string(i));
  }
  const std::string tokenizer = GENERATE("char", "bpe:260", "gpt2");
  const run::TextOptions options{
      .corpus = {folder / "texts"}, .tokenizer = tokenizer, .block_size = 2};
  const run::RunFolder run = run::RunFolder::open({.out_dir = folder / "run"}, "run");
  const run::LearntText learnt =
      run::text_data_of(options, {.folder = run, .format = "test", .own_text = {}, .seed = 3});
  const run::Text text = run::read_text(options.source());
  const auto t = run::make_tokenizer(options, 3, [&]() -> const run::Text& { return text; });
  const run::TextData steps = run::tokenize(text, t, options.division(3), 2);
  CHECK(learnt.text.identity.fingerprint == text.identity.fingerprint);
  CHECK(learnt.data.tokenizer.vocab_size() == t.vocab_size());
  CHECK(values_of(learnt.data.train) == values_of(steps.train));
  CHECK(values_of(learnt.data.val) == values_of(steps.val));
  CHECK(learnt.data.train_documents == steps.train_documents);
  CHECK(learnt.data.val_documents > 0);
}

TEST_CASE("white space alone is no corpus", "[text-data]") {
  const TempFolder folder;
  const std::string blank = folder.put("blank.txt", " \n\t\n");
  CHECK_THROWS_WITH(run::read_text({.paths = {blank}}),
                    ContainsSubstring("there is nothing but white space in " + blank));
}
