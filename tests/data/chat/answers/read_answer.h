#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/answers/answer_reader_internal.h"
#include "tapegrad/tests/catch.h"

namespace tapegrad::data {

// "content A", "reasoning B", "call 0 f" or "call 0 f id", "arguments {…}", "end 0".
inline std::string shown(const AnswerPart& part) {
  using Kind = AnswerPart::Kind;
  const std::string index = std::to_string(part.index);
  switch (part.kind) {
    case Kind::content:
      return "content " + part.text;
    case Kind::reasoning:
      return "reasoning " + part.text;
    case Kind::call_begin:
      return "call " + index + " " + part.name + (part.id.empty() ? "" : " " + part.id);
    case Kind::call_arguments:
      return "arguments " + part.text;
    default:
      return "end " + index;
  }
}

// The row of this name. Error if there is none.
inline const CallFormat& call_format_named(std::string_view name) {
  const auto formats = call_formats();
  const auto row = std::find_if(formats.begin(), formats.end(),
                                [&](const CallFormat& format) { return format.name == name; });
  check(row != formats.end(), "no format {}", name);
  return *row;
}

// Calls of f, g and get_weather in this format.
inline AnswerReading reading_of(std::string_view format) {
  return {.calls = &call_format_named(format), .functions = {"f", "g", "get_weather"}};
}

// The parts of a text that is cut here, neighbours of one kind joined.
inline std::vector<std::string> parts_of(const AnswerReading& reading, std::string_view text,
                                         std::vector<std::size_t> cuts = {}) {
  AnswerReader reader(reading);
  std::vector<AnswerPart> parts;
  const auto add = [&](const std::vector<AnswerPart>& more) {
    for (const AnswerPart& part : more) {
      const bool is_text = part.kind != AnswerPart::Kind::call_begin;
      const bool goes_on = !parts.empty() && is_text && parts.back().kind == part.kind &&
                           parts.back().index == part.index;
      if (goes_on) {
        parts.back().text += part.text;
      } else {
        parts.push_back(part);
      }
    }
  };
  cuts.push_back(text.size());
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    add(reader.push(text.substr(begin, cut - begin)));
    begin = cut;
  }
  add(reader.end());
  std::vector<std::string> result;
  std::transform(parts.begin(), parts.end(), std::back_inserter(result), shown);
  return result;
}

// The parts, after a check that each cut, each two of a text that is short, and those between all
// bytes give the same.
inline std::vector<std::string> parts_of_all_cuts(const AnswerReading& reading,
                                                  std::string_view text) {
  const std::vector<std::string> whole = parts_of(reading, text);
  std::vector<std::size_t> all(text.size());
  std::iota(all.begin(), all.end(), 0);
  CHECK(parts_of(reading, text, all) == whole);
  std::size_t different = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    different += parts_of(reading, text, {i}) != whole ? 1 : 0;
    const std::size_t last = text.size() <= 80 ? text.size() : i;
    for (std::size_t j = i + 1; j < last; ++j) {
      different += parts_of(reading, text, {i, j}) != whole ? 1 : 0;
    }
  }
  INFO("text: " << text);
  CHECK(different == 0);
  return whole;
}

}  // namespace tapegrad::data
