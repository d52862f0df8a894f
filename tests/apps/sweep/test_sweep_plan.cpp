// The parts of a sweep that neither train nor read files: values, rungs, arguments, the table.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sweep/sweep_plan.h"
#include "tapegrad/apps/sweep/sweep_search.h"
#include "tapegrad/apps/sweep/sweep_table.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::sweep;

namespace {

OptionKind kind_of(const std::string& name) {
  if (name == "n-layer" || name == "n-embd") return OptionKind::whole;
  if (name == "schedule") return OptionKind::other;
  return OptionKind::real;
}

VariedOption varied(const std::string& text) { return parse_varied(text, kind_of); }

void check_refused(const std::string& text, const std::string& why) {
  INFO(text);
  CHECK_THROWS_AS(varied(text), cli::UsageError);
  CHECK_THROWS_WITH(varied(text), ContainsSubstring(why));
}

// Options as those of training.
struct TrainingOptions {
  int n_layer = 1;
  double dropout = 0;
  std::string out_dir = {};

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("n_layer", o.n_layer, "layers");
    t("dropout", o.dropout, "dropout");
    t("out_dir", o.out_dir, "folder");
  }
};

SweepRecord record_of(const std::vector<double>& losses) {
  SweepRecord record{.asked = {{"seed", 1}}, .names = {"n-layer"}};
  std::vector<Values> values;
  for (std::size_t i = 0; i < losses.size(); ++i) values.push_back({std::to_string(i)});
  record.runs = new_runs(values);
  for (std::size_t i = 0; i < losses.size(); ++i) record.runs[i].losses = {losses[i]};
  return record;
}

std::vector<std::string> names_in_order(const SweepRecord& record) {
  std::vector<std::string> names;
  for (const RunRecord* run : ranked(record)) names.push_back(run->name);
  return names;
}

}  // namespace

TEST_CASE("--vary takes lists of numbers and of words", "[sweep]") {
  const VariedOption layers = varied("n_layer=4,6");
  CHECK(layers.name == "n-layer");
  CHECK(layers.values == Values{"4", "6"});
  CHECK(varied("schedule=cosine,linear").values == Values{"cosine", "linear"});
  CHECK(varied("--corpus=../a,../b").values == Values{"../a", "../b"});
  check_refused("n-layer", "NAME=A,B,C");
  check_refused("n-layer=", "NAME=A,B,C");
  check_refused("n-layer=4,,6", "empty");
  check_refused("n-layer=4,6,4", "twice");
}

TEST_CASE("options to vary are those that training has, each once", "[sweep]") {
  const TrainingOptions training;
  const auto options = [&](const std::vector<std::string>& vary) {
    return varied_options({.vary = vary}, training);
  };
  const auto two = options({"n_layer=1..3", "dropout=0..1"});
  CHECK(two[0].whole);
  CHECK(!two[1].whole);
  CHECK_THROWS_WITH(options({"n-layers=1,2"}), ContainsSubstring("did you mean n-layer?"));
  CHECK_THROWS_WITH(options({"n-layer=1,2", "n_layer=3"}), ContainsSubstring("twice"));
  CHECK_THROWS_WITH(options({"out-dir=a,b"}), ContainsSubstring("the sweep decides"));
}

TEST_CASE("a range is spread by logarithm where it is wide or of a rate", "[sweep]") {
  CHECK(varied("dropout=0.01..0.1").log);
  CHECK(!varied("dropout=0.02..0.1").log);
  CHECK(!varied("dropout=0..0.5").log);
  CHECK(varied("learning-rate=1e-3..2e-3").log);
  CHECK(varied("weight-decay=0.1..0.2").log);
  CHECK(!varied("weight-decay=0..1").log);
  CHECK(varied("n-layer=2..6").whole);
  CHECK(!varied("weight-decay=0..1").whole);
  check_refused("n-layer=2..6.5", "whole number");
  check_refused("n-layer=6..2", "larger");
  check_refused("schedule=1..2", "no number");
  check_refused("dropout=0..inf", "finite");
}

TEST_CASE("a grid has all combinations, the last option changing fastest", "[sweep]") {
  const std::vector<VariedOption> options = {varied("n-layer=4,6"), varied("dropout=0,0.1,0.2")};
  CHECK(combinations(options) == 6);
  const auto all = grid(options, 999);
  REQUIRE(all.size() == 6);
  CHECK(all[0] == Values{"4", "0"});
  CHECK(all[1] == Values{"4", "0.1"});
  CHECK(all[5] == Values{"6", "0.2"});
  CHECK(grid(options, 4) == std::vector<Values>(all.begin(), all.begin() + 4));
}

TEST_CASE("drawn values depend on seed and index, and fill their range", "[sweep]") {
  const std::vector<VariedOption> options = {varied("learning-rate=1e-4..1e-2"),
                                             varied("n-layer=1..4"), varied("dropout=0,0.1")};
  CHECK(draw(options, 7, 3) == draw(options, 7, 3));
  CHECK(draw(options, 7, 3) != draw(options, 8, 3));
  CHECK(draw(options, 7, 3) != draw(options, 7, 4));
  std::set<std::string> layers, dropouts;
  int below = 0;
  constexpr int count = 400;
  for (std::size_t i = 0; i < count; ++i) {
    const Values v = draw(options, 7, i);
    const double rate = std::stod(v[0]);
    REQUIRE(rate >= 1e-4);
    REQUIRE(rate <= 1e-2);
    CHECK(v[0].size() <= 9);
    below += rate < 1e-3;  // the middle of the logarithms
    layers.insert(v[1]);
    dropouts.insert(v[2]);
  }
  CHECK(std::abs(below - count / 2) < 50);
  CHECK(layers == std::set<std::string>{"1", "2", "3", "4"});
  CHECK(dropouts == std::set<std::string>{"0", "0.1"});
}

TEST_CASE("halving divides runs and steps by eta", "[sweep]") {
  const auto rungs = [](std::size_t runs, std::int64_t steps, int eta) {
    std::vector<std::pair<std::size_t, std::int64_t>> pairs;
    for (const Rung& r : halving_rungs(runs, steps, eta)) pairs.emplace_back(r.runs, r.steps);
    return pairs;
  };
  using Pairs = std::vector<std::pair<std::size_t, std::int64_t>>;
  CHECK(rungs(27, 2000, 3) == Pairs{{27, 74}, {9, 222}, {3, 666}, {1, 2000}});
  CHECK(rungs(12, 90, 3) == Pairs{{12, 10}, {4, 30}, {1, 90}});
  CHECK(rungs(8, 8, 2) == Pairs{{8, 1}, {4, 2}, {2, 4}, {1, 8}});
  CHECK(rungs(2, 90, 3) == Pairs{{2, 90}});
  CHECK(rungs(12, 5, 3) == Pairs{{12, 1}, {4, 5}});  // no rung of no step
}

TEST_CASE("halving tries the values of a grid, or draws them", "[sweep]") {
  SearchOptions o{.vary = {"n-layer=1,2"}, .search = Search::halving, .runs = 5};
  CHECK(values_of(o, {varied("n-layer=1,2")}) == std::vector<Values>{{"1"}, {"2"}});
  CHECK(values_of(o, {varied("n-layer=1..9")}).size() == 5);
  o.search = Search::grid;
  CHECK_THROWS_WITH(values_of(o, {varied("n-layer=1..2")}), ContainsSubstring("needs lists"));
}

TEST_CASE("no combination is drawn twice, and a longer sweep begins as a shorter one", "[sweep]") {
  SearchOptions o{.vary = {}, .search = Search::random, .runs = 4};
  const std::vector<VariedOption> options = {varied("n-layer=1..3"), varied("dropout=0,0.1")};
  const auto four = values_of(o, options);
  REQUIRE(four.size() == 4);
  o.runs = 20;  // more than there are
  const auto all = values_of(o, options);
  CHECK(all.size() == 6);
  CHECK(std::set<Values>(all.begin(), all.end()).size() == 6);
  CHECK(std::equal(four.begin(), four.end(), all.begin()));
}

TEST_CASE("values are drawn at random, and where there is a range and no grid", "[sweep]") {
  const std::vector<VariedOption> list = {varied("n-layer=1,2")}, range = {varied("n-layer=1..2")};
  CHECK(!draws({}, list));
  CHECK(draws({}, range));
  CHECK(draws({.search = Search::random}, list));
  CHECK(draws({.search = Search::halving}, range));
  CHECK(!draws({.search = Search::halving}, list));
  CHECK(!draws({.search = Search::grid}, range));
}

TEST_CASE("the best of a rung go on, and failed runs never", "[sweep]") {
  const double none = std::nan("");
  CHECK(lowest({3, 1, none, 2}, 2) == std::vector<std::size_t>{1, 3});
  CHECK(lowest({3, none, none}, 2) == std::vector<std::size_t>{0});
  CHECK(lowest({2, 2, 1}, 2) == std::vector<std::size_t>{2, 0});
  SweepRecord record = record_of({3, 1, none, 2, 5, 4});
  SweepPlan plan{.rungs = {{6, 10}, {2, 30}}};
  CHECK(members(plan, record, 0).size() == 6);
  CHECK(members(plan, record, 1) == std::vector<std::size_t>{1, 3});
  // A result of a later rung does not change who has gone on.
  record.runs[1].losses.push_back(9);
  record.runs[3].error = "failed there";
  CHECK(members(plan, record, 1) == std::vector<std::size_t>{1, 3});
}

TEST_CASE("as many runs go on side by side as fit into the memory", "[sweep]") {
  CHECK(fitting_jobs(4, {1, 1, 1, 1, 1}, std::nullopt) == 4);
  CHECK(fitting_jobs(4, {1, 1}, std::nullopt) == 2);
  CHECK(fitting_jobs(4, {1, 3, 2, 1}, 5.5) == 2);  // the two largest
  CHECK(fitting_jobs(4, {8, 8}, 5.0) == 1);
}

TEST_CASE("a run that goes on keeps its steps, and the sweep's options come last", "[sweep]") {
  const SweepRecord record = record_of({1});
  SweepPlan plan{
      .folder = "out", .args = {"--max-iters", "9", "text"}, .rungs = {{1, 0}}, .max_minutes = 2};
  const auto joined = [&](bool resumes) {
    return fmt::format("{}", fmt::join(training_args(plan, record, record.runs[0],
                                                     {.resumes = resumes, .threads = 3}),
                                       " "));
  };
  const std::string begin = "train --final-eval all --no-sample --threads 3 ";
  CHECK(joined(false) ==
        begin + "--max-minutes 2 --max-iters 9 text --n-layer=0 --out-dir out/001");
  CHECK(joined(true) == begin +
                            "--max-iters 9 text --n-layer=0 --init-from resume --checkpoint last "
                            "--out-dir out/001");
  plan.rungs[0].steps = 27;
  CHECK_THAT(joined(true), ContainsSubstring("--n-layer=0 --max-iters 27 --init-from"));
}

TEST_CASE("runs share the threads with those that are there to run", "[sweep]") {
  const SweepPlan plan{.jobs = 4, .threads = 9};
  CHECK(threads_of_run(plan, 1) == 9);
  CHECK(threads_of_run(plan, 2) == 4);
  CHECK(threads_of_run(plan, 4) == 2);
  CHECK(threads_of_run(plan, 100) == 2);
  CHECK(threads_of_run({.jobs = 4, .threads = 2}, 4) == 1);
}

TEST_CASE("a run that has come through more rungs is better than one of a lower loss", "[sweep]") {
  SweepRecord record = record_of({1, 3, 2, 4});
  record.runs[1].losses.push_back(2.5);
  record.runs[2].losses.push_back(2.6);
  record.runs[2].losses.push_back(2.7);
  record.runs[3].losses.push_back(0.1);
  record.runs[3].error = "failed there";
  CHECK(names_in_order(record) == std::vector<std::string>{"003", "002", "001", "004"});
}

TEST_CASE("the command of a run trains for as long as the run has", "[sweep]") {
  SweepRecord record = record_of({3});
  const SweepPlan plan{.args = {"--max-iters", "90"}, .rungs = {{9, 10}, {3, 30}, {1, 90}}};
  const auto command = [&] { return command_of_run(plan, record, record.runs[0]); };
  CHECK_THAT(command(), ContainsSubstring(" --max-iters 90 --n-layer=0 --max-iters 10"));
  record.runs[0].losses = {3, 2, 1};
  CHECK_THAT(command(), ContainsSubstring(" --max-iters 90 --n-layer=0"));
  CHECK_THAT(command(), !ContainsSubstring("--n-layer=0 "));
}

TEST_CASE("the table has the lowest loss first and failed runs last", "[sweep]") {
  SweepRecord record = record_of({2, 1, 3, 0.5});
  record.runs[3].error = "the loss, \"nan\"";
  record.runs[2].losses.clear();
  record.runs[1].steps = 20;
  record.runs[1].seconds = 90;
  CHECK(names_in_order(record) == std::vector<std::string>{"002", "001", "004", "003"});
  CHECK(table_csv(record) ==
        "run,final_val_loss,n-layer,steps,minutes,error\n"
        "002,1,1,20,1.50,\n"
        "001,2,0,0,0.00,\n"
        "004,,3,0,0.00,\"the loss, \"\"nan\"\"\"\n"
        "003,,2,0,0.00,\n");
  CHECK_THAT(table_text(record), ContainsSubstring("002  1.0000    1        20     1.50"));
  CHECK_THAT(table_text(record), ContainsSubstring("not done"));
}
