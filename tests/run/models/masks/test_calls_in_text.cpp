#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/run/models/internal/call_mask.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/tests/run/models/masks/call_masks.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("an answer is free until a call begins, which is complete and fits", "[call_mask]") {
  Rng rng(59);
  MadeUpSchemas schemas(8);
  for (const bool special : {false, true}) {
    const data::Tokenizer& tokenizer = call_tokenizer(special);
    run::JsonMasks masks(tokenizer);
    for (const data::CallFormat& format : data::call_formats()) {
      const auto functions = made_up_functions(format, schemas);
      for (int i = 0; i < 6; ++i) {
        const bool several = i % 2 == 1;
        const auto mask =
            masks.of_calls({.format = format, .functions = functions, .several = several});
        RandomAnswer answer(tokenizer, format, *mask, rng);
        CHECK(answer.may_end());
        const std::string before = format.begin.empty() ? "\n " : "A <tool cat >{\"name";
        CHECK(answer.add_text(before, false));
        CHECK(answer.may_end());
        const std::string begin(format.begin.empty() ? "{" : without_space(format.begin));
        const bool begun = answer.add_text(begin, i % 3 > 0);
        INFO(format.name << ": " << answer.text());
        REQUIRE(begun);
        CHECK(!answer.may_end());
        REQUIRE(answer.draw_to_end());
        CHECK(fault(format, functions, several, answer.text().substr(before.size())) == "");
        CHECK(content_of(format, functions, answer.text()) == without_space(before));
      }
    }
  }
}

TEST_CASE("a token with the end of a mark and more may come if the call goes on so",
          "[call_mask]") {
  const data::Tokenizer& tokenizer = call_tokenizer(false);
  const data::CallFormat& format = call_format("hermes");
  run::JsonMasks masks(tokenizer);
  Rng rng(1);
  const auto lazy = masks.of_calls({.format = format, .functions = two_functions()});
  const auto token_of = [&](std::string_view text) {
    const auto tokens = tokenizer.encode(text);
    INFO(text);
    REQUIRE(tokens.size() == 1);
    return tokens[0];
  };
  const data::Token good = token_of(">{\""), bad = token_of(">]");
  RandomAnswer answer(tokenizer, format, *lazy, rng);
  CHECK(answer.allows(bad));  // as long as no mark has begun
  REQUIRE(answer.add_text("<tool_cal<tool_call", false));
  CHECK(answer.allows(good));
  CHECK(!answer.allows(bad));
  CHECK(answer.allows(token_of("x")));
  CHECK(answer.may_end());
  answer.add(good);
  CHECK(!answer.may_end());
  CHECK(!answer.allows(token_of("x")));
  REQUIRE(answer.add_text("name\": \"stop\", \"arguments\": {}}</tool_call>", false));
  CHECK(answer.may_end());
  CHECK(!answer.allows(token_of("x")));
  // What is not the mark is text.
  RandomAnswer other(tokenizer, format, *lazy, rng);
  CHECK(other.add_text("<tool_call <tool_call\n>]", false));
  CHECK(other.may_end());
  CHECK(other.allows(bad));
}

TEST_CASE("reasoning is free, and calls are what is behind it", "[call_mask]") {
  const data::CallFormat& format = call_format("hermes");
  Rng rng(1);
  for (const bool special : {false, true}) {
    const data::Tokenizer& tokenizer = call_tokenizer(special);
    run::JsonMasks masks(tokenizer);
    for (const bool required : {true, false}) {
      INFO("special: " << special << ", required: " << required);
      const auto mask = masks.of_calls({.format = format,
                                        .functions = two_functions(),
                                        .required = required,
                                        .free_until = "</think>"});
      RandomAnswer answer(tokenizer, format, *mask, rng);
      REQUIRE(answer.add_text("I <tool_call>{ x", special));
      CHECK(answer.may_end() == !required);
      REQUIRE(answer.add_text("</think", false));
      const auto more = tokenizer.encode(">{x");
      REQUIRE(tokenizer.decode({more.data(), 1}) == ">{");
      CHECK(answer.allows(tokenizer.encode(">").at(0)));
      CHECK(answer.allows(more[0]) == !required);
      REQUIRE(answer.add_text(">", false));
      CHECK(answer.may_end() == !required);
      CHECK(answer.allows(tokenizer.encode("x").at(0)) == !required);
      REQUIRE(answer.add_text("\n\n<tool_call>", special));
      CHECK(!answer.allows(tokenizer.encode("x").at(0)));
      REQUIRE(answer.draw_to_end());
      const std::string text = answer.text();
      CHECK(fault(format, two_functions(), true, text.substr(text.find("</think>") + 8)) == "");
    }
  }
}

TEST_CASE("reasoning is free if the answer begins with its mark", "[call_mask]") {
  const data::CallFormat& format = call_format("hermes");
  Rng rng(1);
  for (const bool special : {false, true}) {
    const data::Tokenizer& tokenizer = call_tokenizer(special);
    run::JsonMasks masks(tokenizer);
    run::CallRules rules{.format = format,
                         .functions = two_functions(),
                         .free_until = "</think>",
                         .free_from = "<think>"};
    const auto mask = masks.of_calls(rules);
    for (const std::string_view without : {"", "<thin<", "x<think>", "\n <thinking"}) {
      RandomAnswer answer(tokenizer, format, *mask, rng);
      INFO(without);
      REQUIRE(answer.add_text(without, special));
      REQUIRE(answer.add_text("<tool_call>", special));
      CHECK(!answer.may_end());
    }
    for (const std::string_view with : {"<think>", "\n <think>a"}) {
      RandomAnswer answer(tokenizer, format, *mask, rng);
      INFO(with);
      REQUIRE(answer.add_text(with, special));
      REQUIRE(answer.add_text("<tool_call>x", special));
      REQUIRE(answer.add_text("</think>\n", special));
      CHECK(answer.may_end());
      REQUIRE(answer.add_text("<tool_call>", special));
      CHECK(!answer.may_end());
      CHECK(!answer.allows(tokenizer.encode("x").at(0)));
    }
    rules.required = true;
    RandomAnswer answer(tokenizer, format, *masks.of_calls(rules), rng);
    CHECK(!answer.allows(tokenizer.encode("x").at(0)));
    REQUIRE(answer.draw_to_end());
    CHECK(fault(format, two_functions(), true, answer.text()) == "");
  }
}

TEST_CASE("a format without a begin mark calls where the answer begins with a bracket",
          "[call_mask]") {
  const data::Tokenizer& tokenizer = call_tokenizer(true);
  const data::CallFormat& format = call_format("llama3");
  run::JsonMasks masks(tokenizer);
  Rng rng(1);
  const auto mask = masks.of_calls({.format = format, .functions = two_functions()});
  const auto tag = tokenizer.encode("<|python_tag|>", true).at(0);
  const auto begins_wrong = tokenizer.encode(" {]").at(0);
  REQUIRE(tokenizer.decode({&begins_wrong, 1}) == " {]");
  RandomAnswer answer(tokenizer, format, *mask, rng);
  CHECK(answer.allows(tag));
  CHECK(!answer.allows(begins_wrong));
  REQUIRE(answer.add_text("\n{", false));
  CHECK(!answer.may_end());
  REQUIRE(answer.add_text("\"name\": \"get\", \"parameters\": {\"a\": 1}}", false));
  CHECK(answer.may_end());
  RandomAnswer tagged(tokenizer, format, *mask, rng);
  tagged.add(tag);
  CHECK(!tagged.allows(tokenizer.encode("x").at(0)));
  REQUIRE(tagged.draw_to_end());
  CHECK(fault(format, two_functions(), true, tagged.text()) == "");
  RandomAnswer spelled(tokenizer, format, *mask, rng);
  REQUIRE(spelled.add_text("\n<|python_tag|>", false));
  CHECK(!spelled.may_end());
  CHECK(!spelled.allows(tokenizer.encode("x").at(0)));
  REQUIRE(spelled.draw_to_end());
  CHECK(fault(format, two_functions(), true, spelled.text()) == "");
  RandomAnswer other(tokenizer, format, *mask, rng);
  REQUIRE(other.add_text("<|python {]", false));
  CHECK(other.may_end());
  RandomAnswer text(tokenizer, format, *mask, rng);
  REQUIRE(text.add_text("I say {]", false));
  CHECK(text.may_end());
  // Without brackets, nobody can see a call.
  data::CallFormat bare = call_format("functiongemma");
  bare.begin = {};
  CHECK_THROWS_WITH(masks.of_calls({.format = bare, .functions = two_functions()}),
                    ContainsSubstring("no begin mark"));
}
