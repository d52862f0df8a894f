// Other answers of `serve`.

#include <cmath>
#include <cstring>

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

const Fields kTalk = {{{"role", "system"}, {"content", "be brief"}},
                      {{"role", "user"}, {"content", "hello"}}};

std::string bytes_of_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a chat goes through the model's template", "[serve]") {
  const std::string prompt =
      server().ask_for("/apply-template", {{"messages", kTalk}})["prompt"].get<std::string>();
  CHECK(prompt == "[system] be brief\n[user] hello\n[assistant]");
  CHECK(server().ask_for("/apply-template",
                         {{"messages", kTalk}, {"add_generation_prompt", false}})["prompt"] ==
        "[system] be brief\n[user] hello\n");
  const Fields body = {{"messages", kTalk}, {"seed", 4}, {"max_tokens", 20}, {"top_k", 40}};
  const Fields answer = server().ask_for("/v1/chat/completions", body);
  CHECK(answer["object"] == "chat.completion");
  CHECK(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  const Fields& choice = answer["choices"][0];
  CHECK(choice["message"]["role"] == "assistant");
  CHECK(choice["message"]["content"] ==
        server().text({{"prompt", prompt}, {"seed", 4}, {"max_tokens", 20}, {"top_k", 40}}));
  CHECK(choice["finish_reason"] == "length");
  // Parts of texts are one text.
  Fields parts = body;
  parts["messages"][1]["content"] = {{{"type", "text"}, {"text", "hel"}},
                                     {{"type", "text"}, {"text", "lo"}}};
  CHECK(server().ask_for("/v1/chat/completions", parts)["choices"] == answer["choices"]);
}

TEST_CASE("a chat ends where the template ends an answer, though the model names another end",
          "[serve]") {
  const TinyChatModel model;
  Fields tokenizer = Fields::parse(TempFolder::get(model.path / "tokenizer.json"));
  for (Fields& token : tokenizer["added_tokens"]) token["special"] = true;
  model.folder.put("tiny-chat/tokenizer.json", tokenizer.dump());
  model.folder.put("tiny-chat/tokenizer_config.json",
                   Fields{{"chat_template",
                           "{% for m in messages %}[{{ m.role }}] {{ m.content }}<tool>\n"
                           "{% endfor %}"}}
                       .dump());
  const RunningServer server({}, model.path);
  Fields body = {{"messages", kTalk}, {"max_tokens", 3}, {"logit_bias", {{"400", 100}}}};
  const Fields choice = server.ask_for("/v1/chat/completions", body)["choices"][0];
  CHECK(choice["finish_reason"] == "stop");
  CHECK(choice["message"]["content"] == "");
  body["ignore_eos"] = true;
  CHECK(server.ask_for("/v1/chat/completions", body)["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("keys and values may be stored shorter, as sample-text has it", "[serve]") {
  for (const char* type : {"f16", "f32"}) {
    const RunningServer server({"--cache", type});
    CHECK(server.text({{"prompt", "once upon"}, {"temperature", 0}, {"max_tokens", 40}}) ==
          sampled("once upon", {"--greedy", "--max-new-tokens", "40", "--cache", type}));
  }
}

TEST_CASE("a template that works too long on one request is refused, and others are answered",
          "[serve]") {
  const TinyChatModel model;
  model.folder.put("tiny-chat/tokenizer_config.json",
                   Fields{{"chat_template",
                           "{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}"
                           "{% endfor %}"}}
                       .dump());
  const RunningServer server({}, model.path);
  const Reply reply = server.send("/v1/chat/completions", {{"messages", kTalk}});
  CHECK(reply.status == 400);
  CHECK(Fields::parse(reply.body)["error"]["code"] == "template_error");
}

TEST_CASE("a text of more bytes than the context's tokens can have is refused at once", "[serve]") {
  const Reply reply = server().send("/v1/completions", {{"prompt", std::string(1 << 20, 'a')}});
  CHECK(reply.status == 400);
  const Fields error = Fields::parse(reply.body)["error"];
  CHECK(error["code"] == "context_length_exceeded");
  CHECK(error["message"] == "'prompt' has 1048576 bytes, which are more than 512 tokens");
  CHECK(server().send("/tokenize", {{"content", std::string((1 << 20) + 1, 'a')}}).status == 400);
}

TEST_CASE("a chat streams its role first, then pieces, then why it ended", "[serve]") {
  const Fields body = {
      {"messages", kTalk}, {"seed", 4},         {"max_completion_tokens", 30},
      {"logprobs", true},  {"top_logprobs", 2}, {"stream_options", {{"include_usage", true}}}};
  Fields at_once = body;
  at_once.erase("stream_options");
  const Fields whole = server().ask_for("/v1/chat/completions", at_once);
  const auto events = server().events("/v1/chat/completions", body);
  REQUIRE(events.size() > 5);
  CHECK(events[0]["object"] == "chat.completion.chunk");
  CHECK(events[0]["choices"][0]["delta"] == Fields{{"role", "assistant"}, {"content", ""}});
  std::string text;
  Fields tokens = Fields::array();
  for (std::size_t i = 1; i + 2 < events.size(); ++i) {
    const Fields& choice = events[i]["choices"][0];
    CHECK(choice["finish_reason"].is_null());
    text += choice["delta"]["content"].get<std::string>();
    for (const auto& token : choice["logprobs"]["content"]) tokens.push_back(token);
  }
  CHECK(text == whole["choices"][0]["message"]["content"]);
  CHECK(tokens == whole["choices"][0]["logprobs"]["content"]);
  CHECK(events[events.size() - 2]["choices"][0]["delta"] == Fields::object());
  CHECK(events[events.size() - 2]["choices"][0]["finish_reason"] == "length");
  CHECK(events.back()["choices"] == Fields::array());
  CHECK(events.back()["usage"]["completion_tokens"] == 30);
  // The bytes of all tokens are the text.
  std::string bytes;
  for (const auto& token : tokens) {
    for (const int byte : token["bytes"]) bytes += static_cast<char>(byte);
    CHECK(token["top_logprobs"].size() == 2);
  }
  if (text.find("\xEF\xBF\xBD") == text.npos) CHECK(bytes == text);
}

TEST_CASE("answers are JSON if a request asks for it, and fit its schema", "[serve]") {
  const Fields object = {{"type", "json_object"}};
  const Fields schema = {{"type", "json_schema"},
                         {"json_schema",
                          {{"name", "pet"},
                           {"strict", true},
                           {"schema",
                            {{"type", "object"},
                             {"properties",
                              {{"kind", {{"enum", {"cat", "dog"}}}},
                               {"legs", {{"type", "integer"}, {"maximum", 9}, {"minimum", 0}}}}},
                             {"required", {"kind", "legs"}},
                             {"additionalProperties", false}}}}}};
  for (int seed = 0; seed < 5; ++seed) {
    const Fields answer = server().ask_for(
        "/v1/chat/completions",
        {{"messages", kTalk}, {"seed", seed}, {"response_format", schema}, {"max_tokens", 200}});
    const std::string text = answer["choices"][0]["message"]["content"].get<std::string>();
    INFO(text);
    REQUIRE(answer["choices"][0]["finish_reason"] == "stop");
    const Fields pet = Fields::parse(text);
    CHECK((pet["kind"] == "cat" || pet["kind"] == "dog"));
    CHECK(pet["legs"].get<int>() <= 9);
    CHECK(pet.size() == 2);
  }
  const Fields any = server().ask_for(
      "/v1/completions",
      {{"prompt", "x"}, {"temperature", 0}, {"response_format", object}, {"max_tokens", 400}});
  CHECK(any["choices"][0]["text"].get<std::string>().starts_with("{"));
  if (any["choices"][0]["finish_reason"] == "stop") {
    CHECK(Fields::parse(any["choices"][0]["text"].get<std::string>()).is_object());
  }
}

TEST_CASE("embeddings have length 1, as numbers or as base64", "[serve]") {
  const Fields list = server().ask_for("/v1/embeddings", {{"input", {"once upon", "a time"}}});
  CHECK(list["pooling"] == "mean");
  CHECK(list["normalized"] == true);
  REQUIRE(list["data"].size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(list["data"][i]["index"] == i);
    double squares = 0;
    for (const double x : list["data"][i]["embedding"]) squares += x * x;
    CHECK(std::abs(squares - 1) < 1e-5);
  }
  const auto tokens = server().ask_for("/tokenize", {{"content", "once upon"}})["tokens"];
  const Fields one = server().ask_for("/v1/embeddings", {{"input", tokens}});
  CHECK(one["data"][0]["embedding"] == list["data"][0]["embedding"]);
  CHECK(one["usage"]["prompt_tokens"] == tokens.size());
  const Fields coded =
      server().ask_for("/v1/embeddings", {{"input", "once upon"}, {"encoding_format", "base64"}});
  const std::string bytes = bytes_of_base64(coded["data"][0]["embedding"].get<std::string>());
  REQUIRE(bytes.size() == 16 * sizeof(float));
  for (std::size_t i = 0; i < 16; ++i) {
    float x;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    CHECK(x == one["data"][0]["embedding"][i].get<float>());
  }
  // The last state of a text of one token is its mean.
  const auto pooled = [&](const Fields& input, const char* pooling) {
    return server().ask_for("/v1/embeddings", {{"input", input}, {"pooling", pooling}})["data"];
  };
  CHECK(pooled({5}, "last") == pooled({5}, "mean"));
  CHECK(pooled({5, 6}, "last") != pooled({5, 6}, "mean"));
}

TEST_CASE("texts become tokens and back", "[serve]") {
  const std::string text = "h\u00e9llo <tool> world";
  const auto tokens = server().ask_for("/tokenize", {{"content", text}})["tokens"];
  CHECK(server().ask_for("/detokenize", {{"tokens", tokens}})["content"] == text);
  const auto pieces =
      server().ask_for("/tokenize", {{"content", text}, {"with_pieces", true}})["tokens"];
  REQUIRE(pieces.size() == tokens.size());
  CHECK(pieces[0]["id"] == tokens[0]);
  // A token of 13 bytes takes four in the request.
  const int end = server().ask_for("/tokenize", {{"content", "<|endoftext|>"}})["tokens"][0];
  const Reply large =
      server().send("/detokenize", {{"tokens", std::vector<int>((4 << 20) / 13 + 1, end)}});
  CHECK(large.status == 400);
  CHECK_THAT(large.body, ContainsSubstring("4194304 are the most"));
  const auto special = [&](bool parse) {
    return server()
        .ask_for("/tokenize", {{"content", "<|endoftext|>"}, {"parse_special", parse}})["tokens"]
        .size();
  };
  CHECK(special(true) == 1);
  CHECK(special(false) > 1);
}

TEST_CASE("the server tells which model it has, how it is, and what it does", "[serve]") {
  const int port = server().port;
  const Fields models = Fields::parse(get(port, "/v1/models").body);
  CHECK(models["data"][0]["id"] == "tiny-chat");
  CHECK(models["data"][0]["meta"]["n_ctx"] == 512);
  CHECK(get(port, "/v1/models/tiny-chat").status == 200);
  CHECK(get(port, "/v1/models/other").status == 404);
  CHECK(Fields::parse(get(port, "/health").body)["status"] == "ok");
  CHECK_THAT(get(port, "/metrics").head, ContainsSubstring("text/plain; version=0.0.4"));
  const double before = server().metric("tapegrad_jobs_total");
  server().text({{"prompt", "x"}, {"max_tokens", 2}});
  CHECK(server().metric("tapegrad_jobs_total") == before + 1);
  CHECK_THAT(get(port, "/").head, ContainsSubstring("text/html"));
}

TEST_CASE("a model without a template continues texts alone", "[serve]") {
  TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Result trained = run_program("train-gpt", tiny_run(corpus, folder / "run", 20));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const RunningServer plain({}, folder / "run");
  const Reply reply = plain.send("/v1/chat/completions", {{"messages", kTalk}});
  CHECK(reply.status == 400);
  CHECK(Fields::parse(reply.body)["error"]["code"] == "no_chat_template");
  CHECK(plain.text({{"prompt", "the cat"}, {"seed", 9}, {"max_tokens", 9}, {"top_k", 9}}) ==
        sampled("the cat",
                {"--seed", "9", "--max-new-tokens", "9", "--temperature", "1", "--top-k", "9"},
                folder / "run"));
  // A character that its tokenizer does not have.
  const Reply strange = plain.send("/v1/completions", {{"prompt", "\u4e2d"}});
  CHECK(strange.status == 400);
  CHECK(Fields::parse(strange.body)["error"]["param"] == "prompt");
}
