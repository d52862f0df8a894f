// `watch` and --serve as people call them; and `inspect`, which the server calls.

#include <signal.h>

#include <set>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/apps/watch/browser.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;
using namespace std::chrono_literals;

namespace {

// The port in "page: http://127.0.0.1:8265/".
int port_of(const Program& program) {
  program.wait_for("page: http://127.0.0.1:");
  program.wait_for("/");
  const std::string out = program.out();
  const std::string begin = "page: http://127.0.0.1:";
  return std::stoi(out.substr(out.find(begin) + begin.size()));
}

// `watch` beside a program `tapegrad` that is a script, and a run.
struct WatchAndInspect : WatchedRun {
  explicit WatchAndInspect(const std::string& script) {
    const auto bin = folder / "bin";
    std::filesystem::create_directory(bin);
    std::filesystem::copy_file(std::filesystem::path(places::kPrograms) / "watch", bin / "watch");
    if (script.empty()) return;
    folder.put("bin/tapegrad", "#!/bin/sh\necho $$ > " + (folder / "pid").string() + "\n" + script);
    std::filesystem::permissions(bin / "tapegrad", std::filesystem::perms::owner_all);
  }
  Args args() const { return {"--port", "0", run}; }
  std::string program() const { return folder / "bin/watch"; }
  // True if the script still runs.
  bool runs() const {
    const std::string pid = TempFolder::get(folder / "pid");
    return !pid.empty() && ::kill(std::stoi(pid), 0) == 0;
  }
  bool ends_in_time() const {
    for (int i = 0; i < 6000 && runs(); ++i) ::usleep(10'000);
    return !runs();
  }
  void wait_for_start() const {
    for (int i = 0; i < 6000 && !runs(); ++i) ::usleep(10'000);
    REQUIRE(runs());
  }
};

const std::string kQuestion = R"({"run":0,"text":"cats 'n' dogs\n"})";

}  // namespace

TEST_CASE("watch shows runs until Ctrl-C", "[watch]") {
  const WatchedRun watched;
  Program watch("watch", {"--port", "0", watched.folder.path()});
  const int port = port_of(watch);
  CHECK(Json::parse(get(port, "/api/runs").body)["runs"][0]["name"] == "run");
  const Result taken = run_program("watch", {"--port", std::to_string(port), watched.run});
  CHECK(taken.code == 1);
  CHECK_THAT(taken.err, ContainsSubstring("is taken"));
  watch.send(SIGINT);
  REQUIRE(watch.ends_within(60s));
  CHECK(watch.wait().code == 130);
}

TEST_CASE("watch without runs, or with none, says what is wrong", "[watch]") {
  check_error_of("watch", run_program("watch", {}), 2, "which runs?");
  check_error_of("watch", run_program("watch", {"nowhere"}), 1, "nowhere: there is no such folder");
  check_error_of("watch", run_program("watch", {std::string(256, 'x')}), 1, "File name too long");
  check_error_of("watch", run_program("watch", {"--port", "70000", "."}), 2, "--port");
  check_error_of("watch", run_program("watch", {"--host", "x", "."}), 1, "'x' is no address");
}

TEST_CASE("--serve shows a run while it trains, and changes no bit of it", "[watch]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const auto alone = files.folder / "alone";
  check_ended_well(train(tiny_run(files.corpus, alone, 300)));
  Program served("train-gpt", tiny_run(files.corpus, files.run, 300) + Args{"--serve", "0"});
  const int port = port_of(served);
  Browser page(port);
  page.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Json runs = Json::parse(get(port, "/api/runs").body)["runs"];
  CHECK(runs.size() == 1);
  CHECK(runs[0]["state"] == "training");
  CHECK(runs[0]["folder"] == files.run.string());
  page.rest(60s);  // until the program ends
  const Result result = served.wait();
  check_ended_well(result);
  CHECK_THAT(page.text(), ContainsSubstring("event: metrics"));
  CHECK_THAT(result.out, ContainsSubstring("watch " + files.run.string()));
  CHECK(same_model(alone, files.run));
  CHECK(files.file("config.json") == TempFolder::get(alone / "config.json"));
}

TEST_CASE("--serve takes a number that follows for its port, and no other word", "[watch]") {
  const CorpusAndRun files("text.txt", tiny_text());
  Args args = tiny_run(files.corpus, files.run, 1);
  args.erase(std::find(args.begin(), args.end(), "--corpus"));
  args.erase(std::find(args.begin(), args.end(), files.corpus.string()));
  const Result result = train(args + Args{"--serve", files.corpus});
  check_ended_well(result);
  CHECK_THAT(result.out, ContainsSubstring("page: http://127.0.0.1:82"));
  check_error_of("train-gpt", train({"--serve", "99999"}), 2, "--serve");
  check_error_of("train-gpt", train({"--serve=-1"}), 2, "--serve");
  check_error_of("train-gpt", train({"--serve=x"}), 2, "--serve");
}

TEST_CASE("--talk-port where it would do nothing, or be the page's, is refused", "[watch]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const Args args = tiny_run(files.corpus, files.run, 1);
  check_error_of("train-gpt", train(args + Args{"--talk-port", "9999"}), 2, "for --serve");
  check_error_of("train-gpt", train(args + Args{"--serve", "9999", "--talk-port", "9999"}), 2,
                 "port of its own");
  const auto watch = [&](const Args& more) {
    return run_program("watch", Args{files.folder.path(), "--talk-port", "9999"} + more);
  };
  check_error_of("watch", watch({"--html", files.folder / "runs.html"}), 2, "--html");
  check_error_of("watch", watch({"--host", "0.0.0.0"}), 2, "0.0.0.0");
  check_error_of("watch", watch({"--port", "9999"}), 2, "port of its own");
}

TEST_CASE("a port that --serve names is that one or none", "[watch]") {
  // If somebody else has the default port already, it is taken as well.
  const CorpusAndRun files("text.txt", tiny_text());
  const Program holder("watch", {"--port", "8265", files.folder.path()});
  while (holder.out().find("page: ") == std::string::npos && !holder.ends_within(10ms)) {
  }
  const Args args = tiny_run(files.corpus, files.run, 1);
  check_error_of("train-gpt", train(args + Args{"--serve", "8265"}), 1, "port 8265 is taken");
  const Result next = train(args + Args{"--serve"});
  check_ended_well(next);
  CHECK_THAT(next.out, ContainsSubstring("page: http://127.0.0.1:82"));
  CHECK_THAT(next.out, !ContainsSubstring("page: http://127.0.0.1:8265"));
}

TEST_CASE("sessions.jsonl has two lines for each call", "[watch]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const auto sessions = [&] {
    std::vector<Json> list;
    std::istringstream lines(files.file("sessions.jsonl"));
    for (std::string line; std::getline(lines, line);) list.push_back(Json::parse(line));
    return list;
  };
  check_ended_well(train(tiny_run(files.corpus, files.run, 5) + Args{"--threads", "1"}));
  check_ended_well(train({"--init-from", "resume", "--out-dir", files.run, "--max-iters", "8"}));
  auto list = sessions();
  REQUIRE(list.size() == 4);
  CHECK(list[0]["first_step"] == 0);
  CHECK_THAT(list[0]["command"].get<std::string>(), ContainsSubstring("train-gpt --corpus "));
  CHECK(list[0]["threads"] == 1);
  CHECK(list[0]["processes"] == 1);
  std::set<std::string> names;
  for (const auto& [name, value] : list[0].items()) names.insert(name);
  CHECK(names == std::set<std::string>{"first_step", "time", "command", "folder", "processor",
                                       "cores", "threads", "processes", "version", "products",
                                       "tells_end"});
  CHECK(list[0]["folder"] == std::filesystem::current_path().string());
  CHECK(list[0]["cores"].get<int>() >= 1);
  CHECK_FALSE(list[0]["version"].get<std::string>().empty());
  CHECK_FALSE(list[0]["products"].get<std::string>().empty());
  CHECK(list[0]["time"].get<std::string>().size() == std::string("2026-01-01T00:00:00Z").size());
  CHECK(list[1]["ended"] == "finished");
  CHECK(list[1]["last_step"] == 5);
  CHECK(list[2]["first_step"] == 5);
  CHECK_THAT(list[2]["command"].get<std::string>(), ContainsSubstring("--init-from resume"));
  check_ended_well(train(tiny_run(files.corpus, files.run, 5) + Args{"--overwrite"}));
  CHECK(sessions().size() == 2);
  // A link that somebody put there is not written through.
  const auto precious = files.folder.put("precious", "precious\n");
  std::filesystem::remove(files.run / "sessions.jsonl");
  std::filesystem::create_symlink(precious, files.run / "sessions.jsonl");
  const Result refused =
      train({"--init-from", "resume", "--out-dir", files.run, "--max-iters", "8"});
  CHECK(refused.code == 1);
  CHECK(TempFolder::get(precious) == "precious\n");
}

TEST_CASE("a text goes to inspect, and its answer comes back", "[watch]") {
  const WatchAndInspect files(
      R"(text=$(cat); printf '{"arguments":"%s","text":"%s"}' "$*" "$text")");
  Program watch(files.program(), files.args());
  const int port = port_of(watch);
  CHECK(Json::parse(get(port, "/api/runs").body)["inspect"] == true);
  const Reply reply = post(port, "/api/inspect", kQuestion);
  REQUIRE(reply.status == 200);
  const Json answer = Json::parse(reply.body);
  CHECK(answer["text"] == "cats 'n' dogs");
  CHECK(answer["arguments"] ==
        "inspect --model=" + files.run.string() + " --json --text - --threads 1");
  for (const char* body :
       {"", "{", "[]", "{}", R"({"run":0})", R"({"run":1,"text":"a"})", R"({"run":-1,"text":"a"})",
        R"({"run":"0","text":"a"})", R"({"run":0,"text":""})", R"({"run":0,"text":7})",
        R"({"run":0,"text":"a\u0000b"})", R"({"run":0,"text":"a","run":0})"}) {
    CAPTURE(body);
    CHECK(post(port, "/api/inspect", body).status == 400);
  }
  const std::string text(5000, 'a');
  CHECK(post(port, "/api/inspect", R"({"run":0,"text":")" + text + "\"}").status == 422);
  CHECK(post(port, "/api/inspect", R"({"run":0,"text":")" + text.substr(0, 4096) + "\"}").status ==
        200);
}

TEST_CASE("an inspect that refuses, fails or prints too much gives an error", "[watch]") {
  const auto [script, status, words] = GENERATE(table<const char*, int, const char*>({
      {"echo 'inspect: error: no model' >&2; exit 1", 422, "inspect: error: no model"},
      {"head -c 10000 /dev/zero | tr '\\0' x >&2; exit 1", 422, "xxxx"},
      {"kill -9 $$", 422, "ended by a signal"},
      {"echo nonsense", 503, "no JSON"},
      {"exec yes", 503, "too much"},
      {"", 503, "not beside"},
  }));
  CAPTURE(script);
  const WatchAndInspect files(script);
  Program watch(files.program(), files.args());
  const int port = port_of(watch);
  const Reply reply = post(port, "/api/inspect", kQuestion);
  CHECK(reply.status == status);
  CHECK_THAT(reply.body, ContainsSubstring(words));
  CHECK_FALSE(files.runs());
}

TEST_CASE("one text at a time; inspect ends with the page that asked, or the server", "[watch]") {
  const WatchAndInspect files("sleep 100; echo {}");
  Program watch(files.program(), files.args());
  const int port = port_of(watch);
  Browser page(port);
  page.send(
      "POST /api/inspect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(kQuestion.size()) + "\r\n\r\n" + kQuestion);
  files.wait_for_start();
  const Reply second = post(port, "/api/inspect", kQuestion);
  CHECK(second.status == 503);
  CHECK_THAT(second.body, ContainsSubstring("another text"));
  CHECK(get(port, "/api/runs").status == 200);
  SECTION("the page is closed") {
    { const Browser closed = std::move(page); }
    CHECK(files.ends_in_time());
  }
  SECTION("the server ends") {
    watch.send(SIGTERM);
    REQUIRE(watch.ends_within(60s));
    CHECK_FALSE(files.runs());
  }
}
