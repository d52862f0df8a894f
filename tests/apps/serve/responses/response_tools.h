#pragma once

#include <string>

#include "tapegrad/tests/apps/serve/running_server.h"

// A template that reads tools, writes calls in a known form, and begins an answer with reasoning if
// it is told to.
inline const RunningServer& tool_server() {
  static const TinyChatModel model;
  static const RunningServer running = [] {
    const std::string source =
        "{% for t in tools or [] %}{{ t | tojson }};{% endfor %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": {{ c.function.name }} "
        "{{ c.function.arguments | tojson }}\n</tool_call>{% endfor %};{% endfor %}[assistant]"
        "{% if reasoning_effort == 'high' %}<think>\n{% endif %}{# </think> type #}";
    model.folder.put("tiny-chat/tokenizer_config.json",
                     Fields{{"eos_token", "<|endoftext|>"}, {"chat_template", source}}.dump());
    return RunningServer({}, model.path);
  }();
  return running;
}

inline Fields with(Fields body, const Fields& more) {
  body.update(more);
  return body;
}

// As a response has them: a function whose arguments can be these alone.
inline Fields function(const std::string& name, int number = 1) {
  return {{"name", name},
          {"parameters",
           {{"type", "object"},
            {"properties", {{"n", {{"const", number}}}}},
            {"required", {"n"}},
            {"additionalProperties", false}}}};
}
inline Fields tool(const std::string& name, int number = 1) {
  return with(function(name, number), {{"type", "function"}});
}
inline Fields group(const std::string& name, const Fields& tools) {
  return {{"type", "namespace"}, {"name", name}, {"tools", tools}};
}

inline Fields asked(const Fields& more = Fields::object()) {
  return with({{"input", "a"}, {"tools", {tool("f"), tool("g", 2)}}, {"seed", 5}}, more);
}
