// tapegrad metrics: what a run has recorded, as comma-separated values.

#include "tapegrad/apps/events/metrics_csv.h"
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

TEST_CASE("wrong uses of tapegrad metrics are said", "[metrics]") {
  check_error_of("metrics", run_program("metrics", {}), 2, "one RUN is needed");
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
