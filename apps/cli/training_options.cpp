// What a training program makes of its arguments.

#include <algorithm>
#include <filesystem>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/training_program.h"
#include "tapegrad/apps/watch/server.h"

namespace tapegrad::cli {
namespace {

// UsageError for an option of Lasting::model that differs from the run to resume.
class ResumeCheck : public OptionTable {
 public:
  explicit ResumeCheck(const run::Config& stored) : stored_(stored) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    if (rule.lasting.value_or(lasting_) != Lasting::model) return;
    const run::Value* before = section_->find(name);
    const std::string now = run::value_text(member.value());
    if (before != nullptr && run::value_text(*before) != now) {
      usage_error("{} {} does not fit the run to resume, which has {}", option_name(name), now,
                  run::value_text(*before));
    }
  }
  bool begin_section(std::string_view name, std::string_view, Lasting lasting) override {
    if (lasting == Lasting::call) return false;
    lasting_ = lasting;
    section_ = &stored_.at(name, run::kConfigFile);
    return true;
  }

  const run::Config& stored_;
  const run::Section* section_ = nullptr;
  Lasting lasting_ = Lasting::model;
};

void make_absolute(const std::string& option, std::vector<std::string>& paths) {
  for (std::string& path : paths) {
    if (path.empty()) usage_error("{}: a path is empty", option);
    if (path != "-") path = std::filesystem::absolute(path).string();
  }
}

void make_absolute(const CommonOptions& o) {
  make_absolute("--corpus", o.corpus);
  if (o.val != nullptr) make_absolute("--val", *o.val);
  if (o.data != nullptr && !o.data->empty()) *o.data = std::filesystem::absolute(*o.data).string();
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

// Options that follow from others, and what must not be given together.
void settle(const CommonOptions& o, const CommandLine& cli) {
  if (cli.given("--out-dir") && o.call.folder.out_dir.empty()) {
    usage_error("--out-dir: the path is empty");
  }
  // The preset's min_lr may be above a learning rate that was given; then it is lowered.
  run::OptimizerOptions& rates = o.optimizer;
  if (!cli.given("--min-lr") && rates.min_lr > rates.learning_rate) {
    rates.min_lr = rates.learning_rate / 10;
  }
  settle_minutes(o, cli);
  if (o.call.schedule_restart) {
    if (!o.call.folder.resumes()) usage_error("--schedule-restart needs --init-from resume");
    if (!cli.given("--lr-decay-iters")) rates.lr_decay_iters.reset();
  }
}

}  // namespace

run::Config take_stored(TrainingProgram& program, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / run::kConfigFile;
  check(std::filesystem::exists(path), "{}: there is no run to resume here", folder.string());
  program.take_defaults();
  run::read_options(path, run::read_config(path, program.format()), program.options());
  try {
    program.validate();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return run::config_of(program.options(), program.format());
}

bool parse_training(TrainingProgram& program, const Call& call) {
  const auto presets = program.presets();
  std::vector<std::string> names, words;
  for (const auto& [name, summary] : presets) names.push_back(name);
  program.take_preset(names.front());
  const CommonOptions o = program.common();
  CommandLine cli(call.name, program.summary());
  cli.words(words, "PATH", "the same as --corpus PATH");
  cli.group("Run");
  cli.choice("preset", o.preset, names,
             "named set of values that all other options start from; listed below");
  cli.options(program.options());
  cli.without_value("--serve", std::to_string(watch::kDefaultPort));
  cli.alias("-o", "--out-dir");
  cli.alias("--lr", "--learning-rate");
  program.describe(cli);
  for (const auto& [name, summary] : presets) cli.list("Presets", name, summary);

  cli.parse(call.argc, call.argv);  // to know the preset, or the run to resume
  const CallOptions given = o.call;
  const bool help = cli.given("--help") || cli.given("--version");
  std::optional<run::Config> stored;
  std::optional<run::TrainDtype> stored_dtype;
  if (given.folder.resumes() && !given.folder.out_dir.empty() && !help) {
    stored = take_stored(program, given.folder.out_dir);
    o.call = given;
    stored_dtype = o.optimizer.dtype;
  } else {
    program.take_preset(std::string(o.preset));
  }
  cli.parse(call.argc, call.argv);
  if (cli.printed_information()) return false;

  if (!words.empty() && !cli.given("--corpus")) o.corpus.clear();
  o.corpus.insert(o.corpus.end(), words.begin(), words.end());
  make_absolute(o);
  settle(o, cli);
  // A run that is resumed keeps what auto has found.
  if (stored_dtype && o.optimizer.dtype == run::TrainDtype::automatic) {
    o.optimizer.dtype = *stored_dtype;
  }
  if (cli.given("--profile-steps") && o.call.trace.profile.empty()) {
    usage_error("--profile-steps is for --profile FILE");
  }
  program.adjust(cli);
  o.call.gave_port = cli.gave_value("--serve");
  o.call.gave_batches = cli.given("--gradient-accumulation-steps");
  as_usage([&] { program.validate(); });
  check_compute(o.call.compute);
  as_usage([&] { o.call.folder.validate(); });
  check_optimizer(o.optimizer, cli);
  if (stored) {
    ResumeCheck check(*stored);
    program.options().describe(check);
  }
  return true;
}

}  // namespace tapegrad::cli
