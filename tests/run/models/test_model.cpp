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
  const std::string text = model.generate("the cat", {.max_new_tokens = 30});
  CHECK(text.size() == 30);  // one byte a character
  CHECK(model.generate("the cat", {.max_new_tokens = 30}) == text);
  CHECK(model.generate("the cat", {.max_new_tokens = 30}, 7) != text);
  CHECK(model.generate("the cat", {.max_new_tokens = 30, .kv_cache = false}) == text);
  CHECK(model.generate("", {.max_new_tokens = 3}).size() == 3);
  CHECK_THROWS_WITH(model.generate("\u20ac"), ContainsSubstring("U+20AC"));
  CHECK_THROWS_WITH(model.generate("a", {.temperature = 0}), ContainsSubstring("temperature"));
}

TEST_CASE("sample-text writes what the library generates", "[model]") {
  const Result r = run_program("sample-text", {"--model", tiny_model(), "--prompt", "the",
                                               "--max-new-tokens", "40", "--seed", "9"});
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 40, .temperature = 0.8, .top_k = 200};
  CHECK(r.out == "the" + model.generate("the", options, 9) + "\n");
}

TEST_CASE("a stream is the text piece by piece, and ends when it is told to", "[model]") {
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 20};
  std::string text;
  model.generate("the", options, 1, [&](std::string_view piece) {
    text += piece;
    return text.size() < 5;
  });
  CHECK(text == model.generate("the", options, 1).substr(0, 5));
}

TEST_CASE("several prompts give the texts that each gives alone", "[model]") {
  const run::TextModel model = run::load(tiny_model());
  const nn::GenerateOptions options{.max_new_tokens = 25};
  const auto texts = model.generate({"the cat", "on", "", "the dog"}, options, 3);
  REQUIRE(texts.size() == 4);
  CHECK(texts[0] == model.generate("the cat", options, 3));
  CHECK(texts[1] == model.generate("on", options, 4));
  CHECK(texts[2] == model.generate("", options, 5));
  CHECK(texts[3] == model.generate("the dog", options, 6));
}
