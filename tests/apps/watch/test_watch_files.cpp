// The page keeps bounded parts of a run's files, whatever is in them.

#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "tapegrad/apps/watch/run_files.h"
#include "tapegrad/apps/watch/run_list.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/tests/apps/watch/watched_run.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::watch;

namespace {

constexpr std::size_t kAll = std::size_t{1} << 30;

Json history_of(const RunFiles& run) { return Json::parse(run.history().json()); }

RunFiles read_run(const WatchedRun& watched) {
  RunFiles run(watched.run);
  run.read_all();
  return run;
}

}  // namespace

TEST_CASE("a history has each number by its name, samples and skipped steps", "[watch]") {
  const WatchedRun watched;
  watched.add("{\"iteration\":20,\"skipped\":true,\"loss\":9.5,\"norm\":7}\n");
  watched.add(
      "{\"iteration\":10,\"layers\":{\"h.0\":{\"gradient\":0.5,\"weight\":0.25,\"update\":0.125},"
      "\"ln_f\":{\"gradient\":2}}}\n",
      "layers.jsonl");
  const Json history = history_of(read_run(watched));
  CHECK(history["lines"] == 5);
  CHECK(history["layer_lines"] == 1);
  CHECK(history["series"]["loss"] == Json::parse("[[0,10],[4.5,3.5]]"));
  CHECK(history["series"]["val_loss"] == Json::parse("[[0],[4.6]]"));
  CHECK_FALSE(history["series"].contains("iteration"));
  CHECK(history["samples"] == Json::parse(R"([{"iteration":10,"text":"h\u00e9llo\nworld"}])"));
  watched.add("{\"iteration\":30,\"sample\":\"no\",\"prompt\":\"hi\",\"wanted\":\"yes\"}\n");
  CHECK(history_of(read_run(watched))["samples"].back() ==
        Json::parse(R"({"iteration":30,"text":"no","prompt":"hi","wanted":"yes"})"));
  CHECK_FALSE(history["series"].contains("norm"));
  CHECK(history["skipped"] == Json::parse("[20]"));
  CHECK(history["skipped_count"] == 1);
  CHECK(history["layers"] ==
        Json::parse(R"({"names":["h.0","ln_f"],"iterations":[10],"gradient":[[0.5,2]],
                        "weight":[[0.25,null]],"update":[[0.125,null]]})"));
}

TEST_CASE("what is kept has a bound, and the first and the newest are kept", "[watch]") {
  const WatchedRun watched;
  const int lines = GENERATE(1999, 2000, 2001, 4000, 50'001, 200'000);
  std::string text;
  for (int i = 0; i < lines; ++i) text += "{\"iteration\":" + std::to_string(i) + ",\"norm\":1}\n";
  watched.add(text);
  const Json history = history_of(read_run(watched));
  const Json& steps = history["series"]["norm"][0];
  CAPTURE(lines, steps.size());
  CHECK(steps.size() <= kMostPoints);
  CHECK(steps.size() >= kMostPoints / 2 - 1);
  CHECK(steps.front() == 0);
  CHECK(steps.back() == lines - 1);
  for (std::size_t i = 1; i < steps.size(); ++i) REQUIRE(steps[i - 1] < steps[i]);
}

TEST_CASE("broken, foreign and huge lines are counted and otherwise left out", "[watch]") {
  const WatchedRun watched;
  const std::string huge(3 << 20, 'x');
  watched.add(
      "\n{\n[]\n\xff\xfe\n{\"loss\":1}\n{\"iteration\":-1,\"loss\":1}\n{\"iteration\":1e9,"
      "\"loss\":1}\n{\"iteration\":99999999999999999999,\"loss\":1}\n" +
      std::string(200'000, '[') + "\n" + huge + "\n{\"iteration\":5,\"loss\":null}\n");
  watched.add("{\"iteration\":30,\"loss\":2,\"deep\":{\"a\":[1]},\"text\":\"" +
              std::string(100'000, 'y') + "\"}\n");
  watched.add("{\"iteration\":30,\"sample\":\"" + std::string(100'000, 'z') + "\"}\n");
  watched.add("{\"iteration\":40,\"loss\":1.5}\n{\"iteration\":50,\"lo");
  const Json history = history_of(read_run(watched));
  CHECK(history["lines"] == 4 + 11 + 3);
  CHECK(history["series"]["loss"][0] == Json::parse("[0,10,40]"));  // nested too deeply: no line
  CHECK(history["samples"].back()["text"].get<std::string>().size() < kMostTextBytes + 10);
  CHECK(history.dump().size() < 30'000);
}

TEST_CASE("many names and many layers cost no more than some", "[watch]") {
  const WatchedRun watched;
  std::string metrics, layers;
  for (int i = 0; i < 3000; ++i) {
    const std::string n = std::to_string(i);
    metrics += "{\"iteration\":1,\"name" + n + "\":1}\n";
    layers += "{\"iteration\":" + n + ",\"layers\":{\"layer" + n + "\":{\"weight\":1}}}\n";
  }
  watched.add(metrics);
  watched.add(layers, "layers.jsonl");
  const Json history = history_of(read_run(watched));
  CHECK(history["series"].size() == kMostSeries);
  CHECK(history["layers"]["names"].size() == kMostLayers);
  CHECK(history["layers"]["iterations"].size() <= kMostLayerRecords);
}

TEST_CASE("a line is news once, when it is complete", "[watch]") {
  const WatchedRun watched;
  RunFiles run(watched.run);
  CHECK(run.read(kAll).lines.empty());  // what was there is no news
  watched.add("{\"iteration\":20,");
  CHECK(run.read(kAll).lines.empty());
  watched.add("\"loss\":3}\n");
  const auto news = run.read(kAll);
  REQUIRE(news.lines.size() == 1);
  CHECK(news.lines[0].number == 4);
  CHECK(news.lines[0].values == R"({"iteration":20,"loss":3})");
  CHECK_FALSE(news.restarted);
  CHECK(run.read(kAll).lines.empty());
}

TEST_CASE("a broken line is news without values, since pages count lines", "[watch]") {
  const WatchedRun watched;
  RunFiles run(watched.run);
  run.read_all();
  watched.add("nonsense\n");
  const auto news = run.read(kAll);
  REQUIRE(news.lines.size() == 1);
  CHECK(news.lines[0].number == 4);
  CHECK(news.lines[0].values == "{}");
}

TEST_CASE("a session has a bound as a whole", "[watch]") {
  const WatchedRun watched;
  std::string line = "{\"first_step\":0";
  for (int i = 0; i < 60; ++i) {
    line += ",\"name" + std::to_string(i) + "\":\"" + std::string(5000, 'x') + "\"";
  }
  watched.add(line + "}\n", "sessions.jsonl");
  CHECK(read_run(watched).sessions().dump().size() < 9000);
}

TEST_CASE("a file that is cut, replaced or removed is read anew", "[watch]") {
  const WatchedRun watched;
  RunFiles run(watched.run);
  run.read_all();
  const auto path = watched.run / "metrics.jsonl";
  const std::string before = TempFolder::get(path);
  SECTION("cut") {
    std::filesystem::resize_file(path, before.find('\n') + 1);
    CHECK(run.read(kAll).restarted);
    CHECK(history_of(run)["lines"] == 1);
  }
  SECTION("replaced by a longer one") {
    watched.folder.put("run/metrics.jsonl", "{\"iteration\":0,\"loss\":9}\n" + before);
    CHECK(run.read(kAll).restarted);
    CHECK(history_of(run)["series"]["loss"][1][0] == 9);
  }
  SECTION("removed") {
    std::filesystem::remove(path);
    run.read(kAll);
    CHECK(history_of(run)["lines"] == 0);
  }
  SECTION("neither") { CHECK_FALSE(run.read(kAll).restarted); }
}

TEST_CASE("many lines at once are read in pieces, and told as one restart", "[watch]") {
  const WatchedRun watched;
  RunFiles run(watched.run);
  run.read_all();
  for (int i = 0; i < 1000; ++i) watched.add("{\"iteration\":20,\"loss\":3}\n");
  std::size_t told = run.read(1000).lines.size();
  int restarts = 0, reads = 1;
  for (bool more = true; more; ++reads) {
    const auto news = run.read(1000);
    told += news.lines.size();
    restarts += news.restarted ? 1 : 0;
    more = news.more;
  }
  CHECK(reads > 20);
  CHECK(restarts == 1);
  CHECK(told < 100);
  CHECK(history_of(run)["lines"] == 1004);
}

TEST_CASE("links and pipes among a run's files are not followed", "[watch]") {
  const WatchedRun watched;
  const auto secret =
      watched.folder.put("secret", "{\"iteration\":0,\"sample\":\"precious\",\"a\":1}\n");
  for (const char* name : {"metrics.jsonl", "layers.jsonl", "sessions.jsonl"}) {
    std::filesystem::remove(watched.run / name);
    std::filesystem::create_symlink(secret, watched.run / name);
  }
  RunFiles run(watched.run);
  run.read_all();
  CHECK(history_of(run)["lines"] == 0);
  CHECK(run.sessions().empty());
  std::filesystem::remove(watched.run / "metrics.jsonl");
  REQUIRE(::mkfifo((watched.run / "metrics.jsonl").c_str(), 0600) == 0);
  run.read_all();  // and does not wait for a writer
  CHECK(history_of(run)["lines"] == 0);
}

TEST_CASE("the state of a run: training while the folder is locked, ended, stopped", "[watch]") {
  const WatchedRun watched;
  RunFiles run(watched.run);
  run.read_all();
  CHECK(run.state() == RunState::stopped);
  const int lock = run::lock_folder(watched.run, "training");
  CHECK(run.read(kAll).changed);
  CHECK(run.state() == RunState::training);
  run.end_training();  // by the program that holds the lock
  CHECK(run.read(kAll).changed);
  CHECK(run.state() == RunState::stopped);
  ::close(lock);
  watched.add("{\"iteration\":100,\"val_loss\":2}\n");
  run.read_all();
  CHECK(run.state() == RunState::ended);
}

TEST_CASE("options and sessions are what the files have, without what is huge", "[watch]") {
  const WatchedRun watched;
  watched.folder.put("run/config.json", R"({"format":"f","optimizer":{"max_iters":7,"name":")" +
                                            std::string(50'000, 'n') +
                                            R"(","corpus":["a",{"hex":"ff"}]}})");
  watched.add("{\"first_step\":0,\"command\":\"train-gpt\"}\nnonsense\n", "sessions.jsonl");
  RunFiles run(watched.run);
  run.read_all();
  CHECK(run.max_iters() == 7);
  CHECK(run.options()["optimizer"]["name"].get<std::string>().size() < 2000);
  CHECK(run.options()["optimizer"]["corpus"][1] == "\xff");
  CHECK(run.sessions() == Json::parse(R"([{"first_step":0,"command":"train-gpt"}])"));
  for (int i = 0; i < 1000; ++i) watched.add("{\"first_step\":1}\n", "sessions.jsonl");
  run.read_all();
  CHECK(run.sessions().size() <= 40);
}

TEST_CASE("a folder of runs: all of them, once, links left out", "[watch]") {
  const WatchedRun watched;
  watched.make("deeper/run");
  TempFolder elsewhere;
  elsewhere.put("config.json", "{}");
  std::filesystem::create_directory_symlink(elsewhere.path(), watched.folder / "link");
  RunList runs({}, {watched.folder.path(), watched.run});
  CHECK(runs.runs().size() == 2);
  watched.make("new");
  CHECK(runs.look());
  CHECK(runs.runs().size() == 3);
  REQUIRE(runs.find(2) != nullptr);
  CHECK(runs.find(2)->name() == "new");
  CHECK(runs.find(3) == nullptr);
  CHECK_FALSE(runs.look());
  CHECK_FALSE(runs.is_full());
}

TEST_CASE("a run that is deleted leaves the list, and may come back", "[watch]") {
  const WatchedRun watched;
  const auto given = watched.folder / "given";
  std::filesystem::create_directory(given);  // without anything yet
  RunList runs({given}, {watched.folder.path()});
  CHECK(runs.runs().size() == 2);
  CHECK_FALSE(runs.look());
  std::filesystem::remove(watched.run / "config.json");
  const int lock = run::lock_folder(watched.run, "training");
  CHECK_FALSE(runs.look());  // its files are being replaced
  ::close(lock);
  CHECK(runs.look());
  CHECK(runs.runs().size() == 1);
  watched.make("run");
  CHECK(runs.look());
  CHECK(runs.runs().size() == 2);
  CHECK(runs.find(2)->name() == "run");
  std::filesystem::remove_all(watched.run);
  std::filesystem::remove_all(given);
  CHECK(runs.look());
  CHECK(runs.runs().empty());
}

TEST_CASE("of more runs than there is room for, those in training and the newest", "[watch]") {
  const WatchedRun watched;
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto make = [&](const std::string& name, int minutes_ago) {
    const auto run = watched.make(name);
    std::filesystem::last_write_time(run / "metrics.jsonl",
                                     now - std::chrono::minutes(minutes_ago));
    return run;
  };
  const auto names = [](const RunList& runs) {
    std::set<std::string> names;
    for (const auto& [id, run] : runs.runs()) names.insert(run->name());
    return names;
  };
  constexpr int count = kMostRuns;
  for (int i = 0; i < count; ++i) make("old-" + std::to_string(i), 100 + i);
  const auto trains = make("trains", 10'000);
  const int lock = run::lock_folder(trains, "training");
  RunList runs({}, {watched.folder.path()});  // with the one of WatchedRun, two too many
  CHECK(runs.is_full());
  auto seen = names(runs);
  CHECK(seen.size() == kMostRuns);
  CHECK((seen.contains("trains") && seen.contains("run")));
  CHECK_FALSE(seen.contains("old-" + std::to_string(count - 1)));
  CHECK_FALSE(seen.contains("old-" + std::to_string(count - 2)));
  CHECK_FALSE(runs.look());

  make("new", 0);
  make("older than all", 20'000);
  CHECK(runs.look());
  CHECK_FALSE(runs.look());
  seen = names(runs);
  CHECK(seen.size() == kMostRuns);
  CHECK((seen.contains("trains") && seen.contains("new")));
  CHECK_FALSE(seen.contains("old-" + std::to_string(count - 3)));
  CHECK_FALSE(seen.contains("older than all"));
  CHECK(runs.runs().rbegin()->second->name() == "new");
  CHECK(runs.runs().rbegin()->first == kMostRuns);  // IDs are not given twice
  ::close(lock);
}
