// Requests that take long to read: those with large templates and schemas.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>

#include "tapegrad/apps/serve/work_thread.h"
#include "tapegrad/tests/apps/serve/running_server.h"
#include "tapegrad/tests/sanitized.h"

using namespace std::chrono_literals;

namespace {

// A million turns of a loop: the other requests below take a thousandth of that.
constexpr const char* kSlowTemplate =
    "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}hello";

struct SlowModel : TinyChatModel {
  SlowModel() {
    folder.put("tiny-chat/tokenizer_config.json", Fields{{"chat_template", kSlowTemplate}}.dump());
  }
};

const Fields kTalk = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};

Fields slow_schema(int salt) {
  Fields properties, names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "property_" + std::to_string(salt) + "_" + std::to_string(i);
    properties[name] = {{"type", "string"}, {"pattern", "^[a-z]{1,50}[0-9]{1,50}$"}};
    names.push_back(name);
  }
  return {{"type", "object"},
          {"properties", properties},
          {"required", names},
          {"additionalProperties", false}};
}

void post_to(const Browser& browser, const std::string& path, const Fields& body) {
  const std::string text = body.dump();
  REQUIRE(browser.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
                       "application/json\r\nContent-Length: " + std::to_string(text.size()) +
                       "\r\n\r\n" + text));
}

std::ptrdiff_t count_of(const std::string& word, const std::string& text) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++count;
  return count;
}

std::ptrdiff_t events_in(const Browser& browser) { return count_of("data: ", browser.text()); }

// Requests for /apply-template that were answered, or whose clients have left.
double ended_templates(const RunningServer& server) {
  double count = 0;
  for (const char* status : {"200", "499"}) {
    count +=
        std::max(0.0, server.metric("tapegrad_requests_total{path=\"/apply-template\",status=\"" +
                                    std::string(status) + "\"}"));
  }
  return count;
}

std::int64_t resident_bytes(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

template <class Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// True if so many requests for /apply-template come. One that is answered between the two looks is
// counted by neither, and by the next.
bool templates_come(const RunningServer& server, int count) {
  return comes_true([&] {
    const double ended = ended_templates(server);
    return ended + server.metric("tapegrad_jobs_waiting") >= count;
  });
}

// True if a request has come, and waits or is worked on.
bool comes_to_server(const RunningServer& server) {
  return comes_true([&] {
    return server.metric("tapegrad_jobs_waiting") + server.metric("tapegrad_jobs_total") > 0;
  });
}

}  // namespace

TEST_CASE("templates and schemas that take long hold up neither streams nor other clients",
          "[serve]") {
  const SlowModel model;
  const RunningServer server({"--parallel", "1"}, model.path);
  Browser stream(server.port);
  post_to(stream, "/v1/completions",
          {{"prompt", "once"},
           {"max_tokens", 500},
           {"ignore_eos", true},
           {"stream", true},
           {"n", 100}});
  REQUIRE(stream.gets("data: ", 15s));
  std::vector<Browser> slow;
  for (int i = 0; i < 40; ++i) {
    slow.emplace_back(server.port);
    if (i % 2 == 1) {  // the last one, too: it needs no place in the engine
      post_to(slow.back(), "/apply-template", kTalk);
    } else {
      post_to(slow.back(), "/v1/completions",
              {{"prompt", "a"},
               {"max_tokens", 0},
               {"response_format",
                {{"type", "json_schema"}, {"json_schema", {{"schema", slow_schema(i)}}}}}});
    }
  }
  while (stream.receive(0ms)) {  // what came before does not count
  }
  const std::ptrdiff_t before = events_in(stream);
  while (events_in(stream) < before + 20 && stream.receive(15s)) {
  }
  CHECK(events_in(stream) >= before + 20);
  for (int i = 0; i < 20; ++i) CHECK(get(server.port, "/health").status == 200);
  // All of that came before the last slow one was read, since they are read in turn.
  CHECK_FALSE(slow.back().receive(1ms));
  for (int i : {0, 1}) CHECK(slow[i].gets("200 OK", 60s));
}

TEST_CASE("requests that wait for an answer keep no body that was read", "[serve]") {
  RunningServer server({"--parallel", "1"});
  Fields talk = {{"max_tokens", 400}, {"ignore_eos", true}, {"n", 100}};
  talk["messages"] = kTalk["messages"];
  talk["messages"][0]["note"] = std::string(3 << 20, 'x');
  std::vector<Browser> browsers;
  std::int64_t before = 0;
  constexpr int kCount = 24;
  for (int i = 0; i <= kCount; ++i) {
    browsers.emplace_back(server.port);
    post_to(browsers.back(), "/v1/chat/completions", talk);
    REQUIRE(comes_true([&] { return server.metric("tapegrad_jobs_total") >= i + 1; }));
    if (i == 0) before = resident_bytes(server.program().pid());
  }
  const std::int64_t more = resident_bytes(server.program().pid()) - before;
  INFO(more);
  if (!tapegrad::kSanitized) CHECK(more < kCount / 2 * (std::int64_t{3} << 20));
}

TEST_CASE("a client that leaves before its request is read costs nothing more", "[serve]") {
  const SlowModel model;
  const RunningServer server({}, model.path);
  Fields talk = kTalk;
  talk["n"] = 100;
  {
    std::vector<Browser> leave;
    for (int i = 0; i < 4; ++i) {
      leave.emplace_back(server.port);
      post_to(leave.back(), "/v1/chat/completions", talk);
    }
    REQUIRE(comes_to_server(server));
  }
  CHECK(server.comes_to("tapegrad_jobs_waiting", 0));
  CHECK(server.comes_to("tapegrad_texts_running", 0));
  CHECK(server.metric("tapegrad_jobs_total") == server.metric("tapegrad_jobs_cancelled_total"));
}

TEST_CASE("requests whose clients have left are not read", "[serve]") {
  const SlowModel model;
  const RunningServer server({}, model.path);
  const int count = 50;
  {
    std::vector<Browser> leave;
    for (int i = 0; i < count; ++i) {
      leave.emplace_back(server.port);
      post_to(leave.back(), "/apply-template", kTalk);
    }
    REQUIRE(templates_come(server, count));
  }
  // From when the last has left, the one that is being read is all there is.
  REQUIRE(comes_true([&] { return ended_templates(server) >= count; }));
  CHECK(server.metric("tapegrad_jobs_waiting") <= 1);
}

TEST_CASE("who finds too many requests to be read is told to ask again", "[serve]") {
  const SlowModel model;
  const RunningServer server({"--max-waiting", "2"}, model.path);
  std::vector<Browser> browsers;
  for (int i = 0; i < 30; ++i) {
    browsers.emplace_back(server.port);
    post_to(browsers.back(), "/apply-template", kTalk);
  }
  int taken = 0, refused = 0;
  for (Browser& browser : browsers) {
    REQUIRE(browser.gets("\r\n\r\n", 60s));
    const Reply reply = reply_in(browser.text());
    CHECK((reply.status == 200 || reply.status == 429));
    reply.status == 200 ? ++taken : ++refused;
    if (reply.status == 429) CHECK_THAT(reply.head, ContainsSubstring("Retry-After: 1"));
  }
  CHECK(taken >= 2);
  CHECK(refused >= 1);
  CHECK(server.metric("tapegrad_jobs_refused_total") == refused);
}

TEST_CASE("a server that ends still reads the requests that it has taken", "[serve]") {
  const SlowModel model;
  RunningServer server({}, model.path);
  Browser browser(server.port);
  post_to(browser, "/v1/chat/completions", kTalk);
  REQUIRE(comes_to_server(server));
  server.program().send(SIGTERM);
  CHECK(browser.gets("200 OK", 60s));
  CHECK(server.program().wait().code == 0);
}

TEST_CASE("a server that ends refuses what it has not read at the end of its time", "[serve]") {
  const SlowModel model;
  RunningServer server({"--grace", "0"}, model.path);
  std::vector<Browser> browsers;
  for (int i = 0; i < 30; ++i) {
    browsers.emplace_back(server.port);
    post_to(browsers.back(), "/apply-template", kTalk);
  }
  REQUIRE(templates_come(server, 30));
  server.program().send(SIGTERM);
  for (Browser& browser : browsers) {
    const Reply reply = reply_in(browser.rest(60s));
    CHECK((reply.status == 200 || reply.status == 503));
    if (reply.status == 503) CHECK_THAT(reply.body, ContainsSubstring("shutting_down"));
  }
  const Result result = server.program().wait();
  CHECK(result.code == 0);
  CHECK(count_of("POST /apply-template ", result.err) == 30);
}

TEST_CASE("the next request may come before the answer to the last", "[serve]") {
  const SlowModel model;
  const RunningServer server({}, model.path);
  Browser browser(server.port);
  post_to(browser, "/apply-template", kTalk);
  REQUIRE(templates_come(server, 1));
  post_to(browser, "/detokenize", {{"tokens", {1}}});
  CHECK_THAT(browser.next_body(), ContainsSubstring("hello"));
  CHECK_THAT(browser.next_body(), ContainsSubstring("content"));
}

TEST_CASE("what waits for a work thread is bounded and can be taken out", "[serve]") {
  std::mutex mutex;
  std::vector<int> done;
  tapegrad::serve::WorkThread thread(2, 10);
  std::unique_lock lock(mutex);  // the first piece waits for it; a test that fails lets go of it
  const auto piece = [&](int number) {
    return [&mutex, &done, number] {
      const std::lock_guard held(mutex);
      done.push_back(number);
    };
  };
  REQUIRE(thread.submit(1, "a", 100, piece(1)));  // one alone may hold more
  REQUIRE(comes_true([&] {                        // it begins
    if (!thread.cancel(1)) return true;
    CHECK(thread.submit(1, "a", 100, piece(1)));
    return false;
  }));
  CHECK(thread.submit(2, "a", 6, piece(2)));
  CHECK_FALSE(thread.submit(3, "a", 5, piece(3)));  // bytes
  CHECK(thread.submit(4, "a", 4, piece(4)));
  CHECK_FALSE(thread.submit(5, "a", 0, piece(5)));  // pieces
  CHECK(thread.cancel(2));
  CHECK_FALSE(thread.cancel(2));
  CHECK(thread.submit(6, "a", 6, piece(6)));
  lock.unlock();
  CHECK(comes_true([&] {
    const std::lock_guard held(mutex);
    return done.size() == 3;
  }));
  lock.lock();
  CHECK(done == std::vector<int>{1, 4, 6});
}
