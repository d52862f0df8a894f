#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/training/call_options.h"
#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::cli {

// The way of a training program from a call to its plan: read_arguments() gives the arguments, and
// the program's own resolve() makes a plan of them and of facts, by resolve_shared() in part.
// parse() is all of it, as far as no text is needed.

// Operations per second of a product by all processes of a run, the same in each of them.
using ProductRate = std::function<double(const Product&)>;
inline double rate_here(const Product& product) { return product_rate(product); }
ProductRate rate_of(Processes& processes);
// The precision that is faster for a product, the same in each process.
Precision faster_precision_of(const Product& product, Processes& processes);

// The options that a preset chooses for a budget, and what it went by, for people.
template <class Options>
struct SizedPreset {
  Options options;
  std::string note;
};

// A row of the table of presets: a name, and the values that all options start from.
template <class Options>
struct Preset {
  std::string name, about;
  Options options;
  // Of a preset that is sized by a budget, such as the time and the length of the text: its values
  // for this call, which the arguments then replace. Null: `options` are its values.
  SizedPreset<Options> (*sized)(const Options& asked, const ProductRate&) = nullptr;
  // --max-minutes give no more steps than so many epochs have.
  std::optional<double> most_epochs = {};
};

// The names of a training program's options, as on the command line: "--preset", "--n-layer" …
std::vector<std::string> option_names(OptionSchema options);

// Which options a call gives, by argument or in a config file. They are named as on the command
// line; Error for a name that the program does not have.
class GivenOptions {
 public:
  GivenOptions(const CommandLine& cli, OptionSchema options);

  bool has(const std::string& option) const { return at(option).given; }
  // True if it is given with a value of its own: --serve PORT.
  bool has_value(const std::string& option) const { return at(option).has_value; }
  // The config file that set this option; empty if none.
  std::string file_of(const std::string& option) const { return at(option).file; }

 private:
  struct Place {
    bool given, has_value;
    std::string file;
  };
  const Place& at(const std::string& option) const;
  std::map<std::string, Place> options_;
};

// The run that is resumed, before the arguments change it.
struct StoredRun {
  run::Config config;     // with defaults
  run::TrainDtype dtype;  // that auto has found
  bool default_warmup;    // nobody has asked for its warm-up
};

// A call of a training program.
template <class Options>
struct Arguments {
  // Those of the preset, or of the run to resume, replaced by those that are given.
  Options options;
  GivenOptions given;
  std::string preset_note;          // see SizedPreset; empty: the preset is not sized
  std::optional<StoredRun> stored;  // nothing: a new run
  int processes = 1;
};

// `Options` is a described struct with the parts call (CallOptions), text (with the members preset
// and corpus), optimizer and evaluation; with validate(), which throws an Error that names the
// option; and with texts(o), which lists the options that name texts, and their paths. If it has
// with_defaults(), that gives the same options with a value for each that stands for one without
// being given. `Facts` are what a plan depends on beside the arguments, with the member `faster`,
// for --dtype auto; what is not known yet leaves options open. A `Plan` is Options, and what else
// follows from them.
template <class Options, class Facts, class Plan = Options>
struct TrainingProgram {
  std::string summary;      // for --help
  std::string_view format;  // of config.json
  // Where all options start from, the first one if none is named.
  std::span<const Preset<Options>> presets;
  void (*describe)(CommandLine&);  // examples for --help
  // UsageError for arguments that contradict each other, whatever the facts are.
  void (*check_arguments)(const Arguments<Options>&) = [](const Arguments<Options>&) {};
  // The facts that arguments name: files are looked at, and no text is read.
  Facts (*facts_of)(const Arguments<Options>&) = [](const Arguments<Options>&) { return Facts(); };
  // The only way from arguments to a plan, which is pure. UsageError for arguments that contradict
  // the facts.
  Plan (*resolve)(const Arguments<Options>&, const Facts&);
  // Error if a pattern of the options names nothing that the model has. Reads no weights.
  void (*check_patterns)(const Options&) = [](const Options&) {};
  Product (*product)(const Options&);  // the largest one of a block
};

// A call up to where a text is needed.
template <class Options, class Facts, class Plan = Options>
struct ParsedCall {
  Arguments<Options> arguments;
  Facts facts;
  Plan plan;
};

// The steps of read_arguments() that go for options of any type.
namespace detail {

// Members of the program's own struct, where they are changed.
struct CommonOptions {
  std::string& preset;
  std::vector<std::string>& corpus;
  std::vector<std::pair<const char*, std::vector<std::string>*>> texts;
};
using PresetSummaries = std::vector<std::pair<std::string, std::string>>;  // by name
void add_options(CommandLine& cli, std::vector<std::string>& words, const PresetSummaries& presets,
                 std::string& preset, OptionSchema options);
void read_call(CommandLine& cli, std::vector<std::string>& words, const Call& call);
bool continues_run(const CommandLine& cli, const run::FolderOptions& folder);
// True if the --config file is that of a run, which has all that its preset chose.
bool takes_config_of_run(const CommandLine& cli, std::string_view format);
void refuse_steps(const CommandLine& cli, const std::string& preset);
void take_words(const CommonOptions& o, const std::vector<std::string>& words, bool given);
void read_run(const std::filesystem::path& folder, std::string_view format, OptionSchema options);

void resolve_shared(CallOptions& call, run::OptimizerOptions& optimizer, const GivenOptions& given,
                    const std::optional<StoredRun>& stored, int processes);
void check_call(const CallOptions& call, const run::OptimizerOptions& optimizer,
                const GivenOptions& given);
void check_parts(const CallOptions& call, const run::OptimizerOptions& optimizer,
                 const GivenOptions& given);
void check_resumed(const run::Config& stored, const run::Config& now);

}  // namespace detail

// For comparison: with a value for each option that has one, given or not.
template <class Options>
run::Config comparable_config(std::string_view format, const Options& o) {
  if constexpr (requires { o.with_defaults(); }) {
    const Options whole = o.with_defaults();
    return run::config_of(whole, format);
  }
  return run::config_of(o, format);
}

// The row of that name; null if there is none.
template <class Options>
const Preset<Options>* find_preset(std::span<const Preset<Options>> presets,
                                   std::string_view name) {
  const auto it = std::find_if(presets.begin(), presets.end(),
                               [&](const auto& preset) { return preset.name == name; });
  return it == presets.end() ? nullptr : &*it;
}

template <class Program>
const auto& preset_named(const Program& program, std::string_view name) {
  const auto* const preset = find_preset(program.presets, name);
  check(preset != nullptr, "there is no preset '{}'", name);
  return *preset;
}

// Its options, before any call.
template <class Program>
auto preset_of(const Program& program, const std::string& name) {
  auto o = preset_named(program, name).options;
  o.text.preset = name;
  return o;
}

// The options of the run in `folder`: values that are newer than its file have their defaults.
// Error if there is no run, or if its values are invalid.
template <class Options>
Options options_of_run(std::string_view format, const std::filesystem::path& folder) {
  Options o;
  detail::read_run(folder, format, o);
  try {
    o.validate();
  } catch (const Error& error) {
    fail("{}: {}", (folder / run::kConfigFile).string(), error.what());
  }
  return o;
}

// The arguments of a call, for so many processes. Nothing if --help or --version was printed.
// UsageError for what no option takes.
template <class Options, class Facts, class Plan>
std::optional<Arguments<Options>> read_arguments(
    const TrainingProgram<Options, Facts, Plan>& program, const Call& call, int processes,
    const ProductRate& rate) {
  Options o = preset_of(program, program.presets.front().name);
  const detail::CommonOptions common{o.text.preset, o.text.corpus, Options::texts(o)};
  detail::PresetSummaries presets;
  for (const Preset<Options>& preset : program.presets) {
    presets.push_back({preset.name, preset.about});
  }
  CommandLine cli(call.name, program.summary);
  std::vector<std::string> words;
  detail::add_options(cli, words, presets, common.preset, o);
  program.describe(cli);
  for (const auto& [name, about] : presets) cli.list("Presets", name, about);

  detail::read_call(cli, words, call);  // to know the preset, or the run to resume
  std::optional<StoredRun> stored;
  std::string note;
  if (detail::continues_run(cli, o.call.folder)) {
    const CallOptions given = o.call;
    o = options_of_run<Options>(program.format, given.folder.out_dir);
    stored = StoredRun{comparable_config(program.format, o), o.optimizer.dtype,
                       o.optimizer.warmup_iters == o.optimizer.default_warmup()};
    o.call = given;
  } else {
    Options asked = std::move(o);
    o = preset_of(program, asked.text.preset);
    const auto sized = preset_named(program, asked.text.preset).sized;
    const bool informs = cli.given("--help") || cli.given("--version");
    if (sized && !informs && !detail::takes_config_of_run(cli, program.format)) {
      detail::refuse_steps(cli, asked.text.preset);
      asked.text.corpus.insert(asked.text.corpus.end(), words.begin(), words.end());
      const auto measured = [&](const Product& product) {
        use_compute(asked.call.compute);
        return rate(product);
      };
      SizedPreset<Options> preset;
      as_usage([&] { preset = sized(asked, measured); });
      o = std::move(preset.options);
      note = std::move(preset.note);
      o.text.preset = asked.text.preset;
    }
  }
  cli.set_values();
  if (cli.printed_information()) return std::nullopt;
  detail::take_words(common, words, cli.given("--corpus"));
  const GivenOptions given(cli, o);
  return Arguments<Options>{std::move(o), given, std::move(note), std::move(stored), processes};
}

// The part of a plan that all training programs have: what follows from options that were given,
// or were not. Pure.
template <class Options>
void resolve_shared(Options& plan, const Arguments<Options>& arguments) {
  detail::resolve_shared(plan.call, plan.optimizer, arguments.given, arguments.stored,
                         arguments.processes);
}
// The same for --dtype auto, once it is known which precision is faster.
inline void resolve_dtype(run::OptimizerOptions& plan, std::optional<Precision> faster) {
  if (plan.dtype != run::TrainDtype::automatic || !faster) return;
  plan.dtype = *faster == Precision::bf16 ? run::TrainDtype::bf16 : run::TrainDtype::f32;
}

// --gradient-accumulation-steps of so many processes, of which each needs a batch at least: unless
// the number was given, it is rounded up.
std::int64_t batches_of_ranks(std::int64_t batches, bool resumes, const GivenOptions& given,
                              int ranks);
// UsageError if they are too few for so many processes, or if these cannot share the text.
void check_batches_of_ranks(std::int64_t batches, bool resumes,
                            const std::vector<std::string>& corpus, int ranks);

// The plan of a call, for so many processes. Nothing if --help or --version was printed. UsageError
// for invalid values, for arguments that contradict each other, and for values that cannot change
// when a run is resumed. --dtype may still be automatic.
template <class Options, class Facts, class Plan>
std::optional<ParsedCall<Options, Facts, Plan>> parse(
    const TrainingProgram<Options, Facts, Plan>& program, const Call& call, int processes = 1,
    const ProductRate& rate = rate_here) {
  auto arguments = read_arguments(program, call, processes, rate);
  if (!arguments) return std::nullopt;
  const Options& o = arguments->options;
  detail::check_call(o.call, o.optimizer, arguments->given);
  program.check_arguments(*arguments);
  Facts facts = program.facts_of(*arguments);
  Plan plan = program.resolve(*arguments, facts);
  check_batches_of_ranks(plan.optimizer.own_batches(), o.call.folder.resumes(), plan.text.corpus,
                         processes);
  as_usage([&] {
    plan.validate();
    program.check_patterns(plan);
  });
  detail::check_parts(plan.call, plan.optimizer, arguments->given);
  if (arguments->stored) {
    const Options& options = plan;
    detail::check_resumed(arguments->stored->config, comparable_config(program.format, options));
  }
  return ParsedCall<Options, Facts, Plan>{std::move(*arguments), std::move(facts), std::move(plan)};
}

// The same of these processes, with the dtype that is faster on the machine where it is automatic.
// Chooses what multiplies.
template <class Options, class Facts, class Plan>
std::optional<ParsedCall<Options, Facts, Plan>> parse(
    const TrainingProgram<Options, Facts, Plan>& program, const Call& call, Processes& processes) {
  auto parsed = parse(program, call, processes.size(), rate_of(processes));
  if (!parsed) return parsed;
  use_compute(parsed->plan.call.compute);
  if (parsed->plan.optimizer.dtype == run::TrainDtype::automatic) {
    parsed->facts.faster = faster_precision_of(program.product(parsed->plan), processes);
    parsed->plan = program.resolve(parsed->arguments, parsed->facts);
  }
  return parsed;
}

}  // namespace tapegrad::cli
