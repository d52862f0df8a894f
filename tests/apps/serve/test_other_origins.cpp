// Pages of other sites, which `serve --allow-origin` lets ask.

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const std::string kJson = "Content-Type: application/json\r\n",
                  kBody = R"({"prompt":"a","max_tokens":1})",
                  kAllows = "Access-Control-Allow-Origin: https://app.example\r\n";

Reply from(const RunningServer& server, const std::string& origin, const std::string& more = "",
           const std::string& body = kBody) {
  return ask(server.port, "POST", "/v1/completions", kJson + "Origin: " + origin + "\r\n" + more,
             body);
}

Reply preflight(const RunningServer& server, const std::string& origin,
                const std::string& path = "/v1/completions",
                const std::string& host = "localhost") {
  return ask(server.port, "OPTIONS", path,
             "Origin: " + origin +
                 "\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
                 "authorization,content-type,x-stainless-lang\r\n",
             "", host);
}

bool allows(const Reply& reply) { return (reply.head + "\r\n").find(kAllows) != std::string::npos; }

}  // namespace

TEST_CASE("pages of allowed sites are answered, with a key, in streams and in refusals",
          "[serve]") {
  TempFolder folder;
  const auto keys = folder.put("keys.txt", "key\n");
  const RunningServer server({"--allow-origin", "http://localhost:3000", "--allow-origin",
                              "https://app.example", "--api-key", keys});
  const std::string app = "https://app.example", key = "Authorization: Bearer key\r\n";
  const Reply asked_first = preflight(server, app);  // without a key, as browsers ask
  CHECK(asked_first.status == 204);
  CHECK(allows(asked_first));
  CHECK(asked_first.body.empty());
  CHECK_THAT(asked_first.head,
             ContainsSubstring("Access-Control-Allow-Methods: POST\r\n") &&
                 ContainsSubstring("Access-Control-Allow-Headers: Authorization, ") &&
                 ContainsSubstring("Vary: Origin") && !ContainsSubstring("Content-Length"));
  CHECK_THAT(preflight(server, app, "/v1/models").head,
             ContainsSubstring("Access-Control-Allow-Methods: GET\r\n"));
  const Reply answer = from(server, app, key);
  CHECK(answer.status == 200);
  CHECK(allows(answer));
  CHECK_THAT(answer.head, ContainsSubstring("Access-Control-Expose-Headers: X-Request-Id, "));
  const Reply stream = from(server, app, key, R"({"prompt":"a","max_tokens":1,"stream":true})");
  CHECK(allows(stream));
  CHECK_THAT(stream.body, ContainsSubstring("data: [DONE]"));
  CHECK_THAT(from(server, "http://localhost:3000", key).head,
             ContainsSubstring("Access-Control-Allow-Origin: http://localhost:3000\r\n"));
  // Whoever may ask may read why it is refused.
  CHECK(from(server, app).status == 401);
  CHECK(allows(from(server, app)));
  CHECK(allows(from(server, app, key, R"({"n":0})")));
  const Reply too_long = ask(server.port, "POST", "/v1/completions",
                             kJson + key + "Origin: " + app + "\r\nContent-Length: 99999999\r\n");
  CHECK(too_long.status == 413);
  CHECK(allows(too_long));
}

TEST_CASE("sites are allowed by all of their name, and no others with them", "[serve]") {
  const RunningServer server({"--allow-origin", "https://app.example"});
  for (const char* other :
       {"http://app.example", "https://app.example.evil", "https://app.example:8443", "null", "*",
        "https://APP.example", "https://evil.example/https://app.example"}) {
    CAPTURE(other);
    CHECK(from(server, other).status == 403);
    CHECK_THAT(from(server, other).head, !ContainsSubstring("Access-Control"));
    CHECK(preflight(server, other).status == 405);
  }
  // The server's own page needs no permission.
  CHECK(from(server, "http://localhost").status == 200);
  CHECK(preflight(server, "https://app.example", "/nowhere").status == 404);
  CHECK(preflight(server, "https://app.example", "/v1/models", "evil.example").status == 403);
}

TEST_CASE("without --allow-origin, no answer says that another site may read it", "[serve]") {
  const RunningServer server;
  CHECK(from(server, "https://app.example").status == 403);
  CHECK(preflight(server, "https://app.example").status == 405);
  CHECK_THAT(get(server.port, "/v1/models").head,
             !ContainsSubstring("Access-Control") && !ContainsSubstring("Vary"));
}

TEST_CASE("an origin that no browser sends is an error of the command line", "[serve]") {
  for (const char* wrong : {"*", "null", "app.example", "https://app.example/", "https://",
                            "https://app.example/page", "HTTPS://app.example", "https://a b",
                            "https://app.example:443", "https://app.example\r\nX: y"}) {
    CAPTURE(wrong);
    const Result result = run_program(
        "serve", {"--model", tiny_chat_model().path, "--port", "0", "--allow-origin", wrong});
    CHECK(result.code == 2);
    CHECK_THAT(result.err, ContainsSubstring("--allow-origin: "));
  }
}
