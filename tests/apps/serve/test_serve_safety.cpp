// `serve` among clients that are slow, broken, hostile, too many, or gone.

#include <signal.h>

#include <algorithm>

#include "tapegrad/tests/apps/serve/running_server.h"
#include "tapegrad/tests/places.h"

using namespace std::chrono_literals;

namespace {

const Fields kLong = {{"prompt", "once"}, {"max_tokens", 500}, {"ignore_eos", true}};

// A text of this model takes some 30 ms: who must meet a request at work asks for many of them.
Fields many_texts(int count) {
  Fields body = kLong;
  body["n"] = count;
  return body;
}

std::string request(const Fields& body, const std::string& path = "/v1/completions") {
  const std::string text = body.dump();
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
}

}  // namespace

TEST_CASE("a client that leaves frees its place, and others get their texts", "[serve]") {
  const RunningServer server({"--parallel", "1"});
  const std::string alone = sampled(
      "and", {"--seed", "1", "--max-new-tokens", "9", "--top-k", "404", "--temperature", "1"});
  int jobs = 0;
  for (const bool streams : {false, true}) {
    Fields body = many_texts(100);
    body["stream"] = streams;
    {
      Browser leaves(server.port);
      leaves.send(request(body));
      CHECK(server.comes_to("tapegrad_jobs_total", ++jobs));
      CHECK(server.comes_to("tapegrad_texts_running", 1));
    }
    CHECK(server.text({{"prompt", "and"}, {"seed", 1}, {"max_tokens", 9}}) == alone);
    ++jobs;
  }
  CHECK(server.comes_to("tapegrad_jobs_cancelled_total", 2));
  CHECK(server.comes_to("tapegrad_cache_positions", 0));
}

TEST_CASE("who finds the queue full is told when to ask again", "[serve]") {
  const RunningServer server({"--parallel", "1", "--max-waiting", "2"});
  // They come faster than texts begin, of which each takes the place of one that waits.
  std::vector<Browser> others;
  for (int i = 0; i < 100; ++i) {
    others.emplace_back(server.port);
    others.back().send(request(many_texts(100)));
  }
  const auto refused = std::find_if(others.rbegin(), others.rend(),
                                    [](Browser& other) { return other.gets("}}", 500ms); });
  REQUIRE(refused != others.rend());
  const Reply reply = reply_in(refused->text());
  CHECK(reply.status == 429);
  CHECK_THAT(reply.head, ContainsSubstring("Retry-After: "));
  CHECK(Fields::parse(reply.body)["error"]["code"] == "queue_full");
}

TEST_CASE("a request of many texts does not hold up the next one", "[serve]") {
  const RunningServer server({"--parallel", "2"});
  Browser many(server.port);
  many.send(request(many_texts(64)));
  REQUIRE(server.comes_to("tapegrad_texts_running", 2));
  server.text({{"prompt", "and"}, {"max_tokens", 3}});
  CHECK(server.metric("tapegrad_texts_running") == 2);
  CHECK_FALSE(many.receive(1ms));
}

TEST_CASE("with keys, only who has one is answered", "[serve]") {
  TempFolder folder;
  const auto keys = folder.put("keys.txt", "first-key\nsecond-key\r\n");
  const RunningServer server({"--api-key", keys});
  const Fields body = {{"prompt", "a"}, {"max_tokens", 1}};
  for (const char* right : {"Bearer first-key", "Bearer second-key"}) {
    CHECK(server.send("/v1/completions", body, std::string("Authorization: ") + right + "\r\n")
              .status == 200);
  }
  for (const char* wrong :
       {"", "Authorization: first-key\r\n", "Authorization: Bearer \r\n",
        "Authorization: Bearer first-key2\r\n", "Authorization: Bearer first-ke\r\n",
        "Authorization: Basic first-key\r\n"}) {
    CAPTURE(wrong);
    const Reply reply = server.send("/v1/completions", body, wrong);
    CHECK(reply.status == 401);
    CHECK(Fields::parse(reply.body)["error"]["code"] == "invalid_api_key");
  }
  CHECK(get(server.port, "/v1/models").status == 401);
  CHECK(get(server.port, "/metrics").status == 401);
  CHECK(get(server.port, "/health").status == 200);
  CHECK(get(server.port, "/").status == 200);
  // The key is wanted before a body is read.
  Browser waits(server.port);
  waits.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n");
  CHECK(waits.gets("401 Unauthorized", 5s));
}

TEST_CASE("a server that others can reach needs keys", "[serve]") {
  const Result result =
      run_program("serve", {"--model", tiny_chat_model().path, "--port", "0", "--host", "0.0.0.0"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, ContainsSubstring("--api-key"));
  const Result nowhere = run_program(
      "serve", {"--model", tiny_chat_model().path, "--port", "0", "--host", "example.org"});
  CHECK(nowhere.code == 2);
}

TEST_CASE("names of other sites, their pages and other kinds of requests are refused", "[serve]") {
  const RunningServer server({"--allow-host", "models.example"});
  const auto status = [&](const std::string& host, const std::string& more = "") {
    return ask(server.port, "POST", "/v1/completions", more, R"({"prompt":"a","max_tokens":1})",
               host)
        .status;
  };
  const std::string json = "Content-Type: application/json\r\n";
  CHECK(status("localhost", json) == 200);
  CHECK(status("127.0.0.1:1234", json) == 200);
  CHECK(status("models.example", json) == 200);
  CHECK(status("models.example:8080", json) == 200);
  CHECK(status("evil.example", json) == 403);
  CHECK(status("models.example.evil", json) == 403);
  CHECK(status("localhost", json + "Origin: http://evil.example\r\n") == 403);
  CHECK(status("localhost", json + "Origin: http://localhost\r\n") == 200);
  // The page behind a proxy that speaks TLS.
  CHECK(status("models.example", json + "Origin: https://models.example\r\n") == 200);
  CHECK(status("models.example", json + "Origin: https://evil.example\r\n") == 403);
  CHECK(status("models.example", json + "Origin: https://models.example.evil\r\n") == 403);
  CHECK(status("models.example", json + "Origin: null\r\n") == 403);
  CHECK(status("localhost", "Content-Type: text/plain\r\n") == 415);
  CHECK(status("localhost") == 415);
  CHECK(get(server.port, "/v1/completions").status == 405);
  CHECK(post(server.port, "/v1/models", "{}").status == 405);
  for (const char* path : {"/v1", "/v1/", "/v1/completions/", "/../etc/passwd", "/%2e%2e/x", "*",
                           "/index", "/v1/completions%00"}) {
    CAPTURE(path);
    CHECK(get(server.port, path).status == 404);
  }
}

TEST_CASE("requests that are too large, too deep or cut do no harm", "[serve]") {
  const RunningServer server({"--max-body", "1"});
  const Reply large = server.send("/v1/completions", {{"prompt", std::string(1 << 20, 'a')}});
  CHECK((large.status == 413 || large.status == 0));
  const Reply header = ask(server.port, "GET", "/health", "X: " + std::string(20000, 'x') + "\r\n");
  CHECK(header.status == 431);
  CHECK(post(server.port, "/v1/completions", std::string(100000, '[')).status == 400);
  const std::string whole = request({{"prompt", "a"}, {"max_tokens", 1}, {"stream", true}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Browser browser(server.port);
    browser.send(whole.substr(0, size));
    if (size % 2 == 0) browser.end_of_requests();
  }
  // Any byte may be broken.
  for (std::size_t place = 0; place < whole.size(); place += 3) {
    std::string broken = whole;
    broken[place] = static_cast<char>(broken[place] ^ 0x15);
    Browser browser(server.port);
    browser.send(broken);
    browser.end_of_requests();
    browser.receive(200ms);
  }
  CHECK(get(server.port, "/health").status == 200);
  CHECK(server.comes_to("tapegrad_texts_running", 0));
}

TEST_CASE("a thousand connections that say nothing leave room when they are gone", "[serve]") {
  const RunningServer server({"--max-connections", "50"});
  {
    std::vector<Browser> silent;
    for (int i = 0; i < 1000; ++i) {
      silent.emplace_back(server.port);
      if (i % 3 == 0) silent.back().send("POST /v1/comp");
    }
    const std::string busy = Browser(server.port).rest(2s);
    CHECK((busy.empty() || busy.starts_with("HTTP/1.1 503")));
  }
  std::this_thread::sleep_for(200ms);
  CHECK(server.text({{"prompt", "and"}, {"max_tokens", 3}}).size() < 100);
}

TEST_CASE("one address has no more connections than it may", "[serve]") {
  const RunningServer server({"--max-connections-per-address", "3"});
  std::vector<Browser> held;
  for (int i = 0; i < 3; ++i) held.emplace_back(server.port);
  // Each is known once it has been answered.
  for (Browser& one : held) {
    one.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK_THAT(one.next_body(), ContainsSubstring("ok"));
  }
  CHECK(get(server.port, "/health").status == 503);
  held.pop_back();
  bool again = false;
  for (int i = 0; i < 500 && !again; ++i) {
    again = get(server.port, "/health").status == 200;
    if (!again) std::this_thread::sleep_for(20ms);
  }
  CHECK(again);
}

TEST_CASE("a reader that does not read loses its stream, and nobody else's", "[serve]") {
  const RunningServer server({"--parallel", "2"});
  Browser slow(server.port, 1 << 10);
  Fields body = kLong;
  body["stream"] = true;
  body["logprobs"] = 20;
  slow.send(request(body));
  REQUIRE(server.comes_to("tapegrad_texts_running", 1));
  CHECK(server.text({{"prompt", "and"}, {"max_tokens", 3}}).size() < 100);
  CHECK(server.comes_to("tapegrad_texts_running", 0));
}

TEST_CASE("connections go on after answers", "[serve]") {
  const RunningServer server;
  Browser browser(server.port);
  const Fields body = {{"prompt", "once"}, {"max_tokens", 5}, {"seed", 1}};
  std::string first;
  for (int i = 0; i < 3; ++i) {
    browser.send(request(body));
    const Fields answer = Fields::parse(browser.next_body());
    const std::string text = answer["choices"][0]["text"].get<std::string>();
    if (i == 0) first = text;
    CHECK(text == first);
  }
}

TEST_CASE("curl may ask before it sends a long body", "[serve]") {
  const RunningServer server;
  const std::string body = Fields{{"prompt", "once"}, {"max_tokens", 5}}.dump();
  Browser browser(server.port);
  browser.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
      "application/json\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  REQUIRE(browser.gets("HTTP/1.1 100 Continue\r\n\r\n", 5s));
  browser.forget();
  browser.send(body);
  CHECK(reply_in(browser.rest()).status == 200);
}

TEST_CASE("SIGTERM lets running answers end, and the program ends with 0", "[serve]") {
  RunningServer server;
  Browser running(server.port), idle(server.port);
  Fields body = kLong;
  body["stream"] = true;
  running.send(request(body));
  REQUIRE(running.gets("data: ", 10s));
  server.program().send(SIGTERM);
  CHECK(running.gets("data: [DONE]", 60s));
  CHECK(server.program().ends_within(60s));
  const Result result = server.program().wait();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, ContainsSubstring("POST /v1/completions 200"));
}

TEST_CASE("after --grace, answers end with an error that says why", "[serve]") {
  for (const bool streams : {false, true}) {
    RunningServer server({"--grace", "0"});
    Fields body = many_texts(128);
    body["stream"] = streams;
    Browser running(server.port);
    running.send(request(body));
    REQUIRE(server.comes_to("tapegrad_texts_running", 16));
    server.program().send(SIGTERM);
    CHECK_THAT(running.rest(10s), ContainsSubstring("shutting_down"));
    CHECK(server.program().ends_within(60s));
    const Result result = server.program().wait();
    CHECK(result.code == 0);
    CHECK_THAT(result.err, ContainsSubstring("POST /v1/completions 503"));
  }
}

TEST_CASE("who announces many bodies takes the room of no one else", "[serve]") {
  const RunningServer server;
  const auto announces = [&](unsigned from) {
    Browser browser(server.port, 0, from);
    browser.send(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\nContent-Length: 4000000\r\n\r\n");
    browser.gets("\r\n\r\n", 15s);
    return browser;
  };
  std::vector<Browser> many;
  for (int i = 0; i < 16; ++i) {
    many.push_back(announces(1));
    CHECK(many.back().text().starts_with("HTTP/1.1 100"));
  }
  CHECK(announces(1).text().starts_with("HTTP/1.1 503"));
  CHECK(announces(2).text().starts_with("HTTP/1.1 100"));
  many.front().rest();
  CHECK(many.front().has_ended());
}

TEST_CASE("the log has no text unless it is asked for, and a full disk does not matter",
          "[serve]") {
  const Fields body = {{"prompt", "the secret word"}, {"max_tokens", 2}};
  for (const bool texts : {false, true}) {
    RunningServer server(texts ? Args{"--log", "json", "--log-texts"} : Args{"--log", "json"});
    server.text(body);
    CHECK(ask(server.port, "HEAD", "/health").status == 405);
    server.program().send(SIGTERM);
    const std::string log = server.program().wait().err;
    INFO(log);
    CHECK((log.find("secret") != log.npos) == texts);
    const Fields line = Fields::parse(log.substr(0, log.find('\n')));
    CHECK(line["path"] == "/v1/completions");
    CHECK(line["status"] == 200);
    CHECK(line["prompt_tokens"].get<int>() > 0);
    CHECK(line["completion_tokens"] == 2);
    const Fields head = Fields::parse(
        log.substr(log.find('\n') + 1, log.find('\n', log.find('\n') + 1) - log.find('\n')));
    CHECK((head["method"] == "HEAD" && head["path"] == "/health" && head["status"] == 405));
  }
  if (!std::filesystem::exists("/dev/full")) return;
  const std::string command = quoted_program("serve") + " --model " +
                              quoted(tiny_chat_model().path) + " --port 0 2>/dev/full";
  Program full("/bin/sh", {"-c", "exec " + command});
  full.wait_for("(Ctrl-C");
  const std::string out = full.out(), begin = "127.0.0.1:";
  const int port = std::stoi(out.substr(out.find(begin) + begin.size()));
  for (int i = 0; i < 3; ++i) {
    CHECK(post(port, "/v1/completions", body.dump()).status == 200);
  }
  full.send(SIGTERM);
  CHECK(full.wait().code == 0);
}
