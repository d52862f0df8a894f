// `tapegrad sweep` as people call it.

#include "tapegrad/tests/apps/sweep/tiny_sweep.h"

using namespace tapegrad;

namespace {

namespace fs = std::filesystem;

void check_refused(const Args& args, const std::string& text) {
  const TinySweep sweep;
  const Result r = sweep.run(args);
  check_error_of("tapegrad sweep", r, 2, text);
  CHECK(!fs::exists(sweep.out));
}

}  // namespace

TEST_CASE("a sweep trains a run for each value and prints them by loss", "[sweep]") {
  const TinySweep sweep;
  // The second run fails at its first evaluation; the sweep goes on.
  const Args args = {"--vary", "learning-rate=1e-9,1e30,0.01", "--jobs", "2"};
  const Result r = sweep.run(args, 6, {"--grad-clip", "0", "--warmup-iters", "0"});
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  const std::string table = r.out.substr(r.out.find("\nrun  val loss"));
  const std::size_t best = table.find("\n003  "), next = table.find("\n001  "),
                    failed = table.find("\n002  ");
  CHECK(best < next);
  CHECK(next < failed);
  CHECK(failed < table.size());
  CHECK_THAT(table, ContainsSubstring("is not a number"));
  CHECK_THAT(table, ContainsSubstring(" --learning-rate=0.01\n"));
  CHECK_THAT(table, ContainsSubstring("watch " + sweep.out.string()));
  CHECK_THAT(sweep.file("sweep.csv"), ContainsSubstring("run,final_val_loss,learning-rate"));
  CHECK_THAT(sweep.file("001/output.txt"), ContainsSubstring("final: val loss"));
  CHECK_THAT(sweep.file("001/config.json"), ContainsSubstring("1e-09"));
  for (const char* same : {"\"seed\"", "\"batch_size\""}) {
    const auto value = [&](const std::string& run) {
      const std::string text = sweep.file(run + "/config.json");
      const std::size_t at = text.find(same);
      return text.substr(at, text.find('\n', at) - at);
    };
    CHECK(value("001") == value("003"));
  }

  // The page finds the runs.
  const Result page =
      run_program("tapegrad", {"watch", sweep.out, "--html", sweep.folder / "page.html"});
  check_ended_well(page);
  CHECK_THAT(page.out, ContainsSubstring("shows 3 runs"));

  // What is done stays done.
  const auto written = fs::last_write_time(sweep.out / "003/model.safetensors");
  const Result again = sweep.run(args, 6, {"--grad-clip", "0", "--warmup-iters", "0"});
  INFO(again.out << again.err);
  CHECK(again.code == 0);
  CHECK(again.out.substr(again.out.find("\nrun  val loss")) == table);
  CHECK(fs::last_write_time(sweep.out / "003/model.safetensors") == written);

  // Another sweep does not go there.
  const Result other = sweep.run({"--vary", "n-layer=1,2"});
  check_error_of("tapegrad sweep", other, 1, "another sweep");
  CHECK(fs::exists(sweep.out / "003/model.safetensors"));
}

TEST_CASE("a sweep of which all runs fail ends with 1", "[sweep]") {
  const TinySweep sweep;
  const Result r = sweep.run({"--vary", "learning-rate=1e30,2e30"}, 6,
                             {"--grad-clip", "0", "--warmup-iters", "0"});
  INFO(r.out << r.err);
  CHECK(r.code == 1);
  CHECK_THAT(r.out, ContainsSubstring("is not a number"));
}

TEST_CASE("a run that was broken off goes on, to the same bits", "[sweep]") {
  constexpr int iters = 8;
  const Args options = {"--vary", "n-layer=1,2"}, schedule = {"--lr-decay-iters", "8"};
  const TinySweep sweep;
  check_ended_well(sweep.run(options, iters, schedule));
  const fs::path run = sweep.out / "001", whole = sweep.folder / "whole";
  fs::rename(run, whole);
  check_ended_well(train(without(tiny_run(sweep.corpus, run, iters / 2), "--lr-decay-iters") +
                         schedule + Args{"--n-layer", "1"}));
  Json record = sweep.record();
  record["runs"][0]["final_val_losses"] = Json::array();
  write_json(sweep.out / "sweep.json", record);
  check_ended_well(sweep.run(options, iters, schedule));
  CHECK_THAT(sweep.file("001/sessions.jsonl"), ContainsSubstring("\"first_step\":4"));
  CHECK(same_model(run, whole));
  CHECK(sweep.record().at("runs").at(0).at("steps") == iters);
  CHECK_THAT(sweep.file("002/sessions.jsonl"), !ContainsSubstring("resume"));
}

TEST_CASE("halving trains the best runs on, as if they had not stopped", "[sweep]") {
  constexpr int iters = 24;
  const TinySweep sweep;
  check_ended_well(sweep.run({"--vary", "learning-rate=1e-9,0.001,0.02,1e-8", "--search", "halving",
                              "--eta", "2", "--jobs", "2"},
                             iters));
  const Json runs = sweep.record().at("runs");
  std::vector<std::size_t> rungs;
  std::vector<int> steps;
  for (const Json& run : runs) {
    rungs.push_back(run.at("final_val_losses").size());
    steps.push_back(run.at("steps").get<int>());
  }
  CHECK(rungs[1] + rungs[2] == 5);
  CHECK(rungs[0] == 1);
  CHECK(rungs[3] == 1);
  CHECK(steps[0] == 6);
  const std::size_t best = rungs[1] == 3 ? 1 : 2;
  CHECK(steps[best] == iters);
  CHECK(steps[3 - best] == 12);
  const fs::path alone = sweep.folder / "alone";
  check_ended_well(train(
      without(tiny_run(sweep.corpus, alone, iters), "--lr-decay-iters") +
      Args{"--learning-rate", runs.at(best).at("values").at("learning-rate").get<std::string>()}));
  CHECK(same_model(sweep.out / runs.at(best).at("run").get<std::string>(), alone));
}

TEST_CASE("a sweep refuses names and values before anything runs", "[sweep]") {
  check_refused({}, "--vary NAME=A,B");
  check_refused({"--vary", "n-layers=1,2"}, "did you mean n-layer?");
  check_refused({"--vary", "n-layer=1,0"}, "run 002 (n-layer=0): ");
  check_refused({"--vary", "n-head=2,3"}, "run 002 (n-head=3): ");
  check_refused({"--vary", "schedule=cosine,none"}, "schedule");
  check_refused({"--vary", "n-layer=1,2", "--max-minutes", "1"}, "--max-iters");
  check_refused({"--vary", "max-iters=5,6", "--search", "halving"}, "the same --max-iters");
  check_refused({"--vary", "n-layer=1,2", "--eta", "2"}, "--eta is for --search halving");
  check_refused({"--vary", "n-layer=1,2", "--seed", "2"}, "--seed is for values that are drawn");
  const TinySweep sweep;
  check_error_of("tapegrad sweep", sweep.run({"--vary", "n-layer=1,2"}, 6, {"--threads", "1"}), 2,
                 "--jobs N");
  for (const Args& more :
       {Args{"--out-dir", "x"}, {"--init-from", "resume"}, {"--plan"}, {"--final-eval", "none"}}) {
    const Result r = sweep.run({"--vary", "n-layer=1,2"}, 6, more);
    check_error_of("tapegrad sweep", r, 2, "no option of a run");
  }
  CHECK(!fs::exists(sweep.out));
}

TEST_CASE("a sweep refuses what a file behind -- has for its runs as well", "[sweep]") {
  const TinySweep sweep;
  const fs::path minutes = sweep.folder.put("minutes", "max_minutes = 3\n");
  const Result r = run_program("tapegrad", {"sweep", "--vary", "n-layer=1,2", "--out-dir",
                                            sweep.out, "--", sweep.corpus, "--config", minutes});
  check_error_of("tapegrad sweep", r, 2, "--max-minutes 3 is no option of a run");
  const fs::path overwrite = sweep.folder.put("overwrite", "overwrite = true\n");
  check_error_of("tapegrad sweep", sweep.run({"--vary", "n-layer=1,2"}, 6, {"--config", overwrite}),
                 2, "--overwrite behind --");
  const fs::path resume = sweep.folder.put("resume", "init_from = resume\n");
  check_error_of("tapegrad sweep", sweep.run({"--vary", "n-layer=1,2"}, 6, {"--config", resume}), 2,
                 "--init-from resume");
  check_error_of("tapegrad sweep", sweep.run({"--vary", "init-from=scratch,resume"}), 2,
                 "--init-from resume");
  CHECK(!fs::exists(sweep.out));
}

TEST_CASE("a sweep does not remove what its runs read", "[sweep]") {
  const TinySweep sweep;
  check_ended_well(sweep.run({"--vary", "dropout=0,0.1"}));
  const fs::path model = sweep.out / "002";
  const auto check_kept = [&](const Args& args, const std::string& text) {
    const Result r = run_program("tapegrad", args);
    check_error_of("tapegrad sweep", r, 1, text);
    CHECK(fs::exists(sweep.out / "001/model.safetensors"));
    CHECK(fs::exists(model / "model.safetensors"));
  };
  const Args begin = {"sweep", "--vary", "dropout=0.2", "--out-dir", sweep.out, "--overwrite"};
  check_kept(begin + Args{"--", sweep.corpus, "--max-iters", "6", "--init-from", model},
             "which --overwrite would remove");
  const fs::path own = sweep.folder.put("out/002/own.txt", tiny_text());
  check_kept(begin + Args{"--", own, "--max-iters", "6"}, "which --overwrite would remove");
  const fs::path text = sweep.folder.put("out/001/text/a.txt", tiny_text()).parent_path();
  check_kept(begin + Args{"--", text.parent_path(), "--max-iters", "6"}, "lies inside");
}

TEST_CASE("a sweep whose runs would lie inside their text is refused", "[sweep]") {
  const TempFolder folder;
  folder.put("notes/text.txt", tiny_text());
  for (const Args& out : {Args{"--out-dir", "notes/out"}, Args{}}) {
    const Args args = Args{"sweep", "--vary", "n-layer=1,2"} + out +
                      Args{"--", out.empty() ? "." : "notes", "--max-iters", "6"};
    const Result r = run_program("tapegrad", args, folder.path());
    check_error_of("tapegrad sweep", r, 1, "lies inside");
  }
  CHECK(!fs::exists(folder / "notes/out"));
  CHECK(!fs::exists(folder / "sweeps"));
}
