// What a request for a response may say, and what becomes of it.

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

constexpr const char* kPath = "/v1/responses";

// A template that shows all that items may say.
const RunningServer& telling_server() {
  static const TinyChatModel model;
  static const RunningServer running = [] {
    model.folder.put(
        "tiny-chat/tokenizer_config.json",
        Fields{{"chat_template",
                "{{ verbosity }}{{ reasoning_effort }}{% for m in messages %}[{{ m.role }}]"
                "{% if m.reasoning_content %}<{{ m.reasoning_content }}>{% endif %}{{ m.content }}"
                "{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.id }} "
                "{{ c.function.arguments }}){% endfor %}{% if m.tool_call_id %}@"
                "{{ m.tool_call_id }}{% endif %}{{ '\\n' }}{% endfor %}"}}
            .dump());
    return RunningServer({}, model.path);
  }();
  return running;
}

// What the model answers at temperature 0: it tells apart what it is given.
std::string answer(const Fields& body) {
  Fields drawn = body;
  drawn.update({{"temperature", 0}, {"max_output_tokens", 12}, {"ignore_eos", true}});
  const Fields response = telling_server().ask_for(kPath, drawn);
  return response["usage"]["input_tokens"].dump() + " " +
         response["output"][0]["content"][0]["text"].get<std::string>();
}
std::string answer_to_text(const std::string& prompt) {
  const Fields completion = telling_server().ask_for(
      "/v1/completions",
      {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", 12}, {"ignore_eos", true}});
  return completion["usage"]["prompt_tokens"].dump() + " " +
         completion["choices"][0]["text"].get<std::string>();
}

std::string ignored(const RunningServer& asked, const Fields& more) {
  Fields body = {{"input", "a"}, {"max_output_tokens", 1}};
  body.update(more);
  return asked.ignored(kPath, body);
}

Fields error_of(const RunningServer& asked, const Fields& body) {
  const Reply reply = asked.send(kPath, body);
  INFO(body.dump() << "\n" << reply.body);
  CHECK(reply.status == 400);
  return Fields::parse(reply.body)["error"];
}

}  // namespace

TEST_CASE("the items of a response's input are the messages of a chat", "[serve]") {
  const Fields items = Fields::parse(R"([
    {"type":"message","role":"developer","content":[{"type":"input_text","text":"be "},
                                                    {"type":"input_text","text":"brief"}]},
    {"role":"system","content":"and kind"},
    {"role":"user","content":"weather?","id":"msg_1","status":"completed"},
    {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
    {"type":"message","id":"msg_2","role":"assistant","status":"completed","phase":"commentary",
     "content":[{"type":"output_text","text":"I look","annotations":[],"logprobs":[]}]},
    {"type":"function_call","id":"fc_1","call_id":"a","name":"look","arguments":"{}"},
    {"type":"function_call","call_id":"b","name":"see","arguments":"{\"x\":1}","status":"completed"},
    {"type":"function_call_output","call_id":"a","output":"rain"},
    {"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"wind"}]},
    {"role":"developer","content":"soon"},
    {"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"so"}]},
    {"type":"function_call","call_id":"c","name":"look","arguments":"{}"},
    {"type":"function_call_output","call_id":"c","output":"sun"}])");
  CHECK(answer({{"instructions", "You talk."}, {"input", items}}) ==
        answer_to_text("[system]You talk.\n\nbe brief\n\nand kind\n[user]weather?\n"
                       "[assistant]<hm>I look(look a {})(see b {'x': 1})\n[tool]rain@a\n"
                       "[tool]wind@b\n[system]soon\n[assistant]<so>(look c {})\n[tool]sun@c\n"));
  CHECK(answer({{"input", "weather?"}}) == answer_to_text("[user]weather?\n"));
  // A summary is what is left of reasoning where its text is not there.
  CHECK(answer({{"input",
                 {{{"role", "user"}, {"content", "a"}},
                  {{"type", "reasoning"},
                   {"id", "rs"},
                   {"summary", {{{"type", "summary_text"}, {"text", "so"}}}}}}}}) ==
        answer_to_text("[user]a\n[assistant]<so>\n"));
  // Reasoning that nothing here can read is not the model's.
  CHECK(answer({{"input",
                 {{{"role", "user"}, {"content", "a"}},
                  {{"type", "reasoning"},
                   {"id", "rs"},
                   {"summary", Fields::array()},
                   {"encrypted_content", "x"}}}}}) == answer_to_text("[user]a\n"));
}

TEST_CASE("a developer's message is the system's for a template that names no developer",
          "[serve]") {
  const auto prompt = [](const RunningServer& asked) {
    return asked.ask_for("/apply-template",
                         {{"messages", {{{"role", "developer"}, {"content", "be brief"}}}},
                          {"add_generation_prompt", false}})["prompt"];
  };
  CHECK(prompt(server()) == "[system] be brief\n");
  const TinyChatModel model;
  model.folder.put(
      "tiny-chat/tokenizer_config.json",
      Fields{{"chat_template",
              "{% for m in messages %}{% if m.role == 'developer' %}dev: {% endif %}{{ m.content }}"
              "{% endfor %}"}}
          .dump());
  CHECK(prompt(RunningServer({}, model.path)) == "dev: be brief");
}

TEST_CASE("verbosity and effort are variables of a template that reads them", "[serve]") {
  CHECK(answer({{"input", "a"},
                {"text", {{"verbosity", "low"}}},
                {"reasoning", {{"effort", "high"}}}}) == answer_to_text("lowhigh[user]a\n"));
  CHECK(answer({{"input", "a"},
                {"text", {{"verbosity", "low"}}},
                {"chat_template_kwargs", {{"verbosity", "none"}}}}) ==
        answer_to_text("none[user]a\n"));
  const Fields more = {{"text", {{"verbosity", "low"}}},
                       {"reasoning", {{"effort", "high"}, {"summary", "auto"}}}};
  CHECK(ignored(server(), more) == "text.verbosity, reasoning.effort");
  CHECK(ignored(server(), {{"reasoning", {{"effort", "medium"}}}}).empty());
}

TEST_CASE("what changes nothing of a response is taken without a word", "[serve]") {
  const char* taken[] = {
      R"({"store":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k",
          "client_metadata":{"a":"b"},"parallel_tool_calls":true,"tool_choice":"auto","tools":[]})",
      R"({"previous_response_id":null,"conversation":null,"prompt":null,"background":false,
          "metadata":{},"user":"me","service_tier":"auto","safety_identifier":"s","max_tool_calls":3,
          "truncation":"disabled","text":{"verbosity":"medium","format":{"type":"text"}}})",
      R"({"stream":true,"stream_options":{"include_obfuscation":false},"n":1,"top_logprobs":0,
          "reasoning":{"effort":null,"summary":"detailed","generate_summary":null}})",
      R"({"input":[{"role":"user","content":"a"},
                   {"type":"function_call","call_id":"a","name":"f","arguments":"{}",
                    "parsed_arguments":{}},
                   {"role":"assistant","content":[{"type":"output_text","text":"a","parsed":1}]}]})",
  };
  for (const char* more : taken) {
    CAPTURE(more);
    CHECK(ignored(server(), Fields::parse(more)).empty());
  }
  CHECK(ignored(server(), {{"moderation", {{"a", 1}}},
                           {"input", {{{"role", "user"}, {"content", "a"}, {"opts", 1}}}}}) ==
        "input[0].opts, moderation");
}

TEST_CASE("what a response must not have is refused by its place", "[serve]") {
  struct Case {
    const char *body, *param, *code;
  };
  const Case cases[] = {
      {R"({})", "input", "missing_required_parameter"},
      {R"({"input":5})", "input", "invalid_type"},
      {R"({"input":[]})", "input", "invalid_type"},
      {R"({"input":[5]})", "input[0]", "invalid_type"},
      {R"({"input":[{"content":"a"}]})", "input[0].role", "missing_required_parameter"},
      {R"({"input":[{"role":"tool","content":"a"}]})", "input[0].role", "invalid_value"},
      {R"({"input":[{"role":"user"}]})", "input[0].content", "missing_required_parameter"},
      {R"({"input":[{"role":"user","content":5}]})", "input[0].content", "invalid_type"},
      {R"({"input":[{"role":"user","content":[{"text":"a"}]}]})", "input[0].content[0].type",
       "missing_required_parameter"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"a"}]}]})",
       "input[0].content[0].type", "invalid_value"},
      {R"({"input":[{"role":"user","content":[{"type":"input_text"}]}]})",
       "input[0].content[0].text", "missing_required_parameter"},
      {R"({"input":[{"type":"item_reference","id":"msg_1"}]})", "input[0].type",
       "unsupported_parameter"},
      {R"({"input":[{"type":"computer_call"}]})", "input[0].type", "invalid_value"},
      {R"({"input":[{"type":"function_call","name":"f","arguments":"{}"}]})", "input[0].call_id",
       "missing_required_parameter"},
      {R"({"input":[{"type":"function_call","call_id":"a","arguments":"{}"}]})", "input[0].name",
       "missing_required_parameter"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":{}}]})",
       "input[0].arguments", "invalid_type"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"","arguments":"{}"}]})",
       "input[0].name", "missing_required_parameter"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"[1]"}]})",
       "input[0].arguments", "invalid_value"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{\"b\""}]})",
       "input[0].arguments", "invalid_value"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}",
                     "namespace":5}]})",
       "input[0].namespace", "invalid_type"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                    {"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]})",
       "input[1].call_id", "invalid_value"},
      {R"({"input":[{"type":"function_call_output","call_id":"a","output":"x"}]})",
       "input[0].call_id", "invalid_value"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                    {"type":"function_call_output","call_id":"a","output":5}]})",
       "input[1].output", "invalid_type"},
      {R"({"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                    {"type":"function_call_output","call_id":"a",
                     "output":[{"type":"input_image"}]}]})",
       "input[1].output[0].type", "invalid_value"},
      {R"({"input":[{"type":"reasoning","summary":[]}]})", "input", "invalid_value"},
      {R"({"input":"a","instructions":5})", "instructions", "invalid_type"},
      {R"({"input":"a","previous_response_id":"resp_1"})", "previous_response_id",
       "unsupported_parameter"},
      {R"({"input":"a","conversation":"c"})", "conversation", "unsupported_parameter"},
      {R"({"input":"a","prompt":{"id":"p"}})", "prompt", "unsupported_parameter"},
      {R"({"input":"a","background":true})", "background", "unsupported_parameter"},
      {R"({"input":"a","n":2})", "n", "unsupported_parameter"},
      {R"({"input":"a","messages":[{}]})", "messages", "unsupported_parameter"},
      {R"({"input":"a","response_format":{"type":"json_object"}})", "response_format",
       "unsupported_parameter"},
      {R"({"input":"a","text":5})", "text", "invalid_type"},
      {R"({"input":"a","text":{"format":{}}})", "text.format.type", "missing_required_parameter"},
      {R"({"input":"a","text":{"format":{"type":"json_schema","name":"a"}}})", "text.format.schema",
       "missing_required_parameter"},
      {R"({"input":"a","text":{"format":{"type":"json_schema","schema":{"not":{}}}}})",
       "text.format.schema", "invalid_value"},
      {R"({"input":"a","text":{"format":{"type":"text","schema":{}}}})", "text.format.schema",
       "unsupported_parameter"},
      {R"({"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],
           "continue_final_message":true,"text":{"format":{"type":"json_object"}}})",
       "text.format", "invalid_value"},
      {R"({"input":"a","include":"b"})", "include", "invalid_type"},
      {R"({"input":"a","top_logprobs":21})", "top_logprobs", "invalid_value"},
      {R"({"input":"a","metadata":5})", "metadata", "invalid_type"},
      {R"({"input":"a","truncation":"some"})", "truncation", "invalid_value"},
      {R"({"input":"a","max_output_tokens":600})", "max_tokens", "context_length_exceeded"},
      {R"({"input":"a","seed":0.5})", "seed", "invalid_type"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.body);
    const Fields error = error_of(server(), Fields::parse(c.body));
    CHECK(error["param"] == c.param);
    CHECK(error["code"] == c.code);
    CHECK_FALSE(error["message"].get<std::string>().empty());
  }
  CHECK(error_of(server(), {{"input", std::vector<Fields>(4097, {{"role", "user"},
                                                                 {"content", "a"}})}})["message"] ==
        "'input' has 4097 items, and 4096 are the most");
}
