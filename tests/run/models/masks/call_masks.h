#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/grammar/drawn_calls.h"
#include "tapegrad/tests/data/grammar/random_calls.h"
#include "tapegrad/tests/data/grammar/small_validator.h"

namespace tapegrad::testing {

inline const data::CallFormat& call_format(std::string_view name) {
  const auto formats = data::call_formats();
  const auto found = std::ranges::find(formats, name, &data::CallFormat::name);
  REQUIRE(found != formats.end());
  return *found;
}

// A small vocabulary with tokens that have the end of a mark and more. `special`: it has marks as
// tokens.
inline const data::Tokenizer& call_tokenizer(bool special) {
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
        const std::string_view bare = without_space(mark);
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
inline std::vector<data::CallFunction> made_up_functions(const data::CallFormat& format,
                                                         MadeUpSchemas& schemas) {
  std::vector<data::CallFunction> functions;
  while (functions.size() < 3) {
    data::CallFunction function{fmt::format("f{}", functions.size()), made_up_parameters(schemas)};
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
inline std::string read_calls(const data::CallFormat& format,
                              const std::vector<data::CallFunction>& functions,
                              std::string_view text) {
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

// What an AnswerReader says beside calls.
inline std::string content_of(const data::CallFormat& format,
                              const std::vector<data::CallFunction>& functions,
                              std::string_view text) {
  data::AnswerReading reading{.calls = &format, .held = true};
  for (const auto& function : functions) reading.functions.push_back(function.name);
  data::AnswerReader reader(std::move(reading));
  std::vector<data::AnswerPart> parts = reader.push(text);
  for (data::AnswerPart& part : reader.end()) parts.push_back(std::move(part));
  std::string content;
  for (const data::AnswerPart& part : parts) {
    if (part.kind == data::AnswerPart::Kind::content) content += part.text;
  }
  return content;
}

// What is wrong about an answer's calls; "" if nothing is.
inline std::string fault(const data::CallFormat& format,
                         const std::vector<data::CallFunction>& functions, bool several,
                         std::string_view text) {
  try {
    const auto calls = CallTexts(format, text).calls();
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
      if (!SmallValidator(schema).fits(arguments)) {
        return json_text(arguments) + " does not fit " + function->parameters;
      }
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline const std::vector<data::CallFunction>& two_functions() {
  static const std::vector<data::CallFunction> list = {
      {"get", R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                  "additionalProperties": false})"},
      {"stop"}};
  return list;
}

}  // namespace tapegrad::testing
