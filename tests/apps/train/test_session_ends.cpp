// How each call of training ended, and why: sessions.jsonl, the report, and what the page gets.

#include <signal.h>

#include <nlohmann/json.hpp>

#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/apps/watch/run_files.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;
using nlohmann::json;
using watch::RunState;

namespace {

std::vector<json> sessions_of(const CorpusAndRun& files) {
  std::vector<json> list;
  std::istringstream lines(files.file("sessions.jsonl"));
  for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
  return list;
}

// Checks the words about a run: in its state, in the reason for it, and in its report.
void check_said(const CorpusAndRun& files, RunState state, const std::string& reason,
                const std::string& in_report) {
  watch::RunFiles run(files.run);
  run.read_all();
  CHECK(run.state() == state);
  CHECK_THAT(run.reason(), ContainsSubstring(reason));
  CHECK(run.reason().empty() == reason.empty());
  CHECK_THAT(files.file("report.html"), ContainsSubstring(in_report));
}

const Args kDivergingSoon = {"--learning-rate", "1e38", "--warmup-iters",  "0",
                             "--keep",          "last", "--eval-interval", "2"};

}  // namespace

TEST_CASE("a run that made its steps says so", "[sessions]") {
  const TinyRun tiny(3);
  const json end = sessions_of(tiny).at(1);
  CHECK(end.at("ended") == "finished");
  CHECK(end.at("last_step") == 3);
  CHECK_FALSE(end.contains("why"));
  CHECK(end.at("ended_at").get<std::string>().size() == 20);
  check_said(tiny, RunState::ended, "", "<th scope=\"row\">ended</th><td>finished</td>");
}

TEST_CASE("a run that an error has ended says which", "[sessions]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const Result r = train(tiny_run(files.corpus, files.run, 50) + kDivergingSoon);
  INFO(r.out << r.err);
  REQUIRE(r.code == 1);
  const json end = sessions_of(files).at(1);
  CHECK(end.at("ended") == "error");
  const auto why = end.at("why").get<std::string>();
  CHECK_THAT(r.err, ContainsSubstring(why.substr(0, 40)));
  CHECK_THAT(why, ContainsSubstring("ower the learning rate"));
  check_said(files, RunState::failed, why, "<p class=\"note\">failed: ");
  // It goes on, and is then a run like others.
  const auto made = end.at("last_step").get<int>();
  REQUIRE(made > 0);
  check_ended_well(train(resume_run(files.run, made + 1) + Args{"--learning-rate", "0.01"}));
  CHECK(sessions_of(files).size() == 4);
  check_said(files, RunState::ended, "", "finished");
}

TEST_CASE("a run that a signal has stopped says which", "[sessions]") {
  const auto [signal, name] = GENERATE(std::pair(SIGTERM, "SIGTERM"), std::pair(SIGINT, "SIGINT"));
  const CorpusAndRun files("text.txt", tiny_text());
  Program program("train-gpt", tiny_run(files.corpus, files.run, 1'000'000));
  program.wait_for("iter 3:");
  program.send(signal);
  CHECK(program.wait().code == 130);
  const json end = sessions_of(files).at(1);
  CHECK(end.at("ended") == "stopped");
  CHECK_THAT(end.at("why").get<std::string>(), ContainsSubstring(name));
  CHECK(end.at("last_step").get<int>() > 3);
  check_said(files, RunState::stopped, name, std::string("<p class=\"note\">stopped: ") + name);
}

TEST_CASE("a run that was killed has no line that says how it ended", "[sessions]") {
  const CorpusAndRun files("text.txt", tiny_text());
  {
    Program program("train-gpt", tiny_run(files.corpus, files.run, 1'000'000));
    program.wait_for("step 5:");
    program.send(SIGKILL);
    CHECK(program.wait().code == -SIGKILL);
  }
  CHECK(sessions_of(files).size() == 1);
  check_ended_well(run_program("watch", {files.run, "--html", files.run / "report.html"}));
  check_said(files, RunState::stopped, "killed",
             "<th scope=\"row\">ended</th><td>killed, or the power failed</td>");
  // Of a call that was made before calls told their end, nobody knows.
  json older = sessions_of(files).at(0);
  CHECK(older.erase("tells_end") == 1);
  std::ofstream(files.run / "sessions.jsonl") << older.dump() << "\n";
  check_ended_well(run_program("watch", {files.run, "--html", files.run / "report.html"}));
  check_said(files, RunState::stopped, "", "<p class=\"note\">stopped</p>");
  CHECK_THAT(TempFolder::get(files.run / "report.html"), !ContainsSubstring("killed"));
}

TEST_CASE("a run that stops early, or with its time, says so", "[sessions]") {
  const CorpusAndRun early("text.txt", tiny_text()), timed("text.txt", tiny_text());
  check_ended_well(
      train(tiny_run(early.corpus, early.run, 50) +
            Args{"--learning-rate", "5", "--early-stop", "2", "--final-eval", "none"}));
  CHECK(sessions_of(early).at(1).at("ended") == "early stop");
  check_said(early, RunState::ended, "early stop", "<p class=\"note\">ended: early stop</p>");
  Args args = tiny_run(timed.corpus, timed.run, 50);
  args.erase(args.begin() + 4, args.begin() + 6);  // --max-iters
  check_ended_well(train(args + Args{"--max-minutes", "0.02", "--lr-decay-iters", "50"}));
  CHECK(sessions_of(timed).at(1).at("ended") == "time budget");
  check_said(timed, RunState::ended, "time budget", "<p class=\"note\">ended: time budget</p>");
}

TEST_CASE("a reader of the output that goes away does not end the training", "[sessions]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const auto run_through = [&](const Args& more, const std::string& reader) {
    std::string command = "(" + quoted_program("train-gpt");
    for (const std::string& arg : tiny_run(files.corpus, files.run, 300) + more) {
      command += " " + quoted(arg);
    }
    command += " 2>" + quoted(files.folder / "err") + "; echo $? >" +
               quoted(files.folder / "code") + ") | " + reader;
    REQUIRE(std::system(command.c_str()) == 0);
    return TempFolder::get(files.folder / "code");
  };
  CHECK(run_through({}, "head -n 1 >/dev/null") == "0\n");
  CHECK(sessions_of(files).at(1).at("ended") == "finished");
  CHECK(sessions_of(files).at(1).at("last_step") == 300);
  const std::string said = TempFolder::get(files.folder / "err");
  CHECK_THAT(said,
             ContainsSubstring("the output cannot be written: Broken pipe. The program goes on"));
  // Nobody read anything at all, and the page's lines are lost as well.
  CHECK(run_through({"--overwrite", "--serve", "0"}, "true") == "0\n");
  CHECK(sessions_of(files).at(1).at("last_step") == 300);
  CHECK(run_through({"--overwrite", "--strict-log"}, "head -n 1 >/dev/null") == "130\n");
  CHECK(sessions_of(files).at(1).at("why") == "the output could not be written");
}
