#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/data/chat/answers/answer_reader_internal.h"
#include "tapegrad/data/chat/answers/call_format_internal.h"
#include "tapegrad/run/models/call_mask_internal.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/grammar/call_texts.h"
#include "tapegrad/tests/data/grammar/random_calls.h"
#include "tapegrad/tests/data/grammar/small_validator.h"

using namespace tapegrad;
using testing::RandomAnswer;

namespace {

const data::CallFormat& call_format(std::string_view name) {
  const auto formats = data::call_formats();
  const auto found = std::ranges::find(formats, name, &data::CallFormat::name);
  REQUIRE(found != formats.end());
  return *found;
}

// A small vocabulary with tokens that have the end of a mark and more. `special`: it has marks as
// tokens.
const data::Tokenizer& call_tokenizer(bool special) {
  const auto make = [](bool with_marks) {
    std::string corpus;
    for (const char* text :
         {"<tool_call>{\"name\": \"f\"}", "]</think>{x", "a>] {] [TOOL_CALLS]f"}) {
      for (int i = 0; i < 9; ++i) corpus += text;
    }
    const auto plain = data::Tokenizer::train_bpe(corpus, 288);
    std::vector<std::string_view> marks;
    for (const data::CallFormat& format : data::call_formats()) {
      for (const std::string_view mark :
           {format.begin, format.end, format.between, format.quote, format.before}) {
        const std::string_view bare = data::bare_mark(mark);
        if (!bare.empty() && bare.find(' ') == std::string_view::npos) marks.push_back(bare);
      }
    }
    marks.push_back("<|channel|>");
    marks.push_back("<|message|>");
    return with_marks ? plain.with_special(marks) : plain;
  };
  static const data::Tokenizer kinds[] = {make(false), make(true)};
  return kinds[special ? 1 : 0];
}

// Three made-up functions with nested parameters that the format can write.
std::vector<data::CallFunction> made_up_functions(const data::CallFormat& format,
                                                  testing::MadeUpSchemas& schemas) {
  std::vector<data::CallFunction> functions;
  while (functions.size() < 3) {
    data::CallFunction function{fmt::format("f{}", functions.size()),
                                testing::made_up_parameters(schemas)};
    try {
      data::call_grammar(format, {&function, 1}, false, {}, {.depth = 2});
    } catch (const Error&) {
      continue;  // no object fits
    }
    functions.push_back(function);
  }
  return functions;
}

// "f{…}g{…}", as an AnswerReader takes the text apart; what is no call is in it, too.
std::string read_calls(const data::CallFormat& format,
                       const std::vector<data::CallFunction>& functions, std::string_view text) {
  data::AnswerReading reading{.calls = &format, .held = true};
  for (const auto& function : functions) reading.functions.push_back(function.name);
  data::AnswerReader reader(std::move(reading));
  std::string calls, arguments;
  using Kind = data::AnswerPart::Kind;
  const auto add = [&](const std::vector<data::AnswerPart>& parts) {
    for (const data::AnswerPart& part : parts) {
      if (part.kind == Kind::call_begin) {
        calls += part.name;
      } else if (part.kind == Kind::call_arguments) {
        arguments += part.text;
      } else if (part.kind == Kind::call_end) {
        calls += json_text(Json::parse(std::exchange(arguments, "")));
      } else {
        calls += "[" + part.text + "]";
      }
    }
  };
  for (const char c : text) add(reader.push({&c, 1}));
  add(reader.end());
  return calls + arguments;
}

// What is wrong about an answer's calls; "" if nothing is.
std::string fault(const data::CallFormat& format, const std::vector<data::CallFunction>& functions,
                  bool several, std::string_view text) {
  try {
    const auto calls = testing::CallTexts(format, text).calls();
    if (calls.empty() || (!several && calls.size() > 1)) return "the number of calls";
    std::string all;
    for (const auto& call : calls) all += call.name + json_text(call.arguments);
    const std::string read = read_calls(format, functions, text);
    if (read != all) return "read as " + read + ", not as " + all;
    for (const auto& [name, arguments] : calls) {
      const auto function = std::ranges::find(functions, name, &data::CallFunction::name);
      if (function == functions.end()) return "the name " + name;
      if (function->parameters.empty()) continue;
      const auto schema = parse_json<Json>(function->parameters, 64);
      if (!testing::SmallValidator(schema).fits(arguments)) {
        return json_text(arguments) + " does not fit " + function->parameters;
      }
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

const std::vector<data::CallFunction>& two_functions() {
  static const std::vector<data::CallFunction> list = {
      {"get", R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                  "additionalProperties": false})"},
      {"stop"}};
  return list;
}

}  // namespace

TEST_CASE("calls of random tokens are complete and fit, in every form", "[call_mask]") {
  Rng rng(58);
  testing::MadeUpSchemas schemas(7);
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
          more_than_one += testing::CallTexts(format, answer.text()).calls().size() > 1 ? 1 : 0;
        }
      }
    }
  }
  CHECK(texts > 200);
  CHECK(more_than_one > 10);
}

TEST_CASE("an answer is free until a call begins, which is complete and fits", "[call_mask]") {
  Rng rng(59);
  testing::MadeUpSchemas schemas(8);
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
        const std::string begin(format.begin.empty() ? "{" : data::bare_mark(format.begin));
        const bool begun = answer.add_text(begin, i % 3 > 0);
        INFO(format.name << ": " << answer.text());
        REQUIRE(begun);
        CHECK(!answer.may_end());
        REQUIRE(answer.draw_to_end());
        CHECK(fault(format, functions, several, answer.text().substr(before.size())) == "");
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
  RandomAnswer text(tokenizer, format, *mask, rng);
  REQUIRE(text.add_text("I say {]", false));
  CHECK(text.may_end());
  // Without brackets, nobody can see a call.
  data::CallFormat bare = call_format("functiongemma");
  bare.begin = {};
  CHECK_THROWS_WITH(masks.of_calls({.format = bare, .functions = two_functions()}),
                    ContainsSubstring("no begin mark"));
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
