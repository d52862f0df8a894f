// Requests and templates that would hold up others, or have the server say what they say.

#include <signal.h>

#include "tapegrad/base/text/internal/cut_text.h"
#include "tapegrad/tests/apps/serve/running_server.h"

using namespace std::chrono_literals;

namespace {

const Fields kTalk = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};

struct TemplateModel : TinyChatModel {
  explicit TemplateModel(const std::string& source) {
    folder.put("tiny-chat/tokenizer_config.json", Fields{{"chat_template", source}}.dump());
  }
};

std::string message_of(const Reply& reply) {
  return Fields::parse(reply.body)["error"]["message"].get<std::string>();
}

}  // namespace

TEST_CASE("a server answers with a template that would never end", "[serve]") {
  const TemplateModel model(
      "{% set t = '1' * 100000000 %}{% for i in range(100000) %}{% set y = t|float %}{% endfor %}");
  RunningServer server({"--grace", "0"}, model.path);  // it is asked at the start, too
  const Reply reply = server.send("/apply-template", kTalk);
  CHECK(reply.status == 400);
  CHECK_THAT(message_of(reply), ContainsSubstring("steps"));
  CHECK(server.text({{"prompt", "a"}, {"max_tokens", 2}}).size() > 0);
  server.program().send(SIGTERM);
  CHECK(server.program().wait().code == 0);
}

TEST_CASE("what a client or a template says is quoted in part", "[serve]") {
  const TemplateModel model("{{ raise_exception('x' * 10000000) }}");
  const RunningServer server({"--strict"}, model.path);
  const std::string word(1 << 20, 'x');
  for (const Fields& body :
       {Fields{{"prompt", "a"}, {"model", word}}, Fields{{"prompt", "a"}, {word, 1}}}) {
    const Reply reply = server.send("/v1/completions", body);
    CHECK(reply.status >= 400);
    CHECK(message_of(reply).size() <= tapegrad::kMostQuoted);
    CHECK(reply.body.size() < 4096);
  }
  const Reply refused = server.send("/apply-template", kTalk);
  CHECK(refused.status == 400);
  CHECK_THAT(message_of(refused), ContainsSubstring("the model's template says: "));
  CHECK(refused.body.size() < 4096);
}

TEST_CASE("hosts, origins and types of contents are what they say", "[serve]") {
  const RunningServer server({"--allow-host", "my.example"});
  const std::string json = "Content-Type: application/json\r\n",
                    body = R"({"prompt":"a","max_tokens":1})";
  const auto status = [&](const std::string& host, const std::string& more) {
    return ask(server.port, "POST", "/v1/completions", more, body, host).status;
  };
  CHECK(status("MY.EXAMPLE", json) == 200);
  CHECK(status("my.example:80@evil.com", json) == 403);
  CHECK(status("localhost", json + "Host: localhost\r\n") == 400);
  CHECK(status("localhost", json + "Host: evil.com\r\n") == 400);
  CHECK(status("localhost", "Content-Type: application/jsonp\r\n") == 415);
  CHECK(status("localhost", "Content-Type: application/json; charset=utf-8\r\n") == 200);
  const auto models = [&](const std::string& more) {
    return ask(server.port, "GET", "/v1/models", more, "", "localhost").status;
  };
  CHECK(models("") == 200);
  CHECK(models("Origin: http://localhost\r\n") == 200);
  CHECK(models("Origin: http://evil.example\r\n") == 403);
  const Reply unknown = server.send("/v1/threads", {});
  CHECK(unknown.status == 404);
  CHECK(message_of(unknown) == "No endpoint POST /v1/threads; see docs/serving.md.");
}

TEST_CASE("the time of a request begins with its first byte", "[serve]") {
  const RunningServer server({"--max-time", "1"});
  const std::string body = R"({"content":"a"})";
  Browser slow(server.port);
  REQUIRE(
      slow.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                "application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n"));
  std::this_thread::sleep_for(1100ms);
  REQUIRE(slow.send(body));
  CHECK_THAT(slow.next_body(), ContainsSubstring("the answer was not complete after 1 s"));
}
