// A conversation as OpenAI's clients send it, through what real templates have for calls.

#include <string>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/chat/tools/internal/call_form.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

// Two calls in one message, ids of 24 characters, arguments as texts, results without a name and
// in another order.
std::string prompt_of(const std::string& source) {
  const char* const messages[] = {
      R"({"role":"user","content":"Go"})",
      R"({"role":"assistant","content":null,"tool_calls":[
          {"id":"call_aaaaaaaaaaaaaaaaaaa","type":"function",
           "function":{"name":"f","arguments":"{\"a\": \"x\", \"b\": [1, true, null]}"}},
          {"id":"call_bbbbbbbbbbbbbbbbbbb","type":"function",
           "function":{"name":"g","arguments":"{\"a-b c\": 2}"}}]})",
      R"({"role":"tool","tool_call_id":"call_bbbbbbbbbbbbbbbbbbb","content":"G"})",
      R"({"role":"tool","tool_call_id":"call_aaaaaaaaaaaaaaaaaaa","content":"F"})"};
  Conversation conversation{.tools = R"([{"type":"function","function":{"name":"f"}}])"};
  for (const char* message : messages) conversation.messages.push_back(message_of_json(message));
  const ChatTemplate chat_template(source);
  REQUIRE(call_format_of(chat_template) != nullptr);
  return chat_template.render(with_tools_for(chat_template, conversation), false).text;
}

const std::string kTools = "{% if tools %}{{ tools[0].function.name }}:{% endif %}";

const std::string kLlama =
    kTools + R"({#- {"name": function name, "parameters": #}{%- for message in messages %}
{%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
{{- '<' + message['role'] + '>' + message['content'] | trim }}
{%- elif 'tool_calls' in message %}
{%- if not message.tool_calls|length == 1 %}
{{- raise_exception("This model only supports single tool-calls at once!") }}
{%- endif %}
{%- set tool_call = message.tool_calls[0].function %}
{{- '<assistant>{"name": "' + tool_call.name + '", "parameters": ' }}
{{- tool_call.arguments | tojson }}{{- "}" }}
{%- else %}{{- "<ipython>" }}{{- message.content | tojson }}{%- endif %}{%- endfor %})";

// Of a message with calls, it shows the first one.
const std::string kGptOss = kTools +
                            R"({%- set last = namespace(name=none) %}{%- for message in messages -%}
{%- if message.role == 'assistant' and "tool_calls" in message %}
{%- set tool_call = message.tool_calls[0].function %}
{{- "<|start|>assistant to=functions." + tool_call.name + "<|channel|>commentary json<|message|>" }}
{{- tool_call.arguments|tojson }}{{- "<|call|>" }}
{%- set last.name = tool_call.name %}
{%- elif message.role == 'tool' -%}
{{- "<|start|>functions." + last.name + "<|message|>" + message.content|tojson + "<|end|>" }}
{%- else -%}{{- "<|start|>" + message.role + "<|message|>" + message.content + "<|end|>" }}
{%- endif -%}{%- endfor -%})";

const std::string kNemo = kTools +
                          R"({%- for message in messages %}
{%- if message.tool_calls is defined and message.tool_calls is not none %}{{- "[TOOL_CALLS][" }}
{%- for tool_call in message.tool_calls %}{%- set out = tool_call.function|tojson %}{{- out[:-1] }}
{%- if not tool_call.id is defined or tool_call.id|length != 9 %}
{{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
{%- endif %}{{- ', "id": "' + tool_call.id + '"}' }}
{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}{%- endfor %}
{%- elif message["role"] == "tool" %}{{- '[TOOL_RESULTS]{"content": ' + message.content|string }}
{%- if not message.tool_call_id is defined or message.tool_call_id|length != 9 %}
{{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
{%- endif %}{{- ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{- "[INST]" + message["content"] + "[/INST]" }}{%- endif %}{%- endfor %})";

const std::string kFunctionGemma = kTools +
                                   R"({%- for message in messages %}
{%- for call in message.tool_calls or [] %}
{{- '<start_function_call>call:' + call.function.name + '{' -}}
{%- for key, value in call.function.arguments | items %}{{- key }}:{{- value }},{%- endfor %}
{{- '}<end_function_call>' }}{%- endfor %}
{%- if message.role == 'tool' %}{%- if not message.name %}
{{- raise_exception("Invalid tool response: 'name' must be provided.") }}{%- endif %}
{{- '<start_function_response>response:' + message.name + '{value:' + message.content + '}' }}
{%- else %}{{- message.content }}{%- endif %}{%- endfor %})";

const std::string kGranite =
    kTools +
    R"({#- respond only with <|tool_call|> followed by a JSON list #}{%- for message in messages %}
{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + ';' }}
{%- endfor %})";

const std::string kLfm = kTools +
                         R"({#- List of tools: #}{%- for message in messages -%}
{{- "<|im_start|>" + message["role"] + "\n" -}}{%- set content = message["content"] -%}
{%- if content is not string -%}{%- set content = content | tojson -%}{%- endif -%}
{{- content + "<|im_end|>\n" -}}{%- endfor -%})";

}  // namespace

TEST_CASE("a template that takes single calls gets them one by one, each with its result",
          "[tool_convention]") {
  CHECK(prompt_of(kLlama) ==
        "f:<user>Go<assistant>{\"name\": \"f\", \"parameters\": {\"a\": \"x\", \"b\": [1, true, "
        "null]}}<ipython>\"F\"<assistant>{\"name\": \"g\", \"parameters\": {\"a-b c\": 2}}"
        "<ipython>\"G\"");
  CHECK(prompt_of(kGptOss) ==
        "f:<|start|>user<|message|>Go<|end|><|start|>assistant to=functions.f<|channel|>commentary "
        "json<|message|>{\"a\": \"x\", \"b\": [1, true, null]}<|call|><|start|>functions.f"
        "<|message|>\"F\"<|end|><|start|>assistant to=functions.g<|channel|>commentary "
        "json<|message|>{\"a-b c\": 2}<|call|><|start|>functions.g<|message|>\"G\"<|end|>");
}

TEST_CASE("a template that takes ids of nine characters gets such ids", "[tool_convention]") {
  CHECK(prompt_of(kNemo) ==
        "f:[INST]Go[/INST][TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"b\": [1, "
        "true, null]}, \"id\": \"000000001\"}, {\"name\": \"g\", \"arguments\": {\"a-b c\": 2}, "
        "\"id\": \"000000002\"}][TOOL_RESULTS]{\"content\": F, \"call_id\": \"000000001\"}"
        "[/TOOL_RESULTS][TOOL_RESULTS]{\"content\": G, \"call_id\": \"000000002\"}[/TOOL_RESULTS]");
}

TEST_CASE("short ids are taken as they are, and never made a second time", "[tool_convention]") {
  std::vector<Message> messages;
  for (
      const char* message :
      {R"({"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f"}},
            {"id":"000000001","function":{"name":"g"}},{"function":{"name":"h"}}]})",
       R"({"role":"tool","content":"H"})",
       R"({"role":"tool","tool_call_id":"000000001","content":"G"})",
       R"({"role":"tool","tool_call_id":"call_1","content":"F"})",
       R"({"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"i"}}]})",
       R"({"role":"tool","tool_call_id":"call_1","content":"I"})"}) {
    messages.push_back(message_of_json(message));
  }
  std::string ids;
  for (const Message& message : in_form(messages, {.short_ids = true, .names = true}, {})) {
    Json json = Json::parse(message.json);
    const Json* const calls = calls_in(json);
    for (const Json& call : calls == nullptr ? Json::array() : *calls) {
      ids += call.at("id").get<std::string>() + " ";
    }
    if (calls == nullptr) {
      ids += message.content + json.at("name").get<std::string>() + " " +
             json.at("tool_call_id").get<std::string>() + ";";
    }
  }
  // The result without an id is that of the first call that has none.
  CHECK(ids ==
        "000000002 000000001 000000003 Hf 000000002;Ff 000000002;Gg 000000001;"
        "000000002 Ii 000000002;");
}

TEST_CASE("a template that takes results with a name gets their functions' names",
          "[tool_convention]") {
  CHECK(prompt_of(kFunctionGemma) ==
        "f:Go<start_function_call>call:f{a:x,b:[1, True, None],}<end_function_call>"
        "<start_function_call>call:g{a-b c:2,}<end_function_call>"
        "<start_function_response>response:f{value:F}"
        "<start_function_response>response:g{value:G}");
}

TEST_CASE("calls that a template of a known format does not show are texts of that format",
          "[tool_convention]") {
  CHECK(prompt_of(kGranite) ==
        "f:<|start_of_role|>user<|end_of_role|>Go;<|start_of_role|>assistant<|end_of_role|>"
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"b\": [1, true, null]}}, "
        "{\"name\": \"g\", \"arguments\": {\"a-b c\": 2}}];"
        "<|start_of_role|>tool<|end_of_role|>F;<|start_of_role|>tool<|end_of_role|>G;");
  CHECK(prompt_of(kLfm) ==
        "f:<|im_start|>user\nGo<|im_end|>\n<|im_start|>assistant\n"
        "<|tool_call_start|>[f(a=\"x\", b=[1, True, None]), {\"name\": \"g\", \"arguments\": "
        "{\"a-b c\": 2}}]<|tool_call_end|><|im_end|>\n"
        "<|im_start|>tool\nF<|im_end|>\n<|im_start|>tool\nG<|im_end|>\n");
}
