#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"

namespace tapegrad::testing {

// Reads the texts of calls as a family writes them, in a simple way, and throws where one is not
// exactly so. Of names that are there twice, the last one counts.
class CallTexts {
 public:
  struct Call {
    std::string name;
    Json arguments;
  };

  CallTexts(const data::CallFormat& format, std::string_view text) : format_(format), rest_(text) {}

  std::vector<Call> calls() {
    std::vector<Call> found;
    spaces();
    skip_if(format_.before);
    do {
      take(format_.begin);
      spaces();
      calls_between_marks(found);
      spaces();
      take(format_.end);
      spaces();
    } while (!rest_.empty());
    return found;
  }

 private:
  using Body = data::CallBody;

  void calls_between_marks(std::vector<Call>& found) {
    const bool list = format_.body == Body::list || format_.body == Body::python;
    if (list) take("[");
    do {
      spaces();
      found.push_back(call());
      spaces();
    } while (list && skip_if(","));
    if (list) take("]");
  }

  Call call() {
    if (format_.body == Body::object || format_.body == Body::list) {
      const Json json = Json::parse(json_object());
      const std::string key(format_.arguments_key);
      check(json.size() == 2 && json.at(key).is_object(), "no call: {}", json_text(json));
      return {json.at("name").get<std::string>(), json.at(key)};
    }
    if (format_.body == Body::gemma) take("call:");
    const auto end = rest_.find_first_of("({[ <");
    check(end != std::string_view::npos, "no arguments");
    Call call{std::string(rest_.substr(0, end)), {}};
    rest_.remove_prefix(end);
    if (format_.body == Body::name_then_object) {
      take(format_.between);
      call.arguments = Json::parse(json_object());
      return call;
    }
    const bool python = format_.body == Body::python;
    call.arguments = members(python ? '(' : '{', python ? ')' : '}', python ? '=' : ':');
    return call;
  }

  // The text of an object of JSON.
  std::string json_object() {
    int depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (in_string && c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = !in_string;
      } else if (!in_string) {
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (depth == 0) {
          const std::string text(rest_.substr(0, i + 1));
          rest_.remove_prefix(i + 1);
          return text;
        }
      }
    }
    fail("an object without an end");
  }

  Json members(char open, char close, char between) {
    take({&open, 1});
    Json object = Json::object();
    spaces();
    while (!skip_if({&close, 1})) {
      if (!object.empty()) take(",");
      spaces();
      std::string name;
      if (rest_.starts_with('"')) {
        name = string();
      } else {
        const auto end = rest_.find(between);
        check(end != std::string_view::npos, "a name without a value");
        name = rest_.substr(0, end);
        rest_.remove_prefix(end);
      }
      take({&between, 1});
      spaces();
      object[name] = value();
      spaces();
    }
    return object;
  }

  Json value() {
    if (rest_.starts_with('{')) return members('{', '}', ':');
    if (skip_if("[")) {
      Json list = Json::array();
      spaces();
      while (!skip_if("]")) {
        if (!list.empty()) take(",");
        spaces();
        list.push_back(value());
        spaces();
      }
      return list;
    }
    const bool gemma = format_.body == Body::gemma;
    if (rest_.starts_with(gemma ? format_.quote : "\"")) return string();
    if (skip_if(gemma ? "true" : "True")) return true;
    if (skip_if(gemma ? "false" : "False")) return false;
    if (skip_if(gemma ? "null" : "None")) return nullptr;
    const auto end = rest_.find_first_not_of("0123456789.eE+-");
    const Json number = parse_json<Json>(std::string(rest_.substr(0, end)), 2);
    rest_.remove_prefix(std::min(end, rest_.size()));
    return number;
  }

  std::string string() {
    if (format_.body == Body::gemma) {
      take(format_.quote);
      const auto end = rest_.find(format_.quote);
      check(end != std::string_view::npos, "a string without an end");
      std::string text(rest_.substr(0, end));
      rest_.remove_prefix(end);
      take(format_.quote);
      return text;
    }
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    const Json text = parse_json<Json>(std::string(rest_.substr(0, end + 1)), 2);
    rest_.remove_prefix(end + 1);
    return text.get<std::string>();
  }

  void spaces() {
    while (rest_.starts_with(' ') || rest_.starts_with('\n')) rest_.remove_prefix(1);
  }
  bool skip_if(std::string_view text) {
    if (text.empty() || !rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // White space around it may be there or not.
  void take(std::string_view text) {
    while (text.starts_with('\n')) text.remove_prefix(1);
    while (text.ends_with('\n')) text.remove_suffix(1);
    check(rest_.starts_with(text), "expected '{}' at '{}'", text, rest_.substr(0, 40));
    rest_.remove_prefix(text.size());
  }

  const data::CallFormat& format_;
  std::string_view rest_;
};

}  // namespace tapegrad::testing
