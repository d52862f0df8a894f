// Answers that go on with what a last message of the assistant begins.

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

Fields begun(const std::string& content, const Fields& more) {
  Fields body = {
      {"messages",
       {{{"role", "user"}, {"content", "hello"}}, {{"role", "assistant"}, {"content", content}}}}};
  body.update(more);
  return body;
}

const Fields kDraws = {{"seed", 4}, {"max_tokens", 12}, {"top_k", 40}};

Fields drawn(Fields body) {
  body.update(kDraws);
  return server().ask_for("/v1/chat/completions", body)["choices"][0];
}

Fields error_of(const Fields& body, const std::string& path = "/v1/chat/completions") {
  const Reply reply = server().send(path, body);
  INFO(body.dump() << "\n" << reply.body);
  CHECK(reply.status == 400);
  return Fields::parse(reply.body)["error"];
}

}  // namespace

TEST_CASE("a last message of the assistant goes on, and its text is not repeated", "[serve]") {
  const Fields body = begun("Well, ", {{"continue_final_message", true}});
  const std::string prompt = server().ask_for("/apply-template", body)["prompt"];
  CHECK(prompt == "[user] hello\n[assistant] Well, ");
  Fields text = kDraws;
  text["prompt"] = prompt;
  const Fields choice = drawn(body);
  CHECK(choice["message"]["content"] == server().text(text));
  // The same where no beginning of an answer is wanted, unless a request says otherwise.
  CHECK(drawn(begun("Well, ", {{"add_generation_prompt", false}})) == choice);
  const auto rendered = [](const Fields& more) {
    return server().ask_for("/apply-template", begun("Well, ", more))["prompt"];
  };
  CHECK(rendered({{"add_generation_prompt", false}}) == "[user] hello\n[assistant] Well, \n");
  CHECK(drawn(begun("Well, ", {{"add_generation_prompt", false},
                               {"continue_final_message", false}})) != choice);
  CHECK(rendered(Fields::object()) == "[user] hello\n[assistant] Well, \n[assistant]");
  Fields streamed = body;
  streamed.update(kDraws);
  std::string pieces;
  for (const Fields& event : server().events("/v1/chat/completions", streamed)) {
    pieces += event["choices"][0]["delta"].value("content", "");
  }
  CHECK(pieces == choice["message"]["content"]);
}

TEST_CASE("an answer that goes on repeats its beginning if it is asked to", "[serve]") {
  const Fields body =
      begun("Well, ", {{"continue_final_message", true}, {"logprobs", true}, {"top_logprobs", 1}});
  const Fields choice = drawn(body);
  Fields with_echo = body;
  with_echo["echo"] = true;
  const Fields echoed = drawn(with_echo);
  CHECK(echoed["message"]["content"] == "Well, " + choice["message"]["content"].get<std::string>());
  CHECK(echoed["logprobs"] == choice["logprobs"]);
  Fields streamed = with_echo;
  streamed.update(kDraws);
  std::string pieces;
  for (const Fields& event : server().events("/v1/chat/completions", streamed)) {
    pieces += event["choices"][0]["delta"].value("content", "");
  }
  CHECK(pieces == echoed["message"]["content"]);
  with_echo.erase("continue_final_message");
  CHECK(error_of(with_echo)["param"] == "echo");
}

TEST_CASE("a template's end of a turn is left out where an answer goes on", "[serve]") {
  const TinyChatModel model;
  model.folder.put("tiny-chat/tokenizer_config.json",
                   Fields{{"chat_template",
                           "{% for m in messages %}<s>{{ m.role }}\n{{ m.content | trim }}"
                           "<|endoftext|>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"}}
                       .dump());
  const RunningServer closes({}, model.path);
  const auto prompt = [&](const std::string& content) {
    return closes.ask_for("/apply-template",
                          begun(content, {{"continue_final_message", true}}))["prompt"];
  };
  CHECK(prompt("Well, ") == "<s>user\nhello<|endoftext|><s>assistant\nWell,");
  CHECK(prompt("hello") == "<s>user\nhello<|endoftext|><s>assistant\nhello");
  CHECK(prompt("") == "<s>user\nhello<|endoftext|><s>assistant\n");
  CHECK(prompt(" \n") == "<s>user\nhello<|endoftext|><s>assistant\n");
  // What is repeated is what the model has read.
  const auto made = [&](const std::string& content, bool echo) {
    Fields body = begun(content, {{"continue_final_message", true}, {"echo", echo}});
    body.update(kDraws);
    const Fields answer = closes.ask_for("/v1/chat/completions", body);
    return answer["choices"][0]["message"]["content"].get<std::string>();
  };
  CHECK(made("Well, ", true) == "Well," + made("Well,", false));
}

TEST_CASE("a last message that cannot go on ends if nobody asked for more", "[serve]") {
  const TinyChatModel model;
  const std::string source = GENERATE(
      "{% for m in messages %}{{ m.content }}{{ m.content }}{{ m.tool_calls }}{% endfor %}",
      "{% for m in messages %}{{ m | tojson }}{{ m.tool_calls }}{% endfor %}");
  model.folder.put("tiny-chat/tokenizer_config.json", Fields{{"chat_template", source}}.dump());
  const RunningServer shows({}, model.path);
  const auto made = [&](Fields body) {
    body.update(kDraws);
    return shows.ask_for("/v1/chat/completions", body)["choices"];
  };
  const Fields none = {{"add_generation_prompt", false}};
  Fields ends = none, calls = begun("a", none);
  ends["continue_final_message"] = false;
  CHECK(made(begun("a \"b\"", none)) == made(begun("a \"b\"", ends)));
  calls["messages"][1]["tool_calls"] = {{{"function", {{"name", "f"}}}}};
  made(calls);
}

TEST_CASE("what cannot go on is refused by its name", "[serve]") {
  const Fields on = {{"continue_final_message", true}};
  Fields of_user = {{"messages", {{{"role", "user"}, {"content", "a"}}}}};
  of_user.update(on);
  CHECK(error_of(of_user)["param"] == "continue_final_message");
  CHECK(error_of(of_user, "/apply-template")["param"] == "continue_final_message");
  Fields both = begun("a", on);
  both["add_generation_prompt"] = true;
  CHECK_THAT(error_of(both)["message"].get<std::string>(),
             ContainsSubstring("excludes 'add_generation_prompt': true"));
  Fields typed = begun("a", {{"continue_final_message", "yes"}});
  CHECK(error_of(typed)["code"] == "invalid_type");
  Fields formed = begun("a", on);
  formed["response_format"] = {{"type", "json_object"}};
  CHECK(error_of(formed)["param"] == "response_format");
  formed.erase("continue_final_message");
  formed.update({{"add_generation_prompt", false}, {"max_tokens", 4}});
  server().ask_for("/v1/chat/completions", formed);
  // A message that is no text, or of the user, begins nothing by itself.
  of_user.erase("continue_final_message");
  of_user["add_generation_prompt"] = false;
  CHECK(server().ask_for("/apply-template", of_user)["prompt"] == "[user] a\n");
}

TEST_CASE("an answer with calls does not go on", "[serve]") {
  const TinyChatModel model;
  model.folder.put("tiny-chat/tokenizer_config.json",
                   Fields{{"chat_template",
                           "{% for m in messages %}{{ m.content }}{{ m.tool_calls }}{% endfor %}"}}
                       .dump());
  const RunningServer calls({}, model.path);
  const Fields body = {{"messages",
                        {{{"role", "assistant"},
                          {"content", "a"},
                          {"tool_calls", {{{"function", {{"name", "f"}}}}}}}}},
                       {"continue_final_message", true}};
  const Reply reply = calls.send("/v1/chat/completions", body);
  CHECK(reply.status == 400);
  CHECK_THAT(reply.body, ContainsSubstring("'continue_final_message' excludes a last message"));
}
