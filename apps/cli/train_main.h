#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/run_processes.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/events/tensorboard_writer.h"
#include "tapegrad/apps/watch/report_html.h"
#include "tapegrad/apps/watch/server.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/plan/time_budget.h"

namespace tapegrad::cli {

// A training program is a struct:
//   Options        described; has the members call (CallOptions), text.preset, text.corpus,
//                  optimizer and evaluation; validate()
//   kName, kSummary, kFormat
//   presets()      where all options start from, the first one if none is named
//   describe(cli)  examples for --help
//   adjust(o, cli) options that follow from what was given
//   instead(o)     the exit code of what is done in place of training (--plan), or nothing
//   product(o)     the largest product of a block
//   Program(Options&, RunFolder&)   reads the data and makes the model
//   task()         what run::train() is given
// and train_main<Program> is its main().

// Options of one call of a training program. config.json does not keep them.
struct CallOptions {
  run::FolderOptions folder;
  std::optional<double> max_minutes;  // which decide optimizer.max_iters of a new run
  ComputeOptions compute;
  bool schedule_restart = false;
  bool sample = true;
  run::TraceOptions trace;
  std::optional<int> serve;  // the port of the page
  bool tensorboard = false;
  // No options themselves: whether --gradient-accumulation-steps and the PORT of --serve were
  // given.
  bool gave_batches = false;
  bool gave_port = false;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    run::FolderOptions::describe(o.folder, t);
    t("max_minutes", o.max_minutes,
      "as many steps as are measured to fit into X minutes, in place of --max-iters",
      {.least = 0.01, .most = 1e6});
    t("schedule_restart", o.schedule_restart,
      "when a run is resumed: warm up and decay anew, from its last step to --max-iters");
    ComputeOptions::describe(o.compute, t);
    t("sample", o.sample, "show what the model makes at the end");
    run::TraceOptions::describe(o.trace, t);
    t("serve", o.serve,
      "show the run on a page in the browser while it trains, at this port of this computer "
      "[without PORT: 8265, or the next free one; 0: any free one]",
      {.least = 0, .most = 65535, .value = "[PORT]"});
    t("tensorboard", o.tensorboard,
      "also write what the run records to event files in the run folder, which TensorBoard reads; "
      "a run that is resumed goes on doing so");
  }
};

template <class Options>
struct Preset {
  std::string name, summary;
  Options options;
};

namespace detail {

// UsageError for an option of Lasting::model that differs from the run to resume.
class ResumeCheck {
 public:
  explicit ResumeCheck(const run::Config& stored) : stored_(stored) {}
  template <class T>
  void operator()(std::string_view name, const T& value, std::string_view, const Rule& rule = {}) {
    if (rule.lasting.value_or(lasting_) != Lasting::model) return;
    const run::Value* before = section_->find(name);
    const std::string now = run::text_of(run::detail::value_of(value));
    if (before != nullptr && run::text_of(*before) != now) {
      usage_error("{} {} does not fit the run to resume, which has {}", option_name(name), now,
                  run::text_of(*before));
    }
  }
  template <class Part>
  void section(std::string_view name, std::string_view, Lasting lasting, const Part& part) {
    if (lasting == Lasting::call) return;
    lasting_ = lasting;
    section_ = &stored_.at(name, run::kConfigFile);
    Part::describe(part, *this);
  }

 private:
  const run::Config& stored_;
  const run::Section* section_ = nullptr;
  Lasting lasting_ = Lasting::model;
};

template <class Options>
concept HasValAndData = requires(Options o) {
  o.text.val;
  o.text.data;
};

inline void make_absolute(const std::string& option, std::vector<std::string>& paths) {
  for (std::string& path : paths) {
    if (path.empty()) usage_error("{}: a path is empty", option);
    if (path != "-") path = std::filesystem::absolute(path).string();
  }
}

template <class Options>
void make_absolute(Options& o) {
  make_absolute("--corpus", o.text.corpus);
  if constexpr (HasValAndData<Options>) {
    make_absolute("--val", o.text.val);
    if (!o.text.data.empty()) o.text.data = std::filesystem::absolute(o.text.data).string();
  }
}

// All files and folders that a run learns from or is validated with.
template <class Options>
std::vector<run::NamedText> texts_of(const Options& o) {
  std::vector<run::NamedText> texts;
  for (const std::string& path : o.text.corpus) texts.push_back({"--corpus", path});
  if constexpr (HasValAndData<Options>) {
    for (const std::string& path : o.text.val) texts.push_back({"--val", path});
    if (!o.text.data.empty()) texts.push_back({"--data", o.text.data});
  }
  return texts;
}

template <class Options>
void check_options(const Options& o) {
  as_usage([&] { o.validate(); });
  check_compute(o.call.compute);
  as_usage([&] { o.call.folder.validate(); });
}

// --max-minutes decides how many steps a new run has. One that is resumed has decided already.
template <class Options>
void settle_minutes(Options& o, const CommandLine& cli) {
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

// The options of the run in `folder`. Error if there is no run, or if its values are invalid.
template <class Program>
typename Program::Options stored_options(const std::filesystem::path& folder, run::Config& config) {
  const std::filesystem::path path = folder / run::kConfigFile;
  check(std::filesystem::exists(path), "{}: there is no run to resume here", folder.string());
  config = run::read_config(path, Program::kFormat);
  typename Program::Options options;
  run::read_options(path, config, options);
  try {
    options.validate();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  // Complete: values that are newer than the file have their defaults.
  config = run::config_of(options, Program::kFormat);
  return options;
}

// The run is saved already: an error is told, and is none of the program.
inline void write_report(const std::filesystem::path& folder) {
  try {
    watch::write_report(folder);
  } catch (const std::exception& error) {
    print_error(fmt::format("note: no report: {}\n", error.what()));
  }
}

}  // namespace detail

// Each of several processes needs a batch at least.
template <class Options>
void share_batches(Options& o, int ranks) {
  if (ranks == 1) return;
  std::int64_t& batches = o.optimizer.gradient_accumulation_steps;
  if (!o.call.gave_batches && !o.call.folder.resumes())
    batches = (batches + ranks - 1) / ranks * ranks;
  if (batches < ranks) {
    usage_error(
        "--gradient-accumulation-steps {}: a step has fewer forward passes than there are "
        "processes, {}{}",
        batches, ranks,
        o.call.folder.resumes() ? ": the run can be resumed by fewer processes" : "");
  }
  if (std::count(o.text.corpus.begin(), o.text.corpus.end(), "-") > 0) {
    usage_error("--corpus - (stdin) goes to one process alone: give {} processes files", ranks);
  }
}

// The options of this call: those of the preset, or of the run to resume, replaced by those that
// the arguments give. Nothing if --help or --version was printed. UsageError for invalid values,
// and for values that cannot change when a run is resumed.
template <class Program>
std::optional<typename Program::Options> parse_training(int argc, const char* const* argv) {
  using Options = typename Program::Options;
  const auto& presets = Program::presets();
  std::vector<std::string> names;
  for (const auto& preset : presets) names.push_back(preset.name);
  Options o = presets.front().options;
  o.text.preset = presets.front().name;
  CommandLine cli{std::string(Program::kName), std::string(Program::kSummary)};
  std::vector<std::string> words;
  cli.words(words, "PATH", "the same as --corpus PATH");
  cli.group("Run");
  cli.choice("preset", o.text.preset, names, "what all other options start from; see below");
  cli.options(o);
  cli.without_value("--serve", std::to_string(watch::kDefaultPort));
  Program::describe(cli);
  for (const auto& preset : presets) cli.list("Presets", preset.name, preset.summary);

  cli.parse(argc, argv);  // to know the preset, or the run to resume
  const Options call = o;
  const bool help = cli.given("--help") || cli.given("--version");
  run::Config stored;
  std::optional<run::TrainDtype> stored_dtype;
  if (call.call.folder.resumes() && !call.call.folder.out_dir.empty() && !help) {
    o = detail::stored_options<Program>(call.call.folder.out_dir, stored);
    o.call = call.call;
    stored_dtype = o.optimizer.dtype;
  } else {
    o = std::find_if(presets.begin(), presets.end(), [&](const auto& p) {
          return p.name == call.text.preset;
        })->options;
    o.text.preset = call.text.preset;
  }
  cli.parse(argc, argv);
  if (cli.printed_information()) return std::nullopt;

  if (!words.empty() && !cli.given("--corpus")) o.text.corpus.clear();
  o.text.corpus.insert(o.text.corpus.end(), words.begin(), words.end());
  detail::make_absolute(o);
  if (cli.given("--out-dir") && o.call.folder.out_dir.empty()) {
    usage_error("--out-dir: the path is empty");
  }
  // The preset's min_lr may be above a learning rate that was given; then it is lowered.
  run::OptimizerOptions& rates = o.optimizer;
  if (!cli.given("--min-lr") && rates.min_lr > rates.learning_rate) {
    rates.min_lr = rates.learning_rate / 10;
  }
  detail::settle_minutes(o, cli);
  if (o.call.schedule_restart) {
    if (!o.call.folder.resumes()) usage_error("--schedule-restart needs --init-from resume");
    if (!cli.given("--lr-decay-iters")) rates.lr_decay_iters.reset();
  }
  // A run that is resumed keeps what auto has found.
  if (stored_dtype && o.optimizer.dtype == run::TrainDtype::automatic) {
    o.optimizer.dtype = *stored_dtype;
  }
  if (cli.given("--profile-steps") && o.call.trace.profile.empty()) {
    usage_error("--profile-steps is for --profile FILE");
  }
  Program::adjust(o, cli);
  o.call.gave_port = cli.gave_value("--serve");
  o.call.gave_batches = cli.given("--gradient-accumulation-steps");
  detail::check_options(o);
  if (!stored.sections.empty()) {
    detail::ResumeCheck check(stored);
    Options::describe(std::as_const(o), check);
  }
  return o;
}

// Makes dtype auto the faster one, as rank 0 measures it.
inline void settle_dtype(run::OptimizerOptions& o, const run::Product& product,
                         Processes& processes) {
  if (o.dtype != run::TrainDtype::automatic) return;
  bool narrow = run::faster_precision(product) == Precision::bf16;
  processes.broadcast(std::as_writable_bytes(std::span(&narrow, 1)));
  o.dtype = narrow ? run::TrainDtype::bf16 : run::TrainDtype::f32;
}

// The page of --serve. Nothing if there is none, and on ranks other than 0.
inline std::unique_ptr<watch::Server> serve(const CallOptions& o, const std::filesystem::path& run,
                                            const Processes& processes) {
  if (!o.serve || processes.rank() != 0) return nullptr;
  auto page = std::make_unique<watch::Server>(
      watch::ServerOptions{.runs = {run}, .port = *o.serve, .or_next_port = !o.gave_port});
  for (const std::string& note : page->notes()) print_error(note + "\n");
  fmt::print("page: {}\n", page->url());
  std::fflush(stdout);
  return page;
}

// "mpirun -n 2 train-gpt notes/ --serve", as a shell takes it.
inline std::string command_of(const std::string& program, int argc, const char* const* argv,
                              int processes) {
  std::string text = processes > 1 ? fmt::format("mpirun -n {} {}", processes, program) : program;
  for (int i = 1; i < argc; ++i) text += " " + quoted(argv[i]);
  return text;
}

template <class Program>
int train_main(int argc, const char* const* argv) {
  const auto begin = std::chrono::steady_clock::now();
  return run_processes(std::string(Program::kName), [&](Processes& processes) {
    auto options = parse_training<Program>(argc, argv);
    if (!options) return 0;
    use_compute(options->call.compute);
    settle_dtype(options->optimizer, Program::product(*options), processes);
    std::optional<int> code;  // of rank 0 alone: others would only disturb what it measures
    if (processes.rank() == 0) code = Program::instead(*options);
    processes.broadcast(std::as_writable_bytes(std::span(&code, 1)));
    if (code) return *code;
    share_batches(*options, processes.size());
    run::RunFolder folder = run::RunFolder::open(options->call.folder, options->text.preset,
                                                 detail::texts_of(*options), &processes);
    const auto page = serve(options->call, folder.path(), processes);
    Program program(*options, folder);  // which settles --epochs
    if (folder.resumes()) {
      const std::int64_t made = run::checkpoint_iteration(folder.path());
      if (made > options->optimizer.max_iters) {
        usage_error("the run in {} has made {} steps already: --max-iters {} leaves none to make",
                    folder.path().string(), made, options->optimizer.max_iters);
      }
      if (options->call.schedule_restart) options->optimizer.restart_schedule(made);
    }
    const bool went_on = folder.resumes() && !run::event_files(folder.path()).empty();
    if (options->call.tensorboard || went_on) {
      const std::int64_t at = folder.resumes() ? run::checkpoint_iteration(folder.path()) : 0;
      folder.observe(std::make_unique<events::TensorboardWriter>(folder.path(), at));
    }
    run::Task task = program.task();
    task.about.resume_command =
        fmt::format("{} --init-from resume --out-dir {}", program_path(std::string(Program::kName)),
                    quoted(folder.path().string()));
    task.about.command = command_of(std::string(Program::kName), argc, argv, processes.size());
    run::TrainOptions training{options->optimizer, options->evaluation, options->call.trace};
    if (options->call.max_minutes) {
      const auto fitting =
          run::fit_steps(task, training, {.minutes = *options->call.max_minutes, .begin = begin},
                         folder.processes());
      if (!fitting) return kInterruptedExitCode;
      training.optimizer.max_iters = fitting->steps;
      task.about.lines.emplace_back("time", fitting->reason);
    }
    const bool done = run::train(task, folder, training);
    if (processes.rank() == 0) detail::write_report(folder.path());
    if (page) {
      page->finish();
      fmt::print("the page ends here; this shows it again:\n  {} {}\n", program_path("watch"),
                 quoted(folder.path().string()));
    }
    return done ? 0 : kInterruptedExitCode;
  });
}

}  // namespace tapegrad::cli
