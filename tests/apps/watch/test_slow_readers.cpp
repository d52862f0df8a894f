// When the page's server drops who is slow. Its patience is long beside what a busy computer keeps
// it from: who reads is never late.

#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace std::chrono_literals;

TEST_CASE("who sends slowly, or does not read, is dropped", "[watch]") {
  const WatchedRun watched;
  watch::ServerOptions options = watched.options();
  options.patience = 8s;
  const watch::Server server(options);
  const int port = server.port();
  Browser slow(port), silent(port);
  Browser deaf = open_events(port, 4096), page = open_events(port);
  slow.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
  // The page gets each line that comes while no more than a read's bytes wait for the server: what
  // is added before it has the last one is less.
  const auto reaches_page = [&](const std::string& name) {
    watched.add("{\"iteration\":20,\"sample\":\"" + name + "\"}\n");
    return page.gets(name, 300s);
  };
  const std::string text(14'000, 'x');
  for (int second = 0; second < 16; ++second) {
    for (int i = 0; i < 50; ++i) {
      watched.add("{\"iteration\":20,\"sample\":\"" + text + "\"}\n");
    }
    slow.send("x");  // an option of the header that never ends
    REQUIRE(reaches_page("second " + std::to_string(second) + " is over"));
    page.gets("nothing has this text", 1s);
    page.forget();
  }
  CHECK(slow.rest(60s).empty());
  CHECK(slow.has_ended());
  CHECK(silent.rest(60s).empty());
  CHECK(silent.has_ended());
  // However late the server is: once the page has a line, what the deaf one does not read is there
  // for it, and once the page has a line of more than the patience later, the server has seen it.
  REQUIRE(reaches_page("all of it"));
  page.gets("nothing has this text", *options.patience + 1s);
  REQUIRE(reaches_page("later"));
  REQUIRE(reaches_page("last"));
  CHECK_FALSE(page.has_ended());
  deaf.rest(60s);
  CHECK(deaf.has_ended());
  CHECK(get(port, "/").status == 200);
}
