// Trains with several values of options, each in a run of its own, and compares the runs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/sweep/sweep_loop.h"
#include "tapegrad/apps/sweep/sweep_search.h"
#include "tapegrad/apps/sweep/sweep_table.h"
#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/fast.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

struct Options {
  sweep::SearchOptions search;
  std::vector<std::string> train;
  std::string preset, out_dir;
  std::optional<double> max_minutes;
  std::optional<int> jobs;
  bool overwrite = false;
  bool says_overwrite = false, says_seed = false;  // with any value, also in a file
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  std::vector<std::string> presets;
  for (const auto& preset : gpt::presets()) presets.push_back(preset.name);
  cli::CommandLine cli(call.name,
                       "Trains with several values of options, a run each, and compares the runs.");
  cli.words(o.train, "-- OPTION", "more options of tapegrad train, the same for all runs");
  cli.group("Search");
  cli.options(o.search);
  cli.one_value_each("--vary");
  cli.group("Runs");
  cli.choice("preset", o.preset, presets, "preset of all runs: see tapegrad train --help");
  cli("max_minutes", o.max_minutes, "train each run for about X minutes",
      {.least = 0.01, .most = 1e6});
  cli("out_dir", o.out_dir,
      "folder of the sweep, where run 1 is in 001; the same command goes on with the sweep in it "
      "[the next free sweeps/PRESET-N]",
      {.value = "DIR"});
  cli("jobs", o.jobs,
      "runs side by side, which share the processors [as many as there are processors and memory "
      "is available for]",
      {.least = 1, .most = kMaxThreads});
  cli("overwrite", o.overwrite, "remove the sweep in --out-dir with its runs, if there is one");
  cli.example("tapegrad sweep --preset char-cpu --vary learning-rate=1e-4..1e-2 --max-minutes 5",
              "12 learning rates, 5 minutes each");
  cli.example(
      "tapegrad sweep --preset char-cpu --vary learning-rate=1e-4..1e-2 --search halving --runs 27 "
      "-- --max-iters 2000",
      "27 learning rates for 74 steps, the best 9 for 222, 3 for 666, and 1 for 2,000");
  cli.example(
      "tapegrad sweep --vary n-layer=2,4 --vary dropout=0,0.1 --out-dir sweeps/size -- notes/ "
      "--max-iters 500",
      "all four combinations, on a text of one's own");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.search.vary.empty())
    cli::usage_error("which option? Give --vary NAME=A,B or NAME=LOW..HIGH");
  if (cli.given("--out-dir") && o.out_dir.empty()) cli::usage_error("--out-dir: the path is empty");
  if (cli.given("--eta") && !o.search.halves()) cli::usage_error("--eta is for --search halving");
  o.says_overwrite = cli.given("--overwrite"), o.says_seed = cli.given("--seed");
  return o;
}

// The call of a run, as training reads it. UsageError for options that it refuses, and for those
// that the sweep decides, wherever they stand.
gpt::ParsedCall call_of_run(const std::vector<std::string>& args, const sweep::SweepPlan& plan) {
  std::vector<const char*> argv;
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  const auto no_rate = [](const Product&) -> double {
    cli::usage_error(
        "--preset fast goes by a rate that is measured once for all runs: name it before the --, "
        "or give --gflops behind it");
  };
  auto parsed = cli::parse(
      gpt::training(), {"tapegrad sweep", static_cast<int>(argv.size()), argv.data()}, 1, no_rate);
  if (!parsed) cli::usage_error("--help and --version are no options of a run");
  const gpt::Plan& o = parsed->plan;
  const auto refuse = [](bool is_there, const char* option) {
    if (is_there) cli::usage_error("{} is no option of a run of a sweep", option);
  };
  refuse(!o.call.folder.out_dir.empty(), "--out-dir behind --");
  refuse(o.call.folder.overwrite, "--overwrite behind --");
  refuse(o.call.serve.has_value(), "--serve");
  refuse(!o.call.trace.profile.empty(), "--profile");
  refuse(o.epochs.final_eval == "none", "--final-eval none");
  refuse(o.extras.plan, "--plan");
  refuse(o.extras.summary, "--summary");
  refuse(o.extras.eval_only, "--eval-only");
  refuse(o.text.source().reads_stdin(), "--corpus - (stdin)");
  const auto of_preset = cli::preset_of(gpt::training(), o.text.preset).call.max_minutes;
  const auto minutes = o.call.max_minutes;
  if (minutes && minutes != plan.max_minutes && minutes != of_preset) {
    cli::usage_error("--max-minutes {} is no option of a run of a sweep: it stands before the --",
                     *minutes);
  }
  return std::move(*parsed);
}

std::vector<run::NamedText> texts_of(const gpt::Options& run) {
  std::vector<run::NamedText> texts;
  for (const auto& [option, paths] : gpt::Options::texts(run)) {
    for (const std::string& path : *paths) texts.push_back({option, run::weighted_file(path).path});
  }
  return texts;
}

// All that the plan of a sweep needs to know of a run. Its plan may hold a whole model.
struct RunFacts {
  std::string preset;
  std::optional<std::int64_t> steps;  // nothing: minutes or epochs decide
  bool has_decay;                     // --lr-decay-iters
  double bytes;                       // 0 if the number of jobs is given
  std::vector<std::string> reads;     // its texts, and the model that it begins with
};

// Reads a text at most once for each tokenizer, whose facts it keeps.
double memory_of_run(const gpt::ParsedCall& run, std::map<std::string, gpt::TextFacts>& known) {
  const std::string& tokenizer = run.plan.text.tokenizer;
  if (known.count(tokenizer) == 0) {
    known[tokenizer] = gpt::with_vocabulary(run.facts, run.plan).text.value();
  }
  gpt::Facts facts = gpt::with_room(run.facts, run.plan, nullptr);
  facts.text = known.at(tokenizer);
  facts.faster = Precision::full;
  const auto memory = gpt::memory_of(gpt::resolve(run.arguments, facts));
  return memory.total + (run.plan.call.max_minutes ? memory.weights : 0);
}

// Everything is checked before anything is trained.
std::vector<RunFacts> check_runs(const Options& o, const sweep::SweepPlan& plan,
                                 const sweep::SweepRecord& record) {
  std::map<std::string, gpt::TextFacts> facts;
  std::vector<RunFacts> all;
  for (const sweep::RunRecord& run : record.runs) {
    std::vector<std::string> args = sweep::training_args(plan, record, run, {});
    args.resize(args.size() - 2);  // --out-dir and the folder
    try {
      const gpt::ParsedCall call = call_of_run(args, plan);
      const gpt::Plan& options = call.plan;
      const std::string& preset = options.text.preset;
      const std::vector<run::NamedText> texts = texts_of(options);
      run::check_outside(fs::path(o.out_dir.empty() ? "sweeps/" + preset : o.out_dir) / run.name,
                         texts);
      RunFacts next{.preset = preset,
                    .steps = options.optimizer.max_iters,
                    .has_decay = options.optimizer.lr_decay_iters.has_value(),
                    .bytes = o.jobs ? 0 : memory_of_run(call, facts),
                    .reads = {}};
      for (const run::NamedText& text : texts) next.reads.push_back(text.path);
      const run::FolderOptions& from = options.call.folder;
      if (from.starts_from_model()) next.reads.push_back(from.init_from);
      if (options.call.max_minutes || options.epochs.epochs) next.steps.reset();
      all.push_back(next);
    } catch (const cli::UsageError& error) {
      cli::usage_error("run {} ({}): {}", run.name, described(record, run), error.what());
    }
  }
  return all;
}

// The command that goes on with the sweep. It removes nothing, also if the --config file of the
// sweep says overwrite.
std::string command_of(const cli::Call& call, const std::string& out_dir, bool says_overwrite) {
  std::string text =
      fmt::format("{} --out-dir {}", cli::program_path(call.name), cli::quoted(out_dir));
  if (says_overwrite) text += " --no-overwrite";
  bool behind = false;  // the --
  for (int i = 1; i < call.argc; ++i) {
    const std::string arg = call.argv[i];
    behind = behind || arg == "--";
    const std::string name = behind ? "" : cli::with_hyphens(arg.substr(0, arg.find('=')));
    if (name == "--overwrite" || name == "--no-overwrite") continue;
    if (name == "--out-dir") {
      if (arg.find('=') == arg.npos) ++i;
      continue;
    }
    text += " " + cli::quoted(arg);
  }
  return text;
}

// UsageError for options of runs that the sweep itself gives them.
void check_words(const Options& o) {
  std::string before;
  for (const std::string& word : o.train) {
    const std::string name = cli::with_hyphens(word.substr(0, word.find('=')));
    if (word == "--init-from=resume" || (before == "--init-from" && word == "resume")) {
      cli::usage_error("--init-from resume is no option of a run of a sweep");
    }
    before = name;
    if (name == "--max-minutes" || name == "--preset") {
      cli::usage_error("{} stands before the --: it is an option of the sweep", name);
    }
    if (name == "--threads") {
      cli::usage_error(
          "--threads is no option of a run of a sweep: the runs that train side by side share the "
          "processors. --jobs N says how many these are");
    }
  }
}

// --preset fast goes by a rate that changes with what the machine does meanwhile. All runs of a
// sweep have the one that its first call has measured, for each of the runs side by side.
std::optional<double> shared_gflops(const Options& o, std::size_t runs) {
  const auto given = [](const std::string& word) { return word.starts_with("--gflops"); };
  const bool chooses =
      !o.preset.empty() && cli::preset_named(gpt::training(), o.preset).sized != nullptr;
  if (!chooses || std::any_of(o.train.begin(), o.train.end(), given)) return std::nullopt;
  if (o.search.halves()) {
    cli::usage_error(
        "--search halving counts steps, and --preset {} goes by --max-minutes: take another preset",
        o.preset);
  }
  if (!o.overwrite && !o.out_dir.empty()) {
    if (const auto stored = sweep::stored_gflops(o.out_dir)) return stored;
  }
  const auto jobs = std::min({static_cast<std::size_t>(o.jobs.value_or(num_threads())),
                              static_cast<std::size_t>(num_threads()), runs});
  return std::max(1.0,
                  std::round(1e-9 * cli::rate_here(gpt::kFastProduct) / static_cast<double>(jobs)));
}

// The runs, and the options that decide their results.
sweep::SweepRecord record_of(const Options& o) {
  const std::vector<sweep::VariedOption> options =
      sweep::varied_options(o.search, gpt::training().presets.front().options);
  if (o.says_seed && !draws(o.search, options)) {
    cli::usage_error(
        "--seed is for values that are drawn, and these are all combinations of lists. The seed "
        "of the runs stands behind the --");
  }
  sweep::SweepRecord record{.runs = sweep::new_runs(sweep::values_of(o.search, options))};
  for (const sweep::VariedOption& v : options) record.names.push_back(v.name);
  const auto& search = o.search.search;
  record.asked = {{"vary", o.search.vary},
                  {"search", search ? Json(name_of_enum(*search)) : Json(nullptr)},
                  {"eta", o.search.eta},
                  {"runs", json_of(o.search.runs)},
                  {"seed", o.search.seed},
                  {"preset", o.preset},
                  {"max_minutes", json_of(o.max_minutes)},
                  {"train", o.train}};
  return record;
}

// The rungs of a search that halves. All runs have the schedule of a whole one, so that those that
// go on end as if they had never stopped.
void set_rungs(sweep::SweepPlan& plan, const Options& o, const std::vector<RunFacts>& runs) {
  const std::optional<std::int64_t> steps = runs.front().steps;
  if (!steps) {
    cli::usage_error("--search halving counts steps: give -- --max-iters N{}",
                     o.max_minutes ? ", and no --max-minutes" : "");
  }
  for (const RunFacts& run : runs) {
    if (run.steps == steps && *steps > 0) continue;
    cli::usage_error("--search halving needs the same --max-iters, 1 at least, for all runs");
  }
  plan.rungs = sweep::halving_rungs(runs.size(), *steps, o.search.eta);
  if (runs.front().has_decay) return;
  plan.args.insert(plan.args.begin(), {"--lr-decay-iters", std::to_string(*steps)});
}

int jobs_of(const Options& o, const std::vector<RunFacts>& runs) {
  if (o.jobs) return *o.jobs;
  std::vector<double> bytes;
  for (const RunFacts& run : runs) bytes.push_back(run.bytes);
  std::optional<double> available;
  if (const auto memory = available_memory()) available = memory->bytes;
  return sweep::fitting_jobs(num_threads(), bytes, available);
}

int sweep_runs(const cli::Call& call) {
  const auto o = parse(call);
  if (!o) return 0;
  check_words(*o);
  sweep::SweepRecord record = record_of(*o);
  sweep::SweepPlan plan{.rungs = {{record.runs.size(), 0}}, .max_minutes = o->max_minutes};
  if (!o->preset.empty()) plan.args = {"--preset", o->preset};
  if (const auto gflops = shared_gflops(*o, record.runs.size())) {
    record.asked["gflops"] = *gflops;
    plan.args.insert(plan.args.end(), {"--gflops", fmt::format("{}", *gflops)});
  }
  plan.args.insert(plan.args.end(), o->train.begin(), o->train.end());
  const std::vector<RunFacts> runs = check_runs(*o, plan, record);
  if (o->search.halves()) set_rungs(plan, *o, runs);
  plan.jobs = jobs_of(*o, runs);
  plan.threads = num_threads();
  plan.folder = o->out_dir;
  if (o->out_dir.empty()) {
    run::make_folder("sweeps");
    plan.folder = run::make_free_folder("sweeps/" + runs.front().preset);
  }
  plan.command = command_of(call, plan.folder.string(), o->says_overwrite);
  const std::size_t count = record.runs.size();
  fmt::print("sweep:   {}, {} at a time with {} each\nfolder:  {}\n",
             counted(static_cast<std::int64_t>(count), "run"),
             std::min(static_cast<std::size_t>(plan.jobs), count),
             counted(sweep::threads_of_run(plan, count), "thread"), plan.folder.string());
  std::fflush(stdout);
  run::make_folder(plan.folder);
  // Held until this program ends.
  static_cast<void>(run::lock_folder(plan.folder, "running a sweep"));
  std::set<std::string> reads;
  for (const RunFacts& run : runs) reads.insert(run.reads.begin(), run.reads.end());
  return sweep::run_sweep(
      plan, sweep::begin_in(plan.folder, record, o->overwrite, {reads.begin(), reads.end()}));
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] { return sweep_runs(call); });
}

const cli::Command kCommand("sweep", cli::CommandGroup::train,
                            "train with several values of options, and compare", run);

}  // namespace
}  // namespace tapegrad
