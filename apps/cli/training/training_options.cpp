// The way from a training program's arguments to its options.

#include <algorithm>
#include <filesystem>
#include <span>

#include "tapegrad/apps/cli/config_file.h"
#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/training/training_program.h"
#include "tapegrad/apps/watch/server.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::cli {
namespace {

void make_absolute(const std::string& option, std::vector<std::string>& paths) {
  for (std::string& path : paths) {
    if (path.empty()) usage_error("{}: a path is empty", option);
    if (path != "-") path = absolute_path(path).string();
  }
}

// --max-minutes decides how many steps a new run has. One that is resumed has decided already.
void settle_minutes(const CommonOptions& o, const CommandLine& cli) {
  const bool steps = cli.given("--max-iters"), minutes = cli.given("--max-minutes");
  if (minutes && steps) {
    usage_error("--max-minutes and --max-iters both decide how many steps a run has: give one");
  }
  if (minutes && o.call.folder.resumes()) {
    usage_error("--max-minutes is for new runs: this one has {} steps, which --max-iters changes",
                o.optimizer.max_iters);
  }
  if (steps || o.call.folder.resumes()) o.call.max_minutes.reset();
}

// UsageError for an argument that is an option of an optimiser that the run does not have.
void check_optimizer(const run::OptimizerOptions& o, const CommandLine& cli) {
  const std::vector<optim::OptimizerId> used = o.rules().used();
  for (const std::string_view name : names_of(o.optimizer)) {
    const optim::OptimizerId id = optim::optimizer_named(name);
    if (std::count(used.begin(), used.end(), id) > 0) continue;
    for (const std::string_view member : o.settings.options_of(id)) {
      const std::string option = option_name(member);
      if (!cli.given(option) || !cli.file_of(option).empty()) continue;
      usage_error("{} is for --optimizer {}, and this run has {}", option, name,
                  name_of_enum(o.optimizer));
    }
  }
}

// UsageError for a second path that looks like the folder for the run.
void check_words(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::filesystem::path path = run::weighted_file(words[i]).path;
    const bool is_run =
        path_exists(path / run::kConfigFile) && path_exists(path / run::kMetricsFile);
    if (path == "-" || (path_exists(path) && !is_run)) continue;
    usage_error("{}: {}, and every path is text to learn: --out-dir {} keeps the run there",
                words[i], is_run ? "it is a folder of a run" : "there is no such file or folder",
                words[i]);
  }
}

}  // namespace

namespace detail {

void add_options(CommandLine& cli, std::vector<std::string>& words, const PresetSummaries& presets,
                 std::string& preset, OptionSchema options) {
  std::vector<std::string> names;
  for (const auto& [name, summary] : presets) names.push_back(name);
  cli.words(words, "PATH", "the same as --corpus PATH");
  cli.group("Run");
  cli.choice("preset", preset, names,
             "named set of values that all other options start from; listed below");
  cli.options(options);
  cli.without_value("--serve", std::to_string(watch::kDefaultPort));
  cli.alias("-o", "--out-dir");
  cli.alias("--lr", "--learning-rate");
}

// A config of nanoGPT's is a word there: train.py config/NAME.py --device=cpu.
void read_call(CommandLine& cli, std::vector<std::string>& words, const Call& call) {
  cli.parse(call.argc, call.argv);
  if (words.empty() || cli.given("--config") || !is_nanogpt_config(words.front())) return;
  cli.take_config(words.front());
  words.erase(words.begin());
}

bool continues_run(const CommandLine& cli, const run::FolderOptions& folder) {
  return folder.resumes() && !folder.out_dir.empty() && !cli.given("--help") &&
         !cli.given("--version");
}

// True if the --config file is that of a run, which has all that its preset chose: also what no
// file of one's own has, since these presets do not use it.
bool has_choices(const CommandLine& cli) {
  return !cli.file_of("--preset").empty() && !cli.file_of("--decay-share").empty();
}

void take_words(const CommonOptions& o, const CommandLine& cli,
                const std::vector<std::string>& words) {
  check_words(words);
  if (!words.empty() && !cli.given("--corpus")) o.corpus.clear();
  o.corpus.insert(o.corpus.end(), words.begin(), words.end());
  for (const auto& [option, paths] : o.texts) make_absolute(option, *paths);
}

// Options that follow from others, and what must not be given together.
void settle(const CommonOptions& o, const CommandLine& cli, const std::optional<StoredRun>& stored,
            int ranks) {
  if (cli.given("--out-dir") && o.call.folder.out_dir.empty()) {
    usage_error("--out-dir: the path is empty");
  }
  // The preset's min_lr may be above a learning rate that was given; then it is lowered.
  run::OptimizerOptions& optimizer = o.optimizer;
  if (!cli.given("--min-lr") && optimizer.min_lr > optimizer.learning_rate) {
    optimizer.min_lr = optimizer.learning_rate / 10;
  }
  settle_minutes(o, cli);
  // A run's config.json says which checkpoint it started from, and not where a resume goes on.
  run::FolderOptions& folder = o.call.folder;
  if (folder.resumes() && !cli.file_of("--checkpoint").empty()) folder.checkpoint.reset();
  if (o.call.schedule_restart) {
    if (!o.call.folder.resumes()) usage_error("--schedule-restart needs --init-from resume");
    if (stored && stored->default_warmup && !cli.given("--warmup-iters")) {
      optimizer.warmup_iters.reset();  // it goes by the new schedule
    }
    if (!cli.given("--lr-decay-iters")) optimizer.lr_decay_iters.reset();
  }
  if (stored && optimizer.dtype == run::TrainDtype::automatic) optimizer.dtype = stored->dtype;
  if (cli.given("--profile-steps") && o.call.trace.profile.empty()) {
    usage_error("--profile-steps is for --profile FILE");
  }
  if (cli.given("--talk-port") && !o.call.serve) usage_error("--talk-port is for --serve");
  if (o.call.talk_port != 0 && o.call.talk_port == o.call.serve) {
    usage_error("--serve and --talk-port are both {}: each needs a port of its own",
                o.call.talk_port);
  }
  o.call.next_port = !cli.gave_value("--serve");
  optimizer.gradient_accumulation_steps = batches_of_ranks(optimizer.gradient_accumulation_steps,
                                                           folder.resumes(), o.corpus, cli, ranks);
}

void check_call(const CommonOptions& o, const CommandLine& cli) {
  check_compute(o.call.compute);
  as_usage([&] { o.call.folder.validate(); });
  check_optimizer(o.optimizer, cli);
}

// UsageError for an option that cannot change on resume, and has.
void check_resumed(const run::Config& stored, const run::Config& settled) {
  for (const run::Section& now : settled.sections) {
    const auto change = run::first_change(stored.at(now.name, run::kConfigFile), now);
    if (!change) continue;
    usage_error("{} {} does not fit the run to resume, which has {}", option_name(change->name),
                change->now, change->before);
  }
}

void read_run(const std::filesystem::path& folder, std::string_view format, OptionSchema options) {
  const std::filesystem::path path = folder / run::kConfigFile;
  check(path_exists(path), "{}: there is no run to resume here", folder.string());
  run::read_options(path, run::read_config(path, format), options);
}

run::OptimizerOptions with_dtype(run::OptimizerOptions o, const Product& product,
                                 Processes& processes) {
  Precision faster = faster_precision(product);  // ranks' processors may differ
  processes.broadcast(std::as_writable_bytes(std::span(&faster, 1)));
  o.dtype = faster == Precision::bf16 ? run::TrainDtype::bf16 : run::TrainDtype::f32;
  return o;
}

}  // namespace detail

std::int64_t batches_of_ranks(std::int64_t batches, bool resumes,
                              const std::vector<std::string>& corpus, const CommandLine& cli,
                              int ranks) {
  const std::string option = "--gradient-accumulation-steps";
  if (ranks == 1) return batches;
  if (!cli.given(option) && !resumes) batches = (batches + ranks - 1) / ranks * ranks;
  if (batches < ranks) {
    usage_error("{} {}: a step has fewer forward passes than there are processes, {}{}", option,
                batches, ranks, resumes ? ": the run can be resumed by fewer processes" : "");
  }
  if (std::count(corpus.begin(), corpus.end(), "-") > 0) {
    usage_error("--corpus - (stdin) goes to one process alone: give {} processes files", ranks);
  }
  return batches;
}

}  // namespace tapegrad::cli
