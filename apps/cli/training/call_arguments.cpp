#include "tapegrad/apps/cli/training/call_arguments.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "tapegrad/apps/cli/config_file.h"
#include "tapegrad/apps/cli/option_text.h"
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

class OptionNames : public OptionTable {
 public:
  std::vector<std::string> names = {"--preset"};

 private:
  void visit(std::string_view name, const Member&, std::string_view, const Rule& rule) override {
    if (rule.option) names.push_back(option_name(name));
  }
};

// --max-minutes decides how many steps a new run has. One that is resumed has decided already.
void check_minutes(const CallOptions& call, const run::OptimizerOptions& optimizer,
                   const GivenOptions& given) {
  if (!given.has("--max-minutes")) return;
  if (given.has("--max-iters")) {
    usage_error("--max-minutes and --max-iters both decide how many steps a run has: give one");
  }
  if (call.folder.resumes()) {
    usage_error("--max-minutes is for new runs: this one has {} steps, which --max-iters changes",
                optimizer.max_iters);
  }
}

// UsageError for an argument that is an option of an optimiser that the run does not have.
void check_optimizer(const run::OptimizerOptions& o, const GivenOptions& given) {
  const std::vector<optim::OptimizerId> used = o.rules.used();
  for (const std::string_view name : names_of(o.rules.optimizer)) {
    const optim::OptimizerId id = optim::optimizer_named(name);
    if (std::count(used.begin(), used.end(), id) > 0) continue;
    for (const std::string_view member : o.rules.settings.options_of(id)) {
      const std::string option = option_name(member);
      if (!given.has(option) || !given.file_of(option).empty()) continue;
      usage_error("{} is for --optimizer {}, and this run has {}", option, name,
                  name_of_enum(o.rules.optimizer));
    }
  }
}

// UsageError for an argument that the run's schedule does not use.
void check_schedule(const run::OptimizerOptions& o, const GivenOptions& given) {
  using Kind = optim::Schedule::Kind;
  std::vector<Kind> least_rate = {Kind::linear, Kind::cosine, Kind::wsd,
                                  Kind::cosine_with_restarts};
  if (!o.gamma) least_rate.push_back(Kind::exponential);
  const std::pair<std::string, std::vector<Kind>> uses[] = {
      {"--min-lr", least_rate},
      {"--decay-share", {Kind::wsd}},
      {"--step-size", {Kind::step, Kind::cosine_with_restarts}},
      {"--milestones", {Kind::multistep}},
      {"--gamma", {Kind::step, Kind::multistep, Kind::exponential}},
      {"--t-mult", {Kind::cosine_with_restarts}}};
  for (const auto& [option, kinds] : uses) {
    if (!given.has(option) || !given.file_of(option).empty()) continue;
    if (std::count(kinds.begin(), kinds.end(), o.schedule) > 0) continue;
    const bool decides_gamma = o.schedule == Kind::exponential && option == "--min-lr";
    usage_error("--schedule {} does not use {}{}", name_of_enum(o.schedule), option,
                decides_gamma ? " beside --gamma" : "");
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

bool takes_config_of_run(const CommandLine& cli, std::string_view format) {
  return !cli.file_of("--preset").empty() && cli.config_format() == format;
}

void refuse_steps(const CommandLine& cli, const std::string& preset) {
  for (const char* option : {"--max-iters", "--epochs"}) {
    if (!cli.given(option)) continue;
    usage_error("--preset {} goes by --max-minutes, and not by {}", preset, option);
  }
}

void take_words(const CommonOptions& o, const std::vector<std::string>& words, bool given) {
  check_words(words);
  if (!words.empty() && !given) o.corpus.clear();
  o.corpus.insert(o.corpus.end(), words.begin(), words.end());
  for (const auto& [option, paths] : o.texts) make_absolute(option, *paths);
}

void resolve_shared(CallOptions& call, run::OptimizerOptions& optimizer, const GivenOptions& given,
                    const std::optional<StoredRun>& stored, int processes) {
  // The preset's min_lr may be above a learning rate that was given; then it is lowered.
  if (!given.has("--min-lr") && optimizer.min_lr > optimizer.learning_rate) {
    optimizer.min_lr = optimizer.learning_rate / 10;
  }
  run::FolderOptions& folder = call.folder;
  if (given.has("--max-iters") || folder.resumes()) call.max_minutes.reset();
  // A run's config.json says which checkpoint it started from, and not where a resume goes on.
  if (folder.resumes() && !given.file_of("--checkpoint").empty()) folder.checkpoint.reset();
  if (call.schedule_restart) {
    if (stored && stored->default_warmup && !given.has("--warmup-iters")) {
      optimizer.warmup_iters.reset();  // it goes by the new schedule
    }
    if (!given.has("--lr-decay-iters")) optimizer.lr_decay_iters.reset();
  }
  if (stored && optimizer.dtype == run::TrainDtype::automatic) optimizer.dtype = stored->dtype;
  as_usage([&] {
    const int shares = processes * static_cast<int>(optimizer.group_count());
    optimizer.gradient_accumulation_steps =
        batches_of_ranks(optimizer.gradient_accumulation_steps, folder.resumes(), given, shares);
  });
}

void check_call(const CallOptions& call, const run::OptimizerOptions& optimizer,
                const GivenOptions& given) {
  if (given.has("--out-dir") && call.folder.out_dir.empty()) {
    usage_error("--out-dir: the path is empty");
  }
  check_minutes(call, optimizer, given);
  if (call.schedule_restart && !call.folder.resumes()) {
    usage_error("--schedule-restart needs --init-from resume");
  }
  if (given.has("--profile-steps") && call.trace.profile.empty()) {
    usage_error("--profile-steps is for --profile FILE");
  }
  if (given.has("--talk-port") && !call.serve) usage_error("--talk-port is for --serve");
  if (call.talk_port != 0 && call.talk_port == call.serve) {
    usage_error("--serve and --talk-port are both {}: each needs a port of its own",
                call.talk_port);
  }
}

void check_parts(const CallOptions& call, const run::OptimizerOptions& optimizer,
                 const GivenOptions& given) {
  check_compute(call.compute);
  as_usage([&] { call.folder.validate(); });
  check_optimizer(optimizer, given);
  check_schedule(optimizer, given);
}

// UsageError for an option that cannot change on resume, and has.
void check_resumed(const run::Config& stored, const run::Config& plan) {
  for (const run::Section& now : plan.sections) {
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

}  // namespace detail

std::vector<std::string> option_names(OptionSchema options) {
  OptionNames all;
  options.describe(all);
  return std::move(all.names);
}

GivenOptions::GivenOptions(const CommandLine& cli, OptionSchema options) {
  for (const std::string& name : option_names(options)) {
    options_[name] = {cli.given(name), cli.gave_value(name), cli.file_of(name)};
  }
}

const GivenOptions::Place& GivenOptions::at(const std::string& option) const {
  const auto it = options_.find(option);
  check(it != options_.end(), "there is no option {}", option);
  return it->second;
}

ProductRate rate_of(Processes& processes) {
  return [&processes](const Product& product) {
    double agreed = rate_here(product);  // ranks' processors may differ
    processes.broadcast(std::as_writable_bytes(std::span(&agreed, 1)));
    return agreed * processes.size();
  };
}

Precision faster_precision_of(const Product& product, Processes& processes) {
  Precision faster = faster_precision(product);  // ranks' processors may differ
  processes.broadcast(std::as_writable_bytes(std::span(&faster, 1)));
  return faster;
}

std::int64_t batches_of_ranks(std::int64_t batches, bool resumes, const GivenOptions& given,
                              int ranks) {
  const bool chosen = given.has("--gradient-accumulation-steps") || resumes;
  return chosen ? batches : (batches + ranks - 1) / ranks * ranks;
}

void check_batches_of_ranks(std::int64_t batches, bool resumes,
                            const std::vector<std::string>& corpus, int ranks) {
  if (ranks == 1) return;
  if (batches < ranks) {
    usage_error(
        "--gradient-accumulation-steps {}: a step has fewer forward passes than there are "
        "processes, {}{}",
        batches, ranks, resumes ? ": the run can be resumed by fewer processes" : "");
  }
  if (std::count(corpus.begin(), corpus.end(), "-") > 0) {
    usage_error("--corpus - (stdin) goes to one process alone: give {} processes files", ranks);
  }
}

}  // namespace tapegrad::cli
