#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

const std::filesystem::path& tiny_model() {
  static const TinyRun tiny(30);
  return tiny.run;
}

}  // namespace

TEST_CASE("a run folder is loaded and generates", "[model]") {
  const run::TextModel model = run::load(tiny_model());
  const std::string text = model.stream("the cat", {.max_new_tokens = 30}).text();
  CHECK(text.size() == 30);  // one byte a character
  CHECK(model.stream("the cat", {.max_new_tokens = 30}).text() == text);
  CHECK(model.stream("the cat", {.max_new_tokens = 30}, 7).text() != text);
  CHECK(model.stream("the cat", {.max_new_tokens = 30, .kv_cache = false}).text() == text);
  CHECK(model.stream("", {.max_new_tokens = 3}).text().size() == 3);
  CHECK_THROWS_WITH(model.stream("\u20ac").text(), ContainsSubstring("U+20AC"));
  CHECK_THROWS_WITH(model.stream("a", {.temperature = 0}).text(), ContainsSubstring("temperature"));
}

TEST_CASE("sample-text writes what the library generates", "[model]") {
  const Result r = run_program("sample-text", {"--model", tiny_model(), "--prompt", "the",
                                               "--max-new-tokens", "40", "--seed", "9"});
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 40, .temperature = 0.8, .top_k = 200};
  CHECK(r.out == "the" + model.stream("the", options, 9).text() + "\n");
}

TEST_CASE("a stream is the text piece by piece, and may be left", "[model]") {
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 20};
  std::string text;
  for (const std::string& piece : model.stream("the", options, 1)) {
    text += piece;
    if (text.size() == 5) break;
  }
  CHECK(text == model.stream("the", options, 1).text().substr(0, 5));
}

TEST_CASE("several prompts give the texts that each gives alone", "[model]") {
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 25};
  const auto texts = model.generate({"the cat", "on", "", "the dog"}, options, 3);
  REQUIRE(texts.size() == 4);
  CHECK(texts[0] == model.stream("the cat", options, 3).text());
  CHECK(texts[1] == model.stream("on", options, 4).text());
  CHECK(texts[2] == model.stream("", options, 5).text());
  CHECK(texts[3] == model.stream("the dog", options, 6).text());
}
