// Fields of requests that nothing here reads: ignored and named, harmless, or refused.

#include <signal.h>

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

Fields chat_of(const Fields& more) {
  Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
  body.update(more);
  return body;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("a field that nobody knows is ignored, and named in a header", "[serve]") {
  const Fields text = {{"prompt", "once"}, {"max_tokens", 5}, {"seed", 1}};
  Fields more = text;
  more.update({{"tempreature", 1}, {"x", {{"y", 2}}}, {"z", nullptr}});
  CHECK(server().ignored("/v1/completions", text).empty());
  CHECK(server().ignored("/v1/completions", more) == "tempreature, x");
  CHECK(server().text(more) == server().text(text));
  more["stream"] = true;
  more["stream_options"] = {{"chunks", 2}};
  CHECK(server().ignored("/v1/completions", more) == "stream_options.chunks, tempreature, x");
  CHECK(server().ignored("/tokenize", {{"content", "a"}, {"b", 1}}) == "b");
  CHECK(server().ignored("/v1/embeddings", {{"input", "a"}, {"b", 1}}) == "b");
  // Of many messages, a field is named at the first.
  const Fields messages = Fields::parse(
      R"([{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"id":1},
          {"role":"assistant","content":"b","id":2},
          {"role":"user","content":"c","opts":{"visible":false},"id":3}])");
  CHECK(server().ignored("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 1}}) ==
        "messages[0].content[0].cache_control, messages[0].id, messages[2].opts");
  CHECK(server().ignored("/apply-template", {{"messages", messages}, {"seed", 1}}) ==
        "messages[0].content[0].cache_control, messages[0].id, messages[2].opts, seed");
  // A refusal has it, too.
  const Reply refused =
      server().send("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1000}, {"x", 1}});
  CHECK(refused.status == 400);
  CHECK_THAT(refused.head, ContainsSubstring("X-Tapegrad-Ignored: x\r\n"));
}

TEST_CASE("names of fields cannot write a header, and are few and short", "[serve]") {
  const Fields odd = {{"prompt", "a"}, {"max_tokens", 1}, {"a\r\nSet-Cookie: b=c, d", 1}};
  CHECK(server().ignored("/v1/completions", odd) == "a??Set-Cookie:?b=c??d");
  const Fields foreign = {{"prompt", "a"}, {"max_tokens", 1}, {"\u00e9\u001b[1m", 1}};
  CHECK(server().ignored("/v1/completions", foreign) == "???[1m");
  const Fields longest = {{"prompt", "a"}, {"max_tokens", 1}, {std::string(1 << 20, 'x'), 1}};
  CHECK(server().ignored("/v1/completions", longest) == std::string(64, 'x') + "...");
  Fields many = {{"prompt", "a"}, {"max_tokens", 1}};
  for (int i = 0; i < 5000; ++i) many["f" + std::to_string(1000 + i)] = i;
  const std::string names = server().ignored("/v1/completions", many);
  CHECK(count(names, ", f") == 15);
  CHECK(names.ends_with(", ..."));
}

TEST_CASE("the log has a name of an ignored field once", "[serve]") {
  const std::string form = GENERATE("lines", "json");
  RunningServer logs({"--log", form});
  for (int i = 0; i < 3; ++i) {
    logs.ask_for("/tokenize", {{"content", "a"}, {"once\n", i}});
    logs.ask_for("/tokenize", {{"content", "a"}, {"again", i}});
  }
  for (int i = 0; i < 300; ++i) {
    logs.ask_for("/tokenize", {{"content", "a"}, {"f" + std::to_string(1000 + i), i}});
  }
  logs.program().send(SIGTERM);
  const std::string log = logs.program().wait().err;
  CHECK(count(log, "once?") == 1);
  CHECK(count(log, "again") == 1);
  CHECK(count(log, "f1253") == 1);  // with the two before, 256
  CHECK(count(log, "f1254") == 0);
  CHECK(count(log, form == "json" ? "\"ignored\":\"...\"" : "ignored: ..., ") == 1);
}

TEST_CASE("a strict server refuses the fields that it does not know", "[serve]") {
  const RunningServer strict({"--strict"});
  const auto refused = [&](const std::string& path, const Fields& body) {
    const Reply reply = strict.send(path, body);
    CHECK(reply.status == 400);
    const Fields error = Fields::parse(reply.body)["error"];
    CHECK(error["code"] == "unknown_parameter");
    return error["param"].get<std::string>();
  };
  CHECK(refused("/v1/completions", {{"prompt", "a"}, {"tempreature", 1}}) == "tempreature");
  CHECK(refused("/v1/chat/completions", chat_of({{"id", 1}})) == "id");
  CHECK(refused("/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", "a"}, {"opts", 1}}}}}) ==
        "messages[0].opts");
  CHECK(strict.ignored("/v1/completions", {{"prompt", "a"}, {"user", "me"}}).empty());
}

TEST_CASE("values that change nothing are taken without a word", "[serve]") {
  const char* of_chats[] = {
      R"({"parallel_tool_calls":false,"tool_choice":"auto","tools":[]})",
      R"({"tool_choice":"none","functions":[],"function_call":"none"})",
      R"({"store":true,"service_tier":"flex","verbosity":"medium","reasoning_effort":"none"})",
      R"({"prompt_cache_retention":"24h","prompt_cache_key":"k","safety_identifier":"s"})",
      R"({"modalities":["text"],"audio":null,"prediction":{"type":"content","content":"a"}})",
      R"({"stream":true,"stream_options":{"include_obfuscation":false,"include_usage":null}})",
      R"({"response_format":{"type":"text","json_schema":null},"web_search_options":null})",
      R"({"max_completion_tokens":-1,"max_tokens":null,"echo":false,"add_special_tokens":false})",
  };
  for (const char* more : of_chats) {
    CAPTURE(more);
    CHECK(server().ignored("/v1/chat/completions", chat_of(Fields::parse(more))).empty());
  }
  // What the page of llama.cpp, and clients of vLLM, send with each request.
  const char* of_texts[] = {
      R"({"cache_prompt":true,"id_slot":-1,"dynatemp_range":0,"dynatemp_exponent":1,"top_k":-1,
          "top_p":1,"min_p":0,"typical_p":1,"xtc_probability":0,"xtc_threshold":0.1,
          "repeat_last_n":64,"repeat_penalty":1,"presence_penalty":0,"frequency_penalty":0.0,
          "dry_multiplier":0,"dry_base":1.75,"dry_allowed_length":2,"dry_penalty_last_n":-1,
          "mirostat":0,"mirostat_tau":5,"mirostat_eta":0.1,"max_tokens":-1,"n_predict":-1,
          "grammar":"","lora":[],"seed":1,"top_n_sigma":-1})",
      R"({"best_of":1,"use_beam_search":false,"length_penalty":1.0,"stop_token_ids":[],
          "min_tokens":0,"skip_special_tokens":true,"include_stop_str_in_output":false,
          "repetition_penalty":1,"logit_bias":null,"guided_json":null,"bad_words":[],
          "guided_choice":null,"structured_outputs":null,"ignore_eos":false})",
  };
  for (const char* more : of_texts) {
    CAPTURE(more);
    Fields body = Fields::parse(more);
    CHECK(server().ignored("/v1/chat/completions", chat_of(body)).empty());
    body["prompt"] = "a";
    CHECK(server().ignored("/v1/completions", body).empty());
  }
}

TEST_CASE("a field that would change the text is refused, though nothing reads it", "[serve]") {
  const auto refused = [](const std::string& path, const Fields& body, const std::string& name) {
    const Reply reply = server().send(path, body);
    INFO(body.dump() << "\n" << reply.body);
    CHECK(reply.status == 400);
    const Fields error = Fields::parse(reply.body)["error"];
    CHECK(error["param"] == name);
    CHECK(error["code"] == "unsupported_parameter");
    CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("'" + name + "'"));
  };
  const Fields of_texts = Fields::parse(
      R"({"best_of":3,"use_beam_search":true,"repeat_penalty":1.1,"mirostat":2,"grammar":"root",
          "guided_choice":["a"],"bad_words":["a"],"json_schema":{},"xtc_probability":0.5,
          "guided_json":{},"allowed_token_ids":[],"dry_multiplier":0.8,"structured_outputs":{"choice":["a"]},"lora":[{"id":0,"scale":1}]})");
  for (const auto& [name, value] : of_texts.items()) {
    refused("/v1/completions", {{"prompt", "a"}, {name, value}}, name);
    refused("/v1/chat/completions", chat_of({{name, value}}), name);
  }
  refused("/v1/completions", {{"prompt", "a"}, {"suffix", "b"}}, "suffix");
  refused("/v1/completions", {{"prompt", "a"}, {"structured_outputs", Fields::object()}},
          "structured_outputs");
  for (const char* penalty : {"repetition_penalty", "presence_penalty", "frequency_penalty"}) {
    refused("/v1/completions", {{"prompt", "a"}, {"repeat_last_n", 64}, {penalty, 1.5}},
            "repeat_last_n");
  }
  const Fields of_chats = Fields::parse(
      R"({"audio":{"a":1},
          "functions":[{"name":"f"}],
          "modalities":["text","audio"],"web_search_options":{},"chat_template":"{{ 1 }}"})");
  for (const auto& [name, value] : of_chats.items()) {
    refused("/v1/chat/completions", chat_of({{name, value}}), name);
  }
}

TEST_CASE("the most tokens of a text have the names of other servers, too", "[serve]") {
  for (const char* name : {"n_predict", "max_new_tokens"}) {
    const Fields body = {{"prompt", "a"}, {"ignore_eos", true}, {name, 3}};
    CHECK(server().ask_for("/v1/completions", body)["usage"]["completion_tokens"] == 3);
    Fields both = body;
    both["max_tokens"] = 3;
    CHECK(server().ask_for("/v1/completions", both)["usage"]["completion_tokens"] == 3);
    both["max_tokens"] = 4;
    const Reply reply = server().send("/v1/completions", both);
    CHECK(reply.status == 400);
    CHECK(Fields::parse(reply.body)["error"]["param"] == "max_tokens");
  }
}

TEST_CASE("a variable of the template is no field to ignore", "[serve]") {
  const TinyChatModel model;
  model.folder.put("tiny-chat/tokenizer_config.json",
                   Fields{{"chat_template",
                           "{{ messages[0].content }}{{ messages[0].mood }}{% if thinks or "
                           "verbosity or user or documents %}?{% endif %}"}}
                       .dump());
  const RunningServer thinks({}, model.path);
  const Reply reply = thinks.send("/v1/chat/completions", chat_of({{"thinks", true}}));
  CHECK(reply.status == 400);
  CHECK(Fields::parse(reply.body)["error"]["param"] == "thinks");
  CHECK_THAT(reply.body, ContainsSubstring("chat_template_kwargs"));
  // A member of a message that the template reads is not ignored.
  Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}, {"mood", "b"}}}}};
  CHECK(thinks.ignored("/apply-template", body).empty());
  CHECK(thinks.ask_for("/apply-template", body)["prompt"] == "ab");
  // A part of a word that the template has is none.
  body["messages"][0]["moo"] = 1;
  CHECK(thinks.ignored("/apply-template", body) == "messages[0].moo");
  // Nor does a value change nothing that the template would read.
  const Reply refused = thinks.send("/v1/chat/completions", chat_of({{"user", "me"}}));
  CHECK(refused.status == 400);
  CHECK(Fields::parse(refused.body)["error"]["param"] == "user");
  CHECK(thinks.ignored("/v1/chat/completions", chat_of({{"documents", Fields::array()}})).empty());
}
