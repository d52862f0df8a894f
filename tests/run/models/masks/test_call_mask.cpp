#include <cstdint>

#include "tapegrad/run/models/internal/call_mask.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/run/models/masks/call_masks.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("calls of random tokens are complete and fit, in every form", "[call_mask]") {
  Rng rng(58);
  MadeUpSchemas schemas(7);
  int texts = 0, more_than_one = 0;
  for (const bool special : {false, true}) {
    const data::Tokenizer& tokenizer = call_tokenizer(special);
    run::JsonMasks masks(tokenizer);
    for (const data::CallFormat& format : data::call_formats()) {
      const auto functions = made_up_functions(format, schemas);
      for (const bool several : {false, true}) {
        const auto mask = masks.of_calls(
            {.format = format, .functions = functions, .several = several, .required = true});
        for (int i = 0; i < 6; ++i) {
          RandomAnswer answer(tokenizer, format, *mask, rng);
          const bool ended = answer.draw_to_end();
          INFO(format.name << ": " << answer.text());
          REQUIRE(ended);
          CHECK(fault(format, functions, several, answer.text()) == "");
          ++texts;
          more_than_one += CallTexts(format, answer.text()).calls().size() > 1 ? 1 : 0;
        }
      }
    }
  }
  CHECK(texts > 200);
  CHECK(more_than_one > 10);
}

TEST_CASE("marks that are tokens come where they belong alone", "[call_mask]") {
  const data::Tokenizer& tokenizer = call_tokenizer(true);
  const data::CallFormat& format = call_format("hermes");
  run::JsonMasks masks(tokenizer);
  Rng rng(1);
  const auto begin = tokenizer.encode("<tool_call>", true).at(0);
  const auto end = tokenizer.encode("</tool_call>", true).at(0);
  const auto other = tokenizer.encode("[TOOL_CALLS]", true).at(0);
  const auto mask = masks.of_calls(
      {.format = format, .functions = two_functions(), .several = false, .required = true});
  RandomAnswer answer(tokenizer, format, *mask, rng);
  CHECK(answer.allows(begin));
  CHECK((!answer.allows(end) && !answer.allows(other) && !answer.may_end()));
  CHECK(answer.allows(tokenizer.encode("<").at(0)));
  answer.add(begin);
  REQUIRE(answer.add_text("{\"name\": \"stop\", \"arguments\": {\"a", false));
  CHECK((!answer.allows(begin) && !answer.allows(end) && !answer.allows(other)));
  CHECK_THROWS_WITH(answer.add(end), ContainsSubstring("may not follow"));
  REQUIRE(answer.add_text("\": 1}}\n", false));
  CHECK((answer.allows(end) && !answer.allows(begin)));
  answer.add(end);
  CHECK((answer.may_end() && !answer.allows(begin)));
  CHECK(fault(format, two_functions(), false, answer.text()) == "");
}

TEST_CASE("where the end mark ends texts, a call ends with its body", "[call_mask]") {
  const data::Tokenizer& special = call_tokenizer(true);
  const std::int64_t call = special.encode("<|call|>", true).at(0);
  const data::Tokenizer tokenizer = special.ending_at({&call, 1});
  const data::CallFormat& format = call_format("gpt_oss");
  run::JsonMasks masks(tokenizer);
  Rng rng(1);
  const auto mask =
      masks.of_calls({.format = format, .functions = two_functions(), .required = true});
  RandomAnswer answer(tokenizer, format, *mask, rng);
  REQUIRE(answer.add_text("<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{",
                          true));
  CHECK(!answer.may_end());
  REQUIRE(answer.add_text("}", false));
  CHECK(answer.may_end());
  CHECK(!answer.allows(tokenizer.encode("<").at(0)));
}

TEST_CASE("tokens that end answers by their template end calls, and no reasoning before",
          "[call_mask]") {
  const data::Tokenizer& tokenizer = call_tokenizer(true);
  const data::Token end = tokenizer.encode("<|call|>", true).at(0);
  run::JsonMasks masks(tokenizer);
  Rng rng(1);
  for (const bool required : {true, false}) {
    const auto mask = masks.of_calls({.format = call_format("hermes"),
                                      .functions = two_functions(),
                                      .required = required,
                                      .free_until = "</think>",
                                      .ends = {end}});
    RandomAnswer answer(tokenizer, call_format("hermes"), *mask, rng);
    CHECK(answer.allows(end) == !required);
    REQUIRE(answer.add_text("x</think>", false));
    CHECK(answer.allows(end) == !required);
    REQUIRE(answer.add_text("<tool_call>{\"name\": \"stop\", \"arguments\": {}", true));
    CHECK(!answer.allows(end));
    REQUIRE(answer.add_text("}</tool_call>", true));
    CHECK((answer.allows(end) && answer.may_end()));
  }
}

TEST_CASE("texts of a model share a mask of calls, and each has its own place in it",
          "[call_mask]") {
  const data::Tokenizer& tokenizer = call_tokenizer(true);
  Rng rng(3);
  nn::Params params(rng);
  const nn::DecoderConfig config{.vocab_size = tokenizer.vocab_size() + 30,
                                 .block_size = 128,
                                 .n_layer = 1,
                                 .n_head = 1,
                                 .n_embd = 8};
  nn::Decoder decoder(params, config);
  const run::TextModel model{std::move(params), std::move(decoder), tokenizer};
  run::JsonMasks masks(tokenizer);
  const data::CallFormat& format = call_format("hermes");
  const std::vector<data::CallFunction> list = {
      {"get", R"({"properties": {"a": {"enum": ["x", 1, [true]]}}, "required": ["a"],
                  "additionalProperties": false})"}};
  const run::CallRules rules{
      .format = format, .functions = list, .several = false, .required = true};
  const nn::GenerateOptions options{
      .max_new_tokens = 120, .temperature = 2, .mask = masks.of_calls(rules)};
  const auto texts = model.generate({"a", "b", "c", "d"}, options);
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(fault(format, list, false, text) == "");
  }
  CHECK(masks.of_calls(rules) == options.mask);  // kept for the next text
  auto others = rules;
  others.several = true;
  CHECK(masks.of_calls(others) != options.mask);
  CHECK(model.generate({"a", "b", "c", "d"}, options) == texts);
}
