#include "tapegrad/data/chat/tools/internal/call_texts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/chat/internal/chat_json.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/tools/internal/call_form.h"

namespace tapegrad::data {
namespace {

// A template, because tojson and the texts of Python's values are known there.
constexpr const char* kCallTexts = R"(
{%- macro one(call) -%}
  {%- if call.bare -%}
    {{- call.name }}({% for name, value in call.arguments | items -%}
      {%- if not loop.first %}{{ ', ' }}{% endif -%}
      {{- name }}={% if value is string %}{{ value | tojson }}{% else %}{{ value }}{% endif -%}
    {%- endfor -%})
  {%- elif between -%}
    {{- call.name }}{{ between }}{{ call.arguments | tojson }}
  {%- else -%}
    {{- call.object | tojson }}
  {%- endif -%}
{%- endmacro -%}
{%- if list %}{{ begin }}{{ '[' }}{% endif -%}
{%- for call in calls -%}
  {%- if not loop.first %}{{ gap }}{% endif -%}
  {%- if list %}{{ one(call) }}{% else %}{{ begin }}{{ one(call) }}{{ end }}{% endif -%}
{%- endfor -%}
{%- if list %}{{ ']' }}{{ end }}{% endif -%})";

// Keyword arguments: the names of arguments are bare there.
bool is_bare(const Json& arguments) {
  if (!arguments.is_object()) return false;
  for (const auto& [name, value] : arguments.items()) {
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_character)) return false;
  }
  return true;
}

class TextsOfCalls {
 public:
  TextsOfCalls(const CallFormat& format, bool keeps_results, const RenderLimits& most)
      : format_(format), keeps_results_(keeps_results), most_(most), words_(kCallTexts) {}

  std::vector<Message> of(std::vector<Message> messages) {
    for (Message& message : messages) {
      if (most_.look) most_.look();
      if (message.role == "tool") {
        add_result(std::move(message));
        continue;
      }
      end_results(message);
      made_.push_back(with_texts(std::move(message)));
    }
    Message none;
    end_results(none);
    return std::move(made_);
  }

 private:
  struct Result {
    std::size_t order;  // of its call
    Message message;
  };

  void add_result(Message message) {
    const Json json = message.json.empty() ? Json::object() : chat_json(message.json, "a message");
    const auto id = std::find(ids_.begin(), ids_.end(), text_in(json, "tool_call_id"));
    results_.push_back(
        {.order = static_cast<std::size_t>(id - ids_.begin()), .message = std::move(message)});
  }

  // `next`: the message behind them, which may take their texts.
  void end_results(Message& next) {
    if (results_.empty()) return;
    std::stable_sort(results_.begin(), results_.end(),
                     [](const Result& a, const Result& b) { return a.order < b.order; });
    std::string text;
    for (Result& result : results_) {
      if (keeps_results_) {
        made_.push_back(std::move(result.message));
        continue;
      }
      if (!text.empty()) text += "\n";
      text += "<tool_response>\n" + result.message.content + "\n</tool_response>";
    }
    results_.clear();
    if (keeps_results_) return;
    if (next.role == "user") {
      next = with_content(next, text + "\n" + next.content);
    } else {
      made_.push_back({.role = "user", .content = std::move(text)});
    }
  }

  Message with_texts(Message message) {
    if (message.json.empty()) return message;
    Json json = in_form(chat_json(message.json, "a message"), {});
    Json* calls = calls_in(json);
    if (calls == nullptr) return message;
    ids_.clear();
    Json said = Json::array();
    for (Json& call : *calls) {
      if (!call.is_object()) continue;
      ids_.push_back(text_in(call, "id"));
      said.push_back(said_of(function_in(call)));
    }
    json.erase("tool_calls");
    const std::string texts = text_of(std::move(said));
    json["content"] = message.content + (message.content.empty() ? "" : "\n") + texts;
    return message_of_json(json_text(json));
  }

  Json said_of(Json& function) const {
    const std::string name = text_in(function, "name");
    const Json arguments = function["arguments"];
    return {{"name", name},
            {"arguments", arguments},
            {"bare", format_.body == CallBody::python && is_bare(arguments)},
            {"object", {{"name", name}, {std::string(format_.arguments_key), arguments}}}};
  }

  std::string text_of(Json calls) const {
    const bool list = format_.body == CallBody::list || format_.body == CallBody::python;
    // Without a begin mark, something must stand between two calls.
    const bool lines = format_.begin.empty() || format_.begin.ends_with('\n');
    const Json variables = {{"calls", std::move(calls)},  {"list", list},
                            {"begin", format_.begin},     {"end", format_.end},
                            {"between", format_.between}, {"gap", list ? ", " : lines ? "\n" : ""}};
    return words_.render({}, false, json_text(variables), most_).text;
  }

  const CallFormat& format_;
  const bool keeps_results_;
  const RenderLimits& most_;
  const ChatTemplate words_;
  std::vector<Message> made_;
  std::vector<Result> results_;   // that follow each other
  std::vector<std::string> ids_;  // of the last calls
};

}  // namespace

std::vector<Message> with_call_texts(const CallFormat& format, bool keeps_results,
                                     std::vector<Message> messages, const RenderLimits& most) {
  const bool known = format.body != CallBody::gemma && !format.channels;
  return TextsOfCalls(known ? format : plain_call_format(), keeps_results, most)
      .of(std::move(messages));
}

}  // namespace tapegrad::data
