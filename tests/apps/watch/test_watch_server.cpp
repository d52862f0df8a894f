// The server of the page, as browsers, broken browsers and hostile ones see it.

#include <atomic>
#include <new>
#include <thread>

#include "tapegrad/apps/watch/routes.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::watch;
using namespace std::chrono_literals;

namespace {

struct Served : WatchedRun {
  Server server{options()};
  int port = server.port();
  Served() { await_lines(port, 4); }
};

std::size_t open_files() {
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("the server has the page, the runs and their histories", "[watch]") {
  const Served served;
  CHECK(served.server.url() == "http://127.0.0.1:" + std::to_string(served.port) + "/");
  const Reply page = get(served.port, "/");
  CHECK(page.status == 200);
  CHECK_THAT(page.head, ContainsSubstring("Content-Type: text/html; charset=utf-8"));
  CHECK_THAT(page.head, ContainsSubstring("Content-Security-Policy: default-src 'self';"));
  CHECK_THAT(page.head, ContainsSubstring("X-Content-Type-Options: nosniff"));
  CHECK_THAT(page.body, ContainsSubstring("<html"));
  CHECK_THAT(get(served.port, "/page.css").head, ContainsSubstring("text/css"));
  CHECK_THAT(get(served.port, "/page.js?v=1").head, ContainsSubstring("text/javascript"));

  const Reply list = get(served.port, "/api/runs");
  CHECK_THAT(list.head, ContainsSubstring("Cache-Control: no-store"));
  const Json run = Json::parse(list.body)["runs"][0];
  CHECK(run["id"] == 0);
  CHECK(run["name"] == "run");
  CHECK(run["folder"] == served.run.string());
  CHECK(run["state"] == "stopped");
  CHECK(run["max_iters"] == 100);
  CHECK(run["options"]["model"]["n_layer"] == 4);
  const Json history = Json::parse(get(served.port, "/api/runs/0/history").body);
  CHECK(history["lines"] == 4);
  CHECK(history["samples"][0]["text"] == "h\u00e9llo\nworld");

  const Reply report = get(served.port, "/api/runs/0/report.html");
  CHECK_THAT(report.head, ContainsSubstring("Content-Type: text/html; charset=utf-8"));
  CHECK_THAT(report.head, ContainsSubstring("Content-Security-Policy: default-src 'none';"));
  CHECK_THAT(report.body, ContainsSubstring("<svg"));
}

TEST_CASE("there is no next port behind the last one", "[watch]") {
  const WatchedRun run;
  ServerOptions options = run.options();
  options.port = UINT16_MAX;
  std::unique_ptr<Server> first;
  try {
    first = std::make_unique<Server>(options);
  } catch (const Error&) {  // another program has it
  }
  CHECK_THROWS_WITH(Server(options), ContainsSubstring("port 65535 is taken"));
}

TEST_CASE("the server has nothing else", "[watch]") {
  const Served served;
  for (const char* path :
       {"/index", "/page", "/../etc/passwd", "/..%2fetc/passwd", "//page.js", "/api", "/api/",
        "/api/runs/", "/api/runs/1/history", "/api/runs/-1/history", "/api/runs/0", "/api/runs/0/",
        "/api/runs/99999999999999999999/history", "/api/runs/0x0/history",
        "/api/runs/0/config.json", "http://localhost/", "*", "/%00", "/run/metrics.jsonl"}) {
    CAPTURE(path);
    CHECK(get(served.port, path).status == 404);
  }
  for (const char* path : {"/", "/page.js", "/api/runs", "/api/events", "/api/runs/0/history"}) {
    for (const char* method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS", "FOO"}) {
      CAPTURE(path, method);
      const Reply reply = ask(served.port, method, path);
      CHECK((reply.status == 405 || (reply.status == 400 && method == std::string("FOO"))));
    }
  }
  CHECK(get(served.port, "/api/inspect").status == 405);
}

TEST_CASE("names of other sites are refused, and so are their pages", "[watch]") {
  const Served served;
  const auto status = [&](const std::string& host) {
    return ask(served.port, "GET", "/api/runs", "", "", host).status;
  };
  for (const char* host :
       {"localhost", "localhost:9", "127.0.0.1", "127.0.0.1:8265", "[::1]:1", "[::1]"}) {
    CAPTURE(host);
    CHECK(status(host) == 200);
  }
  for (const char* host : {"evil.example",
                           "localhost.evil.example",
                           "10.0.0.1",
                           "",
                           "127.0.0.1.x",
                           "[",
                           "[::1",
                           "[]",
                           "evil.example:8265",
                           "[::1]evil",
                           "[::1]evil:8265",
                           "[::1]:evil",
                           "[::1]8265",
                           "localhost:evil",
                           "localhost:",
                           "localhost:80:80",
                           "localhost:65536",
                           "localhost:-1",
                           "127.0.0.1:80@evil.example",
                           "::1"}) {
    CAPTURE(host);
    CHECK(status(host) == 403);
  }
  const std::string type = "Content-Type: application/json\r\n", body = R"({"run":0,"text":""})";
  const auto inspect = [&](const std::string& more) {
    return post(served.port, "/api/inspect", body, more).status;
  };
  CHECK(inspect(type + "Origin: http://evil.example\r\n") == 403);
  CHECK(inspect(type + "Origin: null\r\n") == 403);
  CHECK(inspect("Origin: http://localhost\r\nContent-Type: text/plain\r\n") == 415);
}

TEST_CASE("requests that are broken or too long get an answer and leave nothing", "[watch]") {
  const Served served;
  CHECK(ask(served.port, "GET", "/", "X: " + std::string(20'000, 'x') + "\r\n").status == 431);
  CHECK(ask(served.port, "GET", "/" + std::string(100'000, 'x')).status == 431);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "X" + std::to_string(i) + ": 1\r\n";
  CHECK(ask(served.port, "GET", "/", many).status == 431);
  CHECK(post(served.port, "/api/inspect", std::string(100'000, 'x')).status == 413);
  const auto raw = [&](const std::string& text, bool half_closed) {
    Browser browser(served.port);
    browser.send(text);
    if (half_closed) browser.end_of_requests();
    return reply_in(browser.rest()).status;
  };
  CHECK(raw("nonsense\r\n\r\n", false) == 400);
  CHECK(raw(std::string("\0\x16\x03\x01\r\n\r\n", 8), false) == 400);
  CHECK(raw("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", false) == 400);
  CHECK(raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", true) == 200);
  CHECK(raw("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", false) == 200);
  CHECK(raw("GET / HTTP/1.1\r\n\r\n", false) == 400);
  CHECK(raw("GET / HTTP/1.0\r\n\r\n", false) == 403);  // which may be another site's
  CHECK(raw("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" +
                std::string(100'000, 'x'),
            false) == 413);
  CHECK(raw("GET / HTT", true) == 0);
  CHECK(raw("", true) == 0);
  CHECK(get(served.port, "/").status == 200);
}

TEST_CASE("10,000 requests leave no file open", "[watch]") {
  const Served served;
  const std::size_t before = open_files();
  for (int connection = 0; connection < 100; ++connection) {
    Browser browser(served.port);
    for (int i = 0; i < 100; ++i) {
      if (!browser.send("GET /api/runs/0/history HTTP/1.1\r\nHost: localhost\r\n\r\n")) {
        FAIL("the connection ended");
      }
      if (browser.next_body().find("\"lines\":4") == std::string::npos) FAIL("no history");
    }
  }
  CHECK(get(served.port, "/").status == 200);
  for (int i = 0; i < 3000 && open_files() > before; ++i) ::usleep(20'000);
  CHECK(open_files() <= before);
}

TEST_CASE("requests one behind the other are answered in order", "[watch]") {
  const Served served;
  Browser browser(served.port);
  std::string all;
  for (const char* path : {"/api/runs/0/history", "/page.css", "/api/runs"}) {
    all += std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  browser.send(all);
  CHECK_THAT(browser.next_body(), ContainsSubstring("\"lines\":4"));
  CHECK_FALSE(browser.next_body().empty());
  CHECK_THAT(browser.next_body(), ContainsSubstring("\"version\""));
}

TEST_CASE("a new line reaches open pages", "[watch]") {
  const Served served;
  Browser one = open_events(served.port), other = open_events(served.port);
  served.add("{\"iteration\":20,\"loss\":3}\n");
  const std::string event =
      "event: metrics\ndata: {\"run\":0,\"line\":4,\"values\":{\"iteration\":20,\"loss\":3}}\n\n";
  CHECK(one.gets(event, 60s));
  CHECK(other.gets(event, 60s));
  served.add("{\"iteration\":20,\"layers\":{\"h\":{\"weight\":1}}}\n", "layers.jsonl");
  CHECK(
      one.gets("event: layers\ndata: {\"run\":0,\"line\":0,\"values\":{\"iteration\":20,"
               "\"layers\":{\"h\":{\"weight\":1}}}}\n\n",
               10s));
  CHECK(one.gets(": still here\n\n", 60s));
}

TEST_CASE("open pages hear of a file that is cut, of new runs and of states", "[watch]") {
  const Served served;
  Browser page = open_events(served.port);
  page.forget();
  served.folder.put("run/metrics.jsonl", "{\"iteration\":0,\"loss\":5}\n");
  CHECK(page.gets("event: reset\ndata: {\"run\":0}\n\n", 60s));
  CHECK(page.text().find("event: metrics") == std::string::npos);
  page.forget();
  served.make("second");
  CHECK(page.gets("event: runs\ndata: {}\n\n", 60s));
  CHECK(Json::parse(get(served.port, "/api/runs").body)["runs"].size() == 2);
  await_lines(served.port, 4, 1);
  page.forget();
  served.add("{\"iteration\":100,\"val_loss\":2}\n");
  CHECK(page.gets("event: runs\n", 60s));
}

TEST_CASE("so many pages at once, and so many connections", "[watch]") {
  const Served served;
  std::vector<Browser> pages;
  for (int i = 0; i < 32; ++i) pages.push_back(open_events(served.port));
  CHECK(get(served.port, "/api/events").status == 503);
  CHECK(get(served.port, "/api/runs").status == 200);
  pages.pop_back();
  bool free = false;
  for (int i = 0; i < 100 && !free; ++i) {
    Browser page(served.port);
    page.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    free = page.gets("HTTP/1.1 200", 100ms);
  }
  CHECK(free);
  std::vector<Browser> idle;
  for (int i = 0; i < 150; ++i) idle.emplace_back(served.port);
  CHECK_THAT(idle.back().rest(), ContainsSubstring("503 Service Unavailable"));
  served.add("{\"iteration\":20,\"loss\":3}\n");
  CHECK(pages.front().gets("\"line\":4", 60s));
}

TEST_CASE("answers that nobody takes have a bound together, and cost others none", "[watch]") {
  const WatchedRun watched;
  const std::string text(16'000, 'x');
  for (int i = 0; i < 190; ++i) {  // as many as a history keeps
    watched.add("{\"iteration\":" + std::to_string(i) + ",\"sample\":\"" + text + "\"}\n");
  }
  ServerOptions options = watched.options();
  options.patience = 600s;
  const Server server(options);
  const std::string path = "/api/runs/0/history";
  const auto wait = [&](const auto& until) {
    for (int i = 0; i < 1200 && !until(); ++i) ::usleep(100'000);
    REQUIRE(until());
  };
  wait([&] { return get(server.port(), path).body.size() > 3'000'000; });
  const auto begun = [&](Browser browser) {
    browser.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    REQUIRE(browser.gets("\r\n\r\n", 60s));
    CHECK(browser.text().starts_with("HTTP/1.1 200"));
    return browser;
  };
  Browser other = begun(Browser(server.port(), 4096, 2));
  std::vector<Browser> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(begun(Browser(server.port(), 4096)));
  // The first ones have made room.
  slow.front().rest(60s);
  CHECK(slow.front().has_ended());
  CHECK(reply_in(slow.front().text()).body.size() < 3'000'000);
  CHECK(get(server.port(), path).body.size() > 3'000'000);
  CHECK(reply_in(other.rest(60s)).body.size() > 3'000'000);
}

TEST_CASE("the server ends at once, whoever is connected", "[watch]") {
  const WatchedRun watched;
  ServerOptions options = watched.options();
  options.patience = 3600s;
  auto server = std::make_unique<Server>(options);
  Browser page = open_events(server->port()), idle(server->port());
  server.reset();  // waits for nobody's patience
  for (Browser* browser : {&page, &idle}) {
    browser->rest();
    CHECK(browser->has_ended());
  }
}

TEST_CASE("what fails in the server's thread ends the page, not the program", "[watch]") {
  const WatchedRun watched;
  ServerOptions options = watched.options();
  std::atomic<bool> fails = false;
  options.at_each_read = [&] {
    if (fails) throw std::bad_alloc();
  };
  Server server(options);
  Browser page = open_events(server.port());
  fails = true;
  page.rest();
  CHECK(page.has_ended());
  CHECK_THROWS(Browser(server.port()));
  server.finish();
}

TEST_CASE("open pages get the last lines and the state of a run that ends", "[watch]") {
  const WatchedRun watched;
  const int lock = run::lock_folder(watched.run, "training");
  ServerOptions options = watched.options();
  options.patience = 60s;
  Server server(options);
  await_lines(server.port(), 4);
  Browser page = open_events(server.port());
  CHECK(Json::parse(get(server.port(), "/api/runs").body)["runs"][0]["state"] == "training");
  page.forget();
  watched.add("{\"iteration\":100,\"val_loss\":2}\n");
  std::thread ends([&] { server.finish(); });
  CHECK(page.gets("event: metrics\ndata: {\"run\":0,\"line\":4", 60s));
  CHECK(page.gets("event: runs\n", 60s));
  CHECK(Json::parse(get(server.port(), "/api/runs").body)["runs"][0]["state"] == "ended");
  ends.join();
  ::close(lock);
}

TEST_CASE("a port that is taken is told, and the next one is found", "[watch]") {
  const Served served;
  ServerOptions options = served.options();
  options.port = served.port;
  options.or_next_port = false;
  CHECK_THROWS_WITH(Server(options), ContainsSubstring("is taken"));
  options.or_next_port = true;
  const Server next(options);
  CHECK(next.port() > served.port);
  CHECK(next.port() <= served.port + 20);
  REQUIRE(next.notes().size() == 1);
  CHECK_THAT(next.notes()[0], ContainsSubstring(std::to_string(served.port) + " is taken"));
  CHECK(get(next.port(), "/api/runs").status == 200);
}

TEST_CASE("a server for others says so; an address that is none is an error", "[watch]") {
  const WatchedRun watched;
  ServerOptions options = watched.options();
  options.host = "0.0.0.0";
  const Server server(options);
  REQUIRE(server.notes().size() == 2);
  CHECK_THAT(server.notes()[1], ContainsSubstring("this computer's address"));
  CHECK_THAT(server.notes()[0], ContainsSubstring("everybody who reaches 0.0.0.0"));
  CHECK(ask(server.port(), "GET", "/", "", "", "10.0.0.1:8265").status == 200);
  CHECK(ask(server.port(), "GET", "/", "", "", "evil.example").status == 403);
  for (const char* host : {"nonsense", "", "8.8.8.8"}) {
    CAPTURE(host);
    options.host = host;
    CHECK_THROWS_AS(Server(options), Error);
  }
}
