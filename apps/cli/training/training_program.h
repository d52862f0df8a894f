#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/training/call_options.h"
#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::cli {

// A training program, as its command line sees it, and the way from arguments to options.

// Operations per second of a product by all processes of a run, the same in each of them.
using ProductRate = std::function<double(const Product&)>;
inline double rate_here(const Product& product) { return product_rate(product); }

template <class Options>
struct Preset {
  std::string name, summary;
  Options options;
  // Of a preset that goes by what is asked for, such as the time and the length of the text: the
  // options of this call, which its arguments then replace.
  Options (*choose)(const Options& asked, const ProductRate&) = nullptr;
};

// `Options` is a described struct with the parts call (CallOptions), text (with the members preset
// and corpus), optimizer and evaluation; with validate(), which throws an Error that names the
// option; and with texts(o), which lists the options that name texts, and their paths. If it has
// settled(), that gives the same options with a value for each that stands for one without being
// given.
template <class Options>
struct TrainingProgram {
  std::string summary;      // for --help
  std::string_view format;  // of config.json
  // Where all options start from, the first one if none is named.
  std::span<const Preset<Options>> presets;
  void (*describe)(CommandLine&);  // examples for --help
  // The options that follow from those that were given, before the common ones are settled.
  Options (*adjusted)(const Options& given, const CommandLine&);
  // Error if a pattern of the options names nothing that the model has. Reads no weights.
  void (*check_patterns)(const Options&) = [](const Options&) {};
  Product (*product)(const Options&);  // the largest one of a block
};

// The options that every training program has, where they are settled: members of its own struct.
struct CommonOptions {
  CallOptions& call;
  run::OptimizerOptions& optimizer;
  std::string& preset;
  std::vector<std::string>& corpus;
  std::vector<std::pair<const char*, std::vector<std::string>*>> texts;
};

// The steps of parse() that go for options of any type.
namespace detail {

using PresetSummaries = std::vector<std::pair<std::string, std::string>>;  // by name
// The run that is resumed, before the arguments change it.
struct StoredRun {
  run::Config config;     // settled
  run::TrainDtype dtype;  // that auto has found
  bool default_warmup;    // nobody has asked for its warm-up
};
void add_options(CommandLine& cli, std::vector<std::string>& words, const PresetSummaries& presets,
                 std::string& preset, OptionSchema options);
void read_call(CommandLine& cli, std::vector<std::string>& words, const Call& call);
bool continues_run(const CommandLine& cli, const run::FolderOptions& folder);
bool has_choices(const CommandLine& cli);
void take_words(const CommonOptions& o, const CommandLine& cli,
                const std::vector<std::string>& words);
void settle(const CommonOptions& o, const CommandLine& cli, const std::optional<StoredRun>& stored,
            int ranks);
void check_call(const CommonOptions& o, const CommandLine& cli);
void check_resumed(const run::Config& stored, const run::Config& now);
void read_run(const std::filesystem::path& folder, std::string_view format, OptionSchema options);
run::OptimizerOptions with_dtype(run::OptimizerOptions o, const Product& product,
                                 Processes& processes);

}  // namespace detail

// For comparison: with a value for each option that has one, given or not.
template <class Options>
run::Config settled_config(const TrainingProgram<Options>& program, const Options& o) {
  if constexpr (requires { o.settled(); }) {
    const Options settled = o.settled();
    return run::config_of(settled, program.format);
  }
  return run::config_of(o, program.format);
}

template <class Options>
const Preset<Options>& preset_named(const TrainingProgram<Options>& program,
                                    std::string_view name) {
  const auto it = std::find_if(program.presets.begin(), program.presets.end(),
                               [&](const auto& preset) { return preset.name == name; });
  check(it != program.presets.end(), "there is no preset '{}'", name);
  return *it;
}

// Its options, before any call.
template <class Options>
Options preset_of(const TrainingProgram<Options>& program, const std::string& name) {
  Options o = preset_named(program, name).options;
  o.text.preset = name;
  return o;
}

// The options of the run in `folder`: values that are newer than its file have their defaults.
// Error if there is no run, or if its values are invalid.
template <class Options>
Options options_of_run(const TrainingProgram<Options>& program,
                       const std::filesystem::path& folder) {
  Options o;
  detail::read_run(folder, program.format, o);
  try {
    o.validate();
  } catch (const Error& error) {
    fail("{}: {}", (folder / run::kConfigFile).string(), error.what());
  }
  return o;
}

// The options of this call: those of the preset, or of the run to resume, replaced by those that
// the arguments give, and what follows from these, for so many processes. Nothing if --help or
// --version was printed. UsageError for invalid values, and for values that cannot change when a
// run is resumed. dtype may still be automatic.
template <class Options>
std::optional<Options> parse(const TrainingProgram<Options>& program, const Call& call,
                             int ranks = 1, const ProductRate& rate = rate_here) {
  Options o = preset_of(program, program.presets.front().name);
  CommonOptions common{o.call, o.optimizer, o.text.preset, o.text.corpus, Options::texts(o)};
  detail::PresetSummaries presets;
  for (const Preset<Options>& preset : program.presets) {
    presets.push_back({preset.name, preset.summary});
  }
  CommandLine cli(call.name, program.summary);
  std::vector<std::string> words;
  detail::add_options(cli, words, presets, common.preset, o);
  program.describe(cli);
  for (const auto& [name, summary] : presets) cli.list("Presets", name, summary);

  detail::read_call(cli, words, call);  // to know the preset, or the run to resume
  std::optional<detail::StoredRun> stored;
  if (detail::continues_run(cli, o.call.folder)) {
    const CallOptions given = o.call;
    o = options_of_run(program, given.folder.out_dir);
    stored = detail::StoredRun{settled_config(program, o), o.optimizer.dtype,
                               o.optimizer.warmup_iters == o.optimizer.default_warmup()};
    o.call = given;
  } else {
    Options asked = std::move(o);
    o = preset_of(program, asked.text.preset);
    const auto choose = preset_named(program, asked.text.preset).choose;
    const bool informs = cli.given("--help") || cli.given("--version");
    if (choose && !detail::has_choices(cli) && !informs) {
      for (const char* option : {"--max-iters", "--epochs"}) {
        if (!cli.given(option)) continue;
        usage_error("--preset {} goes by --max-minutes, and not by {}", asked.text.preset, option);
      }
      asked.text.corpus.insert(asked.text.corpus.end(), words.begin(), words.end());
      const auto measured = [&](const Product& product) {
        use_compute(asked.call.compute);
        return rate(product);
      };
      as_usage([&] { o = choose(asked, measured); });
      o.text.preset = asked.text.preset;
    }
  }
  cli.set_values();
  if (cli.printed_information()) return std::nullopt;

  detail::take_words(common, cli, words);
  o = program.adjusted(o, cli);
  detail::settle(common, cli, stored, ranks);
  as_usage([&] {
    o.validate();
    program.check_patterns(o);
  });
  detail::check_call(common, cli);
  if (stored) detail::check_resumed(stored->config, settled_config(program, o));
  return o;
}

// The same of these processes, with the dtype that is faster on the machine where it is automatic.
// Chooses what multiplies.
template <class Options>
std::optional<Options> parse(const TrainingProgram<Options>& program, const Call& call,
                             Processes& processes) {
  const auto rate = [&](const Product& product) {
    double agreed = rate_here(product);  // ranks' processors may differ
    processes.broadcast(std::as_writable_bytes(std::span(&agreed, 1)));
    return agreed * processes.size();
  };
  std::optional<Options> o = parse(program, call, processes.size(), rate);
  if (!o) return o;
  use_compute(o->call.compute);
  if (o->optimizer.dtype == run::TrainDtype::automatic) {
    o->optimizer = detail::with_dtype(o->optimizer, program.product(*o), processes);
  }
  return o;
}

// --gradient-accumulation-steps of so many processes, of which each needs a batch at least: unless
// the number was given, it is rounded up. UsageError if there are too few.
std::int64_t batches_of_ranks(std::int64_t batches, bool resumes,
                              const std::vector<std::string>& corpus, const CommandLine& cli,
                              int ranks);

}  // namespace tapegrad::cli
