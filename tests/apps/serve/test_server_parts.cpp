// Parts of the server that need no model.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "tapegrad/apps/http/message.h"
#include "tapegrad/apps/serve/api/fields/refusal.h"
#include "tapegrad/apps/serve/queued_errors.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/internal/cut_text.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace std::chrono_literals;

namespace {

struct Pipe {
  int ends[2];
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void read_some(std::string& text) const {
    char bytes[4096];
    const ssize_t size = ::read(ends[0], bytes, sizeof bytes);
    if (size <= 0) FAIL("the pipe has ended");
    text.append(bytes, static_cast<std::size_t>(size));
  }
  // Reads on until the text ends so.
  void read_until(std::string& text, const std::string& end) const {
    while (!text.ends_with(end)) read_some(text);
  }
};

}  // namespace

TEST_CASE("a log that nobody reads holds up nobody, and says what is lost", "[serve]") {
  const Pipe pipe;
  constexpr int kPrints = 40;
  {
    const serve::QueuedErrors errors(pipe.ends[1]);
    const std::string line = std::string((1 << 20) - 1, 'x') + "\n";
    for (int i = 0; i < kPrints; ++i) print_error(line);  // returns
    print_error("!\n");                                   // room for the little ones may be left
    std::string text;
    while (text.size() < (15U << 20)) pipe.read_some(text);
    std::string after;
    for (int i = 0; after.find("are lost") == after.npos; ++i) {
      print_error("last\n");
      pipe.read_until(after, "last\n");
      REQUIRE(i < 100);
    }
    CHECK(after.find("warning: ") != after.npos);
  }
  const serve::QueuedErrors unread(pipe.ends[1]);
  for (int i = 0; i < kPrints; ++i) print_error(std::string(1 << 20, 'x'));
}  // ends without a reader

TEST_CASE("print_error prints when a queue has ended, and what waits is written before",
          "[serve]") {
  const Pipe pipe;
  {
    const serve::QueuedErrors errors(pipe.ends[1]);
    for (int i = 0; i < 5; ++i) print_error(std::to_string(i) + "\n");
  }
  std::string text;
  pipe.read_until(text, "4\n");
  CHECK(text == "0\n1\n2\n3\n4\n");
}

TEST_CASE("clients of a work thread take turns, each in its own order", "[serve]") {
  std::mutex mutex;
  std::string done;
  bool begun = false;
  {
    serve::WorkThread thread(100, 100);
    std::unique_lock lock(mutex);
    const auto piece = [&](char name) {
      return [&, name] {
        const std::lock_guard held(mutex);
        begun = true;
        done += name;
      };
    };
    serve::WorkThread::Id id = 0;
    REQUIRE(thread.submit(++id, "a", 1, piece('0')));
    while (thread.cancel(id)) REQUIRE(thread.submit(id, "a", 1, piece('0')));
    for (const char name : {'1', '2', '3'}) REQUIRE(thread.submit(++id, "a", 1, piece(name)));
    for (const char name : {'b', 'B'}) REQUIRE(thread.submit(++id, "b", 1, piece(name)));
    REQUIRE(thread.submit(++id, "c", 1, piece('c')));
    lock.unlock();
    for (bool ended = false; !ended;) {
      std::this_thread::sleep_for(1ms);
      const std::lock_guard held(mutex);
      ended = done.size() == 7;
    }
  }
  CHECK(begun);
  // The first client had a turn: the others come before its next one.
  CHECK(done == "0bc1B23");
}

TEST_CASE("a client whose pieces were taken out is behind one that waits", "[serve]") {
  std::mutex mutex;
  std::string done;
  {
    serve::WorkThread thread(100, 100);
    std::unique_lock lock(mutex);
    const auto piece = [&](char name) {
      return [&, name] {
        const std::lock_guard held(mutex);
        done += name;
      };
    };
    // The first one begins, and waits for the lock.
    REQUIRE(thread.submit(1, "a", 1, piece('0')));
    while (thread.cancel(1)) REQUIRE(thread.submit(1, "a", 1, piece('0')));
    REQUIRE(thread.submit(2, "b", 1, piece('x')));
    REQUIRE(thread.submit(3, "a", 1, piece('1')));
    REQUIRE(thread.submit(4, "a", 1, piece('2')));
    REQUIRE(thread.cancel(2));
    REQUIRE(thread.submit(5, "c", 1, piece('c')));
    REQUIRE(thread.submit(6, "b", 1, piece('b')));
    lock.unlock();
    for (bool ended = false; !ended;) {
      std::this_thread::sleep_for(1ms);
      const std::lock_guard held(mutex);
      ended = done.size() == 5;
    }
  }
  CHECK(done == "0cb12");
}

TEST_CASE("a Host header is a name with a port, and nothing else", "[serve][watch]") {
  for (const char* host : {"my.example", "MY.EXAMPLE", "my.example:80", "My.Example:65535"}) {
    CHECK(http::names_host(host, "my.example"));
    CHECK(http::names_host(host, "MY.example"));
  }
  for (const char* host :
       {"my.example:80@evil.com", "my.example:", "my.example:x", "my.example:65536",
        "my.example.evil.com", "evil.my.example", "my.example/", "my.example:80:80", "", ":80"}) {
    INFO(host);
    CHECK_FALSE(http::names_host(host, "my.example"));
  }
  CHECK_FALSE(http::names_host("", ""));
  CHECK(http::is_own("LOCALHOST:1", "127.0.0.1"));
  CHECK_FALSE(http::is_own("localhost:1@evil.com", "127.0.0.1"));
}

TEST_CASE("JSON is application/json, in letters of any case and with parameters",
          "[serve][watch]") {
  for (const char* type : {"application/json", "Application/JSON",
                           "application/json; charset=utf-8", "application/json ;x"}) {
    CHECK(http::is_json(type));
  }
  for (const char* type : {"application/jsonp", "application/json-seq", "application/jsonx; a", "",
                           "text/json", "text/plain; application/json"}) {
    INFO(type);
    CHECK_FALSE(http::is_json(type));
  }
}

TEST_CASE("what a refusal quotes is cut between characters", "[serve]") {
  CHECK(cut_text("abc", 3) == "abc");
  CHECK(cut_text("abcdef", 5) == "ab…");
  CHECK(cut_text("ääää", 7) == "ää…");
  CHECK(cut_text("ääää", 6) == "ä…");
  std::string long_text;
  for (int i = 0; i < 500'000; ++i) long_text += "é";
  const serve::Refusal refusal{.message = long_text, .param = long_text, .code = "x"};
  const Json error = refusal.json()["error"];
  for (const char* key : {"message", "param"}) {
    CHECK(error[key].get<std::string>().size() <= kMostQuoted);
    CHECK(error[key].get<std::string>().ends_with("é…"));
  }
  CHECK(refusal.response().body.size() < 2000);
}
