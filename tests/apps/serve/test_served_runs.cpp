// Talking to a model while it trains: `serve --follow`, and the page of `watch` that starts it.

#include <signal.h>

#include "tapegrad/tests/apps/serve/running_server.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace std::chrono_literals;

namespace {

const Fields kGreedy = {{"prompt", "the cat"}, {"temperature", 0}, {"max_tokens", 9}};

std::string sampled_from(const std::filesystem::path& run) {
  return sampled("the cat", {"--greedy", "--max-new-tokens", "9"}, run);
}

bool listens(int port) {
  try {
    const Browser browser(port);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// A page of `watch` for a run, as a program.
struct WatchProgram {
  explicit WatchProgram(const std::filesystem::path& run, const Args& more = {})
      : program("watch", Args{run, "--port", "0"} + more) {
    const std::string begin = "page: http://127.0.0.1:";
    program.wait_for("(Ctrl-C");
    const std::string out = program.out();
    port = std::stoi(out.substr(out.find(begin) + begin.size()));
  }
  Program program;
  int port = 0;
};

}  // namespace

TEST_CASE("serve --follow answers with the newest checkpoint of a run", "[serve]") {
  const TinyRun run(5, {"--ngrams", "2"});
  const RunningServer follows({"--follow"}, run.run), stays({}, run.run);
  const std::string before = sampled_from(run.run);
  CHECK(follows.text(kGreedy) == before);
  check_ended_well(train(resume_run(run.run, 60)));
  const std::string after = sampled_from(run.run);
  REQUIRE(after != before);
  CHECK(follows.text(kGreedy) == after);
  CHECK(stays.text(kGreedy) == before);
  SECTION("a checkpoint that cannot be read leaves the one that is there") {
    std::filesystem::remove(run.run / "model.safetensors");
    run.folder.put("run/model.safetensors", "broken");
    CHECK(follows.text(kGreedy) == after);
    CHECK(follows.text(kGreedy) == after);
  }
}

TEST_CASE("serve --follow wants a run with a checkpoint, and the model that it began with",
          "[serve]") {
  const TinyRun run(5), other(5, {"--n-embd", "16"});
  const auto gguf = run.folder / "model.gguf";
  check_ended_well(run_program("export", {run.run, "-o", gguf}));
  const Result result = run_program("serve", {"--model", gguf, "--port", "0", "--follow"});
  CHECK(result.code == 1);
  CHECK_THAT(result.err, ContainsSubstring("no run folder with a checkpoint"));
  const RunningServer follows({"--follow"}, run.run);
  const std::string before = follows.text(kGreedy);
  for (const char* file : {"config.json", "model.safetensors"}) {
    const auto to = run.run / file;
    std::filesystem::remove(to);
    std::filesystem::copy_file(other.run / file, to);
  }
  CHECK(follows.text(kGreedy) == before);
}

TEST_CASE("serve --end-with-stdin ends when stdin does", "[serve]") {
  // Of the test's programs, stdin is an empty file.
  Program ends("serve", {"--model", tiny_chat_model().path, "--port", "0", "--end-with-stdin"});
  CHECK(ends.ends_within(60s));
  CHECK(ends.wait().code == 0);
}

TEST_CASE("the page of watch opens a model to talk to, which ends with it", "[serve][watch]") {
  const TinyRun run(5);
  WatchProgram watch(run.run);
  const auto talk = [&](const std::string& body, const std::string& more = "") {
    return post(watch.port, "/api/talk", body, "Content-Type: application/json\r\n" + more);
  };
  CHECK(Fields::parse(get(watch.port, "/api/runs").body)["talk"] == true);
  const Reply reply = talk(R"({"run":0})");
  INFO(reply.body);
  REQUIRE(reply.status == 200);
  const int port = Fields::parse(reply.body)["port"];
  CHECK(Fields::parse(talk(R"({"run":0})").body)["port"] == port);
  CHECK(Fields::parse(post(port, "/v1/completions", kGreedy.dump()).body)["choices"][0]["text"] ==
        sampled_from(run.run));
  // What other sites may not do, and what does not exist.
  CHECK(talk(R"({"run":0})", "Origin: http://evil.example\r\n").status == 403);
  CHECK(post(watch.port, "/api/talk", "{}", "Content-Type: text/plain\r\n").status == 415);
  CHECK(talk(R"({"run":9})").status == 400);
  CHECK(talk("[]").status == 400);
  CHECK(get(watch.port, "/api/talk").status == 405);
  watch.program.send(SIGKILL);  // nobody is left to end it
  bool ended = false;
  for (int i = 0; i < 1500 && !ended; ++i) {
    ended = !listens(port);
    std::this_thread::sleep_for(20ms);
  }
  CHECK(ended);
}

TEST_CASE("a model to talk to may be at a port that is known before, and forwarded",
          "[serve][watch]") {
  const TinyRun first(5), second(5);
  int port = 0;
  {
    const RunningServer any;  // so that a port is free afterwards
    port = any.port;
  }
  const std::string talk_port = std::to_string(port);
  const WatchProgram watch(first.run, {second.run, "--talk-port", talk_port});
  // Of another run, too: the one before leaves the port.
  for (const char* run : {R"({"run":0})", R"({"run":1})"}) {
    const Reply reply = post(watch.port, "/api/talk", run);
    INFO(reply.body);
    REQUIRE(reply.status == 200);
    CHECK(Fields::parse(reply.body)["port"] == port);
    // As a browser asks through ssh -L 9000:localhost:PORT.
    CHECK(ask(port, "POST", "/v1/completions",
              "Origin: http://localhost:9000\r\nContent-Type: application/json\r\n",
              R"({"prompt":"a","max_tokens":1})", "localhost:9000")
              .status == 200);
  }
  const WatchProgram other(second.run, {"--talk-port", talk_port});
  const Reply taken = post(other.port, "/api/talk", R"({"run":0})");
  CHECK(taken.status == 422);
  CHECK_THAT(Fields::parse(taken.body)["error"].get<std::string>(),
             ContainsSubstring("port " + talk_port + " is taken"));
}

TEST_CASE("a run without a checkpoint says so to who wants to talk to it", "[serve][watch]") {
  const TinyRun run(5);
  std::filesystem::remove(run.run / "model.safetensors");
  const WatchProgram watch(run.run);
  const Reply reply = post(watch.port, "/api/talk", R"({"run":0})");
  CHECK(reply.status == 422);
  CHECK_THAT(Fields::parse(reply.body)["error"].get<std::string>(),
             ContainsSubstring("model.safetensors"));
}
