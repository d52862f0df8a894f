// Requests that `serve` refuses, each by the name of a field.

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

}  // namespace

TEST_CASE("what a request must not have is refused by its name", "[serve]") {
  struct Case {
    const char *path, *body, *param, *code;
    int status = 400;
  };
  const Case cases[] = {
      {"/v1/completions", "{\"prompt\":", "", "invalid_json"},
      {"/v1/completions", "[]", "", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","prompt":"b"})", "", "invalid_json"},
      {"/v1/completions", R"({"prompt":5})", "prompt", "invalid_type"},
      {"/v1/completions", R"({"prompt":[]})", "prompt", "invalid_type"},
      {"/v1/completions", R"({"prompt":[[]]})", "prompt", "invalid_value"},
      {"/v1/completions", R"({"prompt":[404]})", "prompt", "invalid_value"},
      {"/v1/completions", R"({"prompt":[-1]})", "prompt", "invalid_value"},
      {"/v1/completions", R"({"prompt":[18446744073709551615]})", "prompt", "invalid_value"},
      {"/v1/completions", R"({"prompt":[1.5]})", "prompt", "invalid_value"},
      {"/v1/completions", R"({"prompt":["a",{}]})", "prompt", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","best_of":3})", "best_of", "unsupported_parameter"},
      {"/v1/completions", R"({"prompt":"a","suffix":"b"})", "suffix", "unsupported_parameter"},
      {"/v1/completions", R"({"prompt":"a","temperature":-1})", "temperature", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","temperature":"hot"})", "temperature", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","top_p":0})", "top_p", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","n":0})", "n", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","n":1.5})", "n", "invalid_type"},
      {"/v1/completions", R"({"prompt":["a","b"],"n":100})", "n", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","max_tokens":512})", "max_tokens",
       "context_length_exceeded"},
      {"/v1/completions", R"({"prompt":"a","max_tokens":1e3})", "max_tokens", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","logprobs":21})", "logprobs", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","logprobs":true})", "logprobs", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","stop":""})", "stop", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","stop":[1]})", "stop", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","seed":0.5})", "seed", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","frequency_penalty":3})", "frequency_penalty",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","presence_penalty":-2.5})", "presence_penalty",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","min_tokens":17})", "min_tokens", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","min_tokens":-1})", "min_tokens", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","stop_token_ids":[404]})", "stop_token_ids",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","stop_token_ids":5})", "stop_token_ids", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","typical_p":0})", "typical_p", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","top_k":-2})", "top_k", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","max_tokens":-2})", "max_tokens", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","logit_bias":{"404":1}})", "logit_bias",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","logit_bias":{"1":101}})", "logit_bias",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","stream":1})", "stream", "invalid_type"},
      {"/v1/completions", R"({"prompt":"a","stream_options":{}})", "stream_options",
       "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","stream":true,"stream_options":{"x":1}})",
       "stream_options.x", "unknown_parameter"},
      {"/v1/completions", R"({"prompt":"a","tempreature":1})", "tempreature", "unknown_parameter"},
      {"/v1/completions", R"({"prompt":"a","messages":[{}]})", "messages", "unsupported_parameter"},
      {"/v1/completions", R"({"prompt":"a","model":"gpt-4"})", "model", "model_not_found", 404},
      {"/v1/chat/completions", "{}", "messages", "missing_required_parameter"},
      {"/v1/chat/completions", R"({"messages":[]})", "messages", "invalid_type"},
      {"/v1/chat/completions", R"({"messages":[5]})", "messages[0]", "invalid_type"},
      {"/v1/chat/completions", R"({"messages":[{"content":"a"}]})", "messages[0].role",
       "missing_required_parameter"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":5}]})",
       "messages[0].content", "invalid_type"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content[0].type", "invalid_value"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","contents":"a"}]})",
       "messages[0].content", "missing_required_parameter"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]})",
       "messages[0].tool_calls[0].function.name", "missing_required_parameter"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"assistant","content":null,"function_call":{"name":"f"}}]})",
       "messages[0].function_call", "template_error"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"}],"tool_choice":"required"})", "tool_choice",
       "invalid_value"},
      {"/v1/chat/completions", R"({"messages":[{"role":"tool","content":"a"}]})",
       "messages[0].tool_call_id", "missing_required_parameter"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}]})",
       "tools[0].function", "missing_required_parameter"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":2})",
       "top_logprobs", "invalid_value"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"}],"max_tokens":5,"max_completion_tokens":6})",
       "max_tokens", "invalid_value"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"prompt":"b"})",
       "prompt", "unsupported_parameter"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"xml"}})",
       "response_format.type", "invalid_value"},
      {"/v1/completions", R"({"prompt":"a","response_format":{}})", "response_format.type",
       "missing_required_parameter"},
      {"/v1/completions", R"({"prompt":"a","response_format":{"type":"json_schema"}})",
       "response_format.json_schema", "missing_required_parameter"},
      {"/v1/completions",
       R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}})",
       "response_format.json_schema.schema", "invalid_value"},
      {"/v1/completions",
       R"({"prompt":"a","response_format":{"type":"json_object","json_schema":{"a":1}}})",
       "response_format.json_schema", "unsupported_parameter"},
      {"/v1/embeddings", "{}", "input", "missing_required_parameter"},
      {"/v1/embeddings", R"({"input":""})", "input", "invalid_value"},
      {"/v1/embeddings", R"({"input":["a",5]})", "input", "invalid_type"},
      {"/v1/embeddings", R"({"input":"a","dimensions":8})", "dimensions", "unsupported_parameter"},
      {"/v1/embeddings", R"({"input":"a","encoding_format":"hex"})", "encoding_format",
       "invalid_value"},
      {"/tokenize", "{}", "content", "missing_required_parameter"},
      {"/detokenize", R"({"tokens":[404]})", "tokens", "invalid_value"},
      {"/detokenize", R"({"tokens":"a"})", "tokens", "invalid_type"},
      {"/apply-template", R"({"messages":[{"role":"user","content":"a"}],"seed":1})", "seed",
       "unknown_parameter"},
  };
  const RunningServer strict({"--strict"});
  for (const Case& c : cases) {
    const bool unknown = std::string(c.code) == "unknown_parameter";
    const Reply reply = post(unknown ? strict.port : server().port, c.path, c.body);
    INFO(c.path << " " << c.body << "\n" << reply.body);
    REQUIRE(reply.status == c.status);
    const Fields error = Fields::parse(reply.body)["error"];
    CHECK(error["type"] == "invalid_request_error");
    CHECK(error["param"] == (*c.param == '\0' ? Fields() : Fields(c.param)));
    CHECK(error["code"] == c.code);
    CHECK(!error["message"].get<std::string>().empty());
  }
  // What changes nothing may be sent.
  CHECK(server()
            .send("/v1/completions", {{"prompt", "a"},
                                      {"user", "me"},
                                      {"best_of", 1},
                                      {"suffix", nullptr},
                                      {"presence_penalty", 0},
                                      {"frequency_penalty", 0.0},
                                      {"logit_bias", Fields::object()},
                                      {"stream_options", nullptr}})
            .status == 200);
}
