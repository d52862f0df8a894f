#include <algorithm>
#include <cmath>
#include <fstream>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

constexpr const char* kSchema = R"({"type": "object", "additionalProperties": false,
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 1,
    "maximum": 30}}, "required": ["kind", "age"]})";

// A GPT of random weights with GPT-2's tokens.
run::TextModel random_model() {
  Rng rng(3);
  nn::Params params(rng);
  const nn::DecoderConfig config{
      .vocab_size = 50'304, .block_size = 64, .n_layer = 1, .n_head = 1, .n_embd = 8};
  nn::Decoder gpt(params, config);
  return {std::move(params), std::move(gpt), data::Tokenizer::gpt2()};
}

}  // namespace

TEST_CASE("texts of a model that knows nothing fit a schema", "[json_mask]") {
  const run::TextModel model = random_model();
  run::JsonMasks masks(model.tokenizer);
  const nn::GenerateOptions options{.max_new_tokens = 100, .mask = masks.of_schema(kSchema)};
  const std::vector<std::string> texts = model.generate({"a", "b", "c", "d"}, options);
  for (const std::string& text : texts) {
    INFO(text);
    const auto value = parse_json<Json>(text, 4);
    CHECK((value["kind"] == "cat" || value["kind"] == "dog"));
    CHECK((value["age"] >= 1 && value["age"] <= 30));
  }
  // Each text has a state of its own, and the same mask serves the next ones.
  CHECK(model.generate({"a", "b", "c", "d"}, options) == texts);
  CHECK(model.generate({"a", "b", "c", "d"},
                       {.max_new_tokens = 100, .mask = masks.of_schema(kSchema)}) == texts);
}

TEST_CASE("what cannot be promised is refused before a text begins", "[json_mask]") {
  run::JsonMasks masks(data::Tokenizer::gpt2());
  CHECK_THROWS_WITH(masks.of_schema(R"({"not": {}})"),
                    ContainsSubstring("\"not\" is not supported"));
  CHECK_THROWS_WITH(masks.of_schema(""), ContainsSubstring("not valid JSON"));
  // A vocabulary of characters may lack those of JSON.
  run::JsonMasks few(data::Tokenizer::of_characters("abc"));
  CHECK_THROWS_WITH(few.of_object(), ContainsSubstring("bytes that the vocabulary has"));
  // One that has them ends where nothing can follow.
  run::JsonMasks enough(data::Tokenizer::of_characters("{}\": a1"));
  const auto mask =
      enough.of_schema(R"({"properties": {"a": {"const": 1}}, "required": ["a"]})")->clone();
  const auto tokenizer = data::Tokenizer::of_characters("{}\": a1");
  std::vector<float> logits(7, 0.F);
  for (const data::Token token : tokenizer.encode("{\"a\": 1}")) {
    std::ranges::fill(logits, 0.F);
    mask->allow(logits);
    CHECK(logits[static_cast<std::size_t>(token)] == 0);
    mask->accept(token);
  }
  std::ranges::fill(logits, 0.F);
  mask->allow(logits);
  CHECK(*std::ranges::max_element(logits) == -HUGE_VALF);
}

TEST_CASE("sample-text makes JSON of a schema in a file", "[json_mask]") {
  TempFolder folder;
  std::ofstream(folder / "schema.json") << R"({"enum": ["e", "t"]})";
  std::ofstream(folder / "broken.json") << R"({"if": {}})";
  static const TinyRun tiny(30);
  const auto sampled = [&](const std::string& file) {
    return run_program("sample-text", {"--model", tiny.run, "--prompt", "the", "--json-schema",
                                       (folder / file).string()});
  };
  const Result broken = sampled("broken.json");
  CHECK(broken.code == 1);
  CHECK_THAT(broken.err,
             ContainsSubstring("broken.json") && ContainsSubstring("\"if\" is not supported"));
  CHECK(sampled("none.json").code == 1);
  const Result both = run_program(
      "sample-text",
      {"--model", tiny.run, "--json-object", "--json-schema", (folder / "schema.json").string()});
  CHECK(both.code == 2);
}
