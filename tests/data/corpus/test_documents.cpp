#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

using Views = std::vector<std::string_view>;

Views cut(std::string_view text, const Separators& separators) {
  const TextRange all{0, text.size()};
  return cut_documents(text, {&all, 1}, separators);
}

Views cut_marks(std::string_view text) { return cut(text, {.end_of_text = "<|endoftext|>"}); }

// Texts one after the other, and views of them.
struct Texts {
  std::string text;
  std::vector<std::size_t> sizes;
  explicit Texts(std::vector<std::size_t> s) : sizes(std::move(s)) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      text += std::string(sizes[i], static_cast<char>('a' + i % 26));
    }
  }
  Views views() const {
    Views views;
    std::size_t begin = 0;
    for (const std::size_t size : sizes) {
      views.push_back(std::string_view(text).substr(begin, size));
      begin += size;
    }
    return views;
  }
  DocumentSplit split(double fraction, std::uint64_t seed) const {
    Rng rng(seed, Rng::Kind::philox);
    return split_documents(text, views(), fraction, rng);
  }
};

std::size_t bytes_of(const Views& views) {
  return std::accumulate(views.begin(), views.end(), std::size_t{0},
                         [](std::size_t sum, std::string_view v) { return sum + v.size(); });
}

}  // namespace

TEST_CASE("a separator ends a document and is no part of one", "[documents]") {
  CHECK(cut("a\n\n\nb\nc\n\n\nd\n", {.text = "\n\n\n"}) == Views{"a", "b\nc", "d\n"});
  CHECK(cut("--a-- \n ----b--", {.text = "--"}) == Views{"a", "b"});
  CHECK(cut("no other one ", {.text = "--"}) == Views{"no other one "});
  CHECK(cut(" \n", {.text = "--"}) == Views{" \n"});
  CHECK_THROWS_WITH(cut("-- --", {.text = "--"}), ContainsSubstring("nothing but white space"));
}

TEST_CASE("<|endoftext|> stays with the document that it ends", "[documents]") {
  CHECK(cut_marks("a<|endoftext|>b") == Views{"a<|endoftext|>", "b"});
  CHECK(cut_marks("a<|endoftext|>\nb<|endoftext|>\n") ==
        Views{"a<|endoftext|>", "\nb<|endoftext|>\n"});
  CHECK(cut_marks("<|endoftext|>a<|endoftext|> <|endoftext|>b") ==
        Views{"<|endoftext|>a<|endoftext|> <|endoftext|>", "b"});
  CHECK(cut_marks("<|endoftext|>") == Views{"<|endoftext|>"});
  CHECK(cut_marks("a<|endoftext|") == Views{"a<|endoftext|"});
  CHECK(cut("a<|endoftext|>b", {}) == Views{"a<|endoftext|>b"});
  CHECK(cut("a<|endoftext|>b--c", {"--", "<|endoftext|>"}) == Views{"a<|endoftext|>", "b", "c"});
}

TEST_CASE("files and lines of JSON lines are documents", "[documents]") {
  const TempFolder folder;
  folder.put("1.txt", "one\n");
  folder.put("2.jsonl", "{\"text\": \"two\"}\n{\"text\": \"\"}\n{\"text\": \"three\"}\n");
  folder.put("3.txt", "four");
  const Corpus corpus = read_corpus(std::vector{folder.path()});
  const Views expected{"one\n", "two", "three", "four"};
  CHECK(cut_documents(corpus.text, corpus.documents, {}) == expected);
}

TEST_CASE("a file or a line of white space alone is no document", "[documents]") {
  const TempFolder folder;
  folder.put("1.txt", " \n\t\v\f");
  folder.put("2.jsonl", "{\"text\": \"two\"}\n{\"text\": \"  \\n\"}\n{\"text\": \"three\"}\n");
  const Corpus corpus = read_corpus(std::vector{folder.path()});
  for (const Separators& separators :
       {Separators{}, Separators{.text = "--"}, Separators{.end_of_text = "<|endoftext|>"}}) {
    CHECK(cut_documents(corpus.text, corpus.documents, separators) == Views{"two", "three"});
  }
  CHECK(cut(" \n", {}) == Views{" \n"});  // unless there is no other
}

TEST_CASE("the ids of documents are those of their text with <|endoftext|>", "[documents]") {
  const Tokenizer gpt2 = Tokenizer::gpt2();
  for (const std::string text : {
           "Hello, I am<|endoftext|>  \n x<|endoftext|>",
           "<|endoftext|>a <|endoftext|> \n<|endoftext|>b",
           "one<|endoftext|>two",
           "\n<|endoftext|>\n",
       }) {
    INFO(text);
    CHECK(gpt2.encode_documents(cut_marks(text), true) == gpt2.encode(text, true));
  }
  // Files that end with it, and others; white space aside.
  const Views files{"a<|endoftext|>\n", "b\n", "c"};
  const std::string joined = "a<|endoftext|>\nb\n<|endoftext|>c";
  CHECK(gpt2.encode_documents(files, true) == gpt2.encode(joined, true));
  for (const std::string space : {" ", "\t", "\r\n", "\v", "\f"}) {
    const std::string ended = "a<|endoftext|>" + space;
    CHECK(gpt2.decode(gpt2.encode_documents(Views{ended, "b"}, true)) == ended + "b");
  }
  // As ordinary text it ends nothing.
  const auto plain = gpt2.encode_documents(files, false);
  CHECK(std::count(plain.begin(), plain.end(), 50256) == 2);
  CHECK(gpt2.decode(plain) == "a<|endoftext|>\n<|endoftext|>b\n<|endoftext|>c");
}

TEST_CASE("documents begin with what a tokenizer.json puts before a text", "[documents]") {
  const TempFolder folder;
  const std::string json = testing::golden_json("tokenizers.json").at("llama3").at("file");
  const Tokenizer llama = Tokenizer::from_hf(folder.put("tokenizer.json", json));
  const std::string begin = "<|begin_of_text|>", end = "<|end_of_text|>";
  REQUIRE(llama.begin().size() == 1);
  REQUIRE(llama.token_bytes(llama.begin()[0]) == begin);
  REQUIRE(llama.token_bytes(*llama.end_of_text()) == end);
  const auto decoded = [&](const Views& documents) {
    return llama.decode(llama.encode_documents(documents, true));
  };
  CHECK(decoded({"one"}) == begin + "one");
  CHECK(decoded({"one", "two\n"}) == begin + "one" + end + begin + "two\n");
  // What has these tokens does not get them twice, and the end of a part has no beginning behind.
  const std::string begun = begin + "one" + end + "\n";
  CHECK(decoded({begun, "two"}) == begun + begin + "two");
  CHECK(decoded({"one", ""}) == begin + "one" + end);
  // As ordinary text they are no such tokens.
  const auto plain = llama.encode_documents(Views{begun, "two"}, false);
  CHECK(std::count(plain.begin(), plain.end(), llama.begin()[0]) == 2);
  CHECK(llama.decode(plain) == begin + begun + end + begin + "two");
  CHECK(llama.decode(llama.encode("one", true)) == "one");
}

TEST_CASE("without <|endoftext|>, an empty line separates documents", "[documents]") {
  const Views documents{"one", "two\n", "three"};
  const Tokenizer characters = Tokenizer::of_characters(documents);
  CHECK(characters.decode(characters.encode_documents(documents)) == "one\n\ntwo\n\nthree");
  // Its line break is known, even if no document has one.
  CHECK(Tokenizer::of_characters(Views{"a", "b"}).vocab_size() == 3);
  CHECK(Tokenizer::of_characters("ab").vocab_size() == 2);
}

TEST_CASE("no merge is learnt across documents", "[documents]") {
  const Views documents{"ab", "ab", "cd", "cd"};
  const Tokenizer bpe = make_tokenizer("bpe:259", documents);
  CHECK(bpe.encode_documents(documents).size() == 7);
  CHECK_THROWS_WITH(make_tokenizer("bpe:260", documents), ContainsSubstring("bpe:259 or less"));
}

TEST_CASE("documents for validation are drawn, whole, until they are a share", "[documents]") {
  const Texts texts(std::vector<std::size_t>(10, 100));
  std::vector<std::string_view> drawn;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const DocumentSplit split = texts.split(0.1, seed);
    CHECK(split.whole);
    REQUIRE(split.val.size() == 1);
    CHECK(split.train.size() == 9);
    CHECK(std::is_sorted(split.train.begin(), split.train.end()));
    CHECK(texts.split(0.1, seed).val == split.val);
    drawn.push_back(split.val.front());
  }
  std::sort(drawn.begin(), drawn.end());
  CHECK(std::unique(drawn.begin(), drawn.end()) - drawn.begin() > 3);
  CHECK(texts.split(0.3, 1).val.size() == 3);
}

TEST_CASE("each part gets a document, and neither too little", "[documents]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    INFO(seed);
    CHECK(Texts({100, 100}).split(0.1, seed).val.size() == 1);
    // The small ones are not enough.
    const DocumentSplit some = Texts({1000, 20, 1000, 1000, 30}).split(0.1, seed);
    CHECK(some.whole);
    CHECK(bytes_of(some.val) == 1050);
    std::vector<std::size_t> sizes;
    Rng rng(seed);
    for (int i = 0; i < 300; ++i) sizes.push_back(1 + static_cast<std::size_t>(rng.randint(200)));
    const Texts many(sizes);
    const double share = static_cast<double>(bytes_of(many.split(0.1, seed).val)) /
                         static_cast<double>(many.text.size());
    CHECK(share <= 0.1001);
    CHECK(share > 0.099);
  }
}

TEST_CASE("no part of a split gets every document", "[documents]") {
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.999}) {
    for (std::size_t count = 1; count < 6; ++count) {
      INFO(fraction << " of " << count);
      const Texts texts(std::vector<std::size_t>(count, 1));
      const DocumentSplit split = texts.split(fraction, count);
      CHECK(bytes_of(split.train) + bytes_of(split.val) == count);
      if (split.whole) CHECK((!split.train.empty() && !split.val.empty()));
    }
  }
  CHECK_FALSE(Texts({1, 1, 1}).split(0.9, 1).whole);
}

TEST_CASE("a text that documents cannot divide is cut as one", "[documents]") {
  const DocumentSplit one = Texts({1000}).split(0.1, 1);
  CHECK_FALSE(one.whole);
  CHECK(bytes_of(one.train) == 900);
  const Texts texts({20, 970, 10});  // the small ones are less than half of a tenth
  const DocumentSplit cut = texts.split(0.1, 1);
  CHECK_FALSE(cut.whole);
  REQUIRE(cut.train.size() == 2);
  REQUIRE(cut.val.size() == 2);
  CHECK(cut.train[1].size() == 880);
  CHECK(cut.val[0].size() == 90);
  CHECK(cut.val[1] == texts.views()[2]);
  CHECK_THROWS_WITH(texts.split(0, 1), ContainsSubstring("not in (0, 1)"));
}
