// When the page's server drops who is slow: a test that runs alone, since the server has the lowest
// priority.

#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace std::chrono_literals;

TEST_CASE("who sends slowly, or does not read, is dropped", "[watch]") {
  const WatchedRun watched;
  watch::ServerOptions options = watched.options();
  options.patience = 4s;
  const watch::Server server(options);
  const int port = server.port();
  Browser slow(port), silent(port);
  Browser deaf = open_events(port, 4096), page = open_events(port);
  slow.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
  const std::string text(14'000, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (int second = 0; second < 9; ++second) {
    for (int i = 0; i < 50; ++i) {
      watched.add("{\"iteration\":20,\"sample\":\"" + text + "\"}\n");
    }
    slow.send("x");  // an option of the header that never ends
    page.gets("nothing has this text", 1s);
    page.forget();
  }
  CHECK(slow.rest(1s).empty());
  CHECK(slow.has_ended());
  CHECK(silent.rest(1s).empty());
  CHECK(silent.has_ended());
  CHECK_FALSE(page.has_ended());
  deaf.rest(20s);
  CHECK(deaf.has_ended());
  CAPTURE(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  CHECK(get(port, "/").status == 200);
}
