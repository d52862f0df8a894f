// tapegrad metrics: what a run has recorded, as comma-separated values.

#include "tapegrad/apps/events/metrics_csv.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;

namespace {

struct Folder {
  TempFolder folder;
  explicit Folder(const std::string& metrics) { folder.put("metrics.jsonl", metrics); }
  Result csv(const Args& more = {}) const {
    return run_program("metrics", Args{folder.path(), "--csv"} + more);
  }
};

}  // namespace

TEST_CASE("fields are quoted as RFC 4180 says", "[metrics]") {
  using tapegrad::events::csv_field;
  CHECK(csv_field("1.5e-3") == "1.5e-3");
  CHECK(csv_field("a b;c") == "a b;c");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"x\"\n") == "\"say \"\"x\"\"\n\"");
}

TEST_CASE("a step is a row, and a name of a number is a column", "[metrics]") {
  const Folder run(
      "{\"iteration\":0,\"train_loss\":4.5,\"val_loss\":4.25}\n"
      "{\"iteration\":0,\"loss\":4.125,\"lr\":1e-05}\n"
      "{\"iteration\":1,\"skipped\":true,\"loss\":9.0,\"norm\":null}\n"
      "{\"iteration\":2,\"sample\":\"one,\\n\\\"two\\\"\"}\n"
      "{\"iteration\":3,\"a,b\":-7,\"list\":[1]}\n"
      "{\"iteration\":4,\"lo");
  const Result r = run.csv();
  check_ended_well(r);
  CHECK(r.err.empty());
  CHECK(r.out ==
        "iteration,train_loss,val_loss,loss,lr,skipped,norm,\"a,b\"\n"
        "0,4.5,4.25,4.125,1e-05,,,\n"
        "1,,,9.0,,true,,\n"
        "3,,,,,,,-7\n");
  const Result samples = run.csv({"--samples"});
  check_ended_well(samples);
  CHECK_THAT(samples.out, ContainsSubstring(",sample,") &&
                              ContainsSubstring("\n2,,,,,,,\"one,\n\"\"two\"\"\",\n"));
}

TEST_CASE("lines that cannot be read are told and left out", "[metrics]") {
  const Folder run("{\"iteration\":0,\"loss\":1.5}\nnonsense\n[1]\n\n{\"iteration\":\"x\"}\n" +
                   std::string(3 << 20, '[') + "\n{\"iteration\":1,\"loss\":2.5}\n");
  const Result r = run.csv();
  check_ended_well(r);
  CHECK(r.out == "iteration,loss\n0,1.5\n1,2.5\n");
  CHECK_THAT(r.err, ContainsSubstring("5 lines that cannot be read are left out") &&
                        ContainsSubstring("the first is line 2"));
}

TEST_CASE("too many columns are refused", "[metrics]") {
  std::string line = "{\"iteration\":0";
  for (int i = 0; i < 1001; ++i) line += ",\"n" + std::to_string(i) + "\":1";
  const Folder run(line + "}\n");
  check_error_of("metrics", run.csv(), 1, "more than 1000 names");
}

TEST_CASE("a run is exported, its layers too, to stdout or a file", "[metrics]") {
  const TinyRun run(6, {"--layer-stats", "2"});
  const Result r = run_program("metrics", {run.run, "--csv"});
  check_ended_well(r);
  CHECK(r.out.rfind("iteration,train_loss,val_loss,loss,lr,norm,ms,tokens_per_second,", 0) == 0);
  CHECK(std::count(r.out.begin(), r.out.end(), '\n') == 1 + 7);  // steps 0 to 5, and the end
  const fs::path out = run.folder / "all.csv";
  check_ended_well(run_program("metrics", {run.run, "--out", out}));
  CHECK(TempFolder::get(out) == r.out);

  const Result layers = run_program("metrics", {run.run, "--layers"});
  check_ended_well(layers);
  CHECK(layers.out.rfind("iteration,layer,gradient,weight,update\n0,wte,0.", 0) == 0);
  CHECK_THAT(layers.out, ContainsSubstring("\n4,h.1.mlp.c_proj,"));
}

TEST_CASE("runs that differ in nothing but the seed are one row of a table", "[metrics]") {
  TempFolder folder;
  const auto put = [&](const std::string& name, const std::string& optimizer, int seed, double best,
                       const std::string& more = "{}") {
    const std::string path = "runs/" + name;
    folder.put(path + "/config.json", "{\"optimizer\":{\"learning_rate\":0.1,\"optimizer\":\"" +
                                          optimizer + "\"},\"random\":{\"seed\":" +
                                          std::to_string(seed) + "},\"model\":" + more + "}");
    folder.put(path + "/metrics.jsonl",
               "{\"iteration\":10,\"train_loss\":1.5,\"val_loss\":" + std::to_string(best) +
                   "}\n{\"iteration\":20,\"train_loss\":1,\"val_loss\":9}\n"
                   "{\"iteration\":20,\"final_val_loss\":2.5}\n");
  };
  put("a1", "adamw", 1, 2);
  put("a2", "adamw", 2, 3);
  put("a3", "adamw", 3, 4);
  put("s1", "sgd|x", 1, 1, "{\"window\":0,\"arch\":\"gpt2\"}");  // a run of another version
  const std::string runs = folder / "runs";
  const Result text = run_program("metrics", {runs});
  check_ended_well(text);
  CHECK(text.err.empty());
  CHECK(text.out ==
        "optimizer  seeds  best val loss    at step  train loss there  final val loss\n"
        "sgd|x      1      1.0000           10       1.5000            2.5000\n"
        "adamw      3      3.0000 ± 1.0000  10 ± 0   1.5000 ± 0.0000   2.5000 ± 0.0000\n");
  const Result markdown = run_program("metrics", {runs, "--format", "markdown"});
  check_ended_well(markdown);
  CHECK_THAT(markdown.out,
             ContainsSubstring("|---|---|---|---|---|---|\n| sgd\\|x | 1 | 1.0000 |"));
  const Result csv = run_program("metrics", {runs + "/a1", runs + "/a2", "--csv"});
  check_ended_well(csv);
  CHECK(csv.out ==
        "seeds,best_val_loss_mean,best_val_loss_sd,best_iteration_mean,best_iteration_sd,"
        "train_loss_mean,train_loss_sd,final_val_loss_mean,final_val_loss_sd\n"
        "2,2.5,0.707106781,10,0,1.5,0,2.5,0\n");

  // What only some runs have tells runs apart where nothing else does.
  put("a4", "adamw", 4, 5, "{\"window\":8}");
  put("a5", "adamw", 1, 2);
  folder.put("runs/new/config.json", "{}");
  const Result more = run_program("metrics", {runs, "-o", folder / "table.txt"});
  check_ended_well(more);
  CHECK_THAT(TempFolder::get(folder / "table.txt"),
             ContainsSubstring("\nadamw      –       4      2.7500") &&
                 ContainsSubstring("\nadamw      8       1      5.0000"));
  CHECK_THAT(more.err, ContainsSubstring("new: left out, it has no validation loss") &&
                           ContainsSubstring("a5 has the seed of a1: both are counted"));
  check_error_of("metrics", run_program("metrics", {runs, "--layers"}), 2, "of one RUN");
  check_error_of("metrics", run_program("metrics", {folder / "runs/new", "--format", "text"}), 1,
                 "none of the 1 runs has a validation loss");
}

TEST_CASE("cells of tables stay on their line", "[metrics]") {
  using namespace tapegrad::events;
  CHECK(text_table({"a", "b"}, {{"é\n\x1b", "x"}}) == "a    b\né??  x\n");
  CHECK(markdown_table({"a"}, {{"|\xff"}}) == "| a |\n|---|\n| \\|? |\n");
  CHECK(csv_table({"a", "b"}, {{"1,2", ""}}) == "a,b\n\"1,2\",\n");
}

TEST_CASE("wrong uses of tapegrad metrics are said", "[metrics]") {
  check_error_of("metrics", run_program("metrics", {}), 2, "a RUN is needed");
  const Folder run("");
  check_error_of("metrics", run.csv({"--layers"}), 1, "--layer-stats N writes it");
  check_error_of("metrics", run.csv({"--layers", "--samples"}), 2, "exclude each other");
  check_error_of("metrics", run_program("metrics", {run.folder / "none"}), 1,
                 "is not a folder of a run");
  CHECK(run.csv().out == "iteration\n");
  fs::remove(run.folder / "metrics.jsonl");
  fs::create_symlink("/etc/passwd", run.folder / "metrics.jsonl");
  check_error_of("metrics", run.csv(), 1, "symbolic link");
}
