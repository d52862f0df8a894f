#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tapegrad/apps/cli/call_options.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/autograd/gemm/product_rate.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::cli {

// A training program, as its command line and train_main() see it: options, and what they train.

// Read data and a model, for one training.
class TrainingJob {
 public:
  virtual ~TrainingJob() = default;
  virtual run::Task task() = 0;
};

// The options that every training program has, as parts of its own struct: as constants or, where
// they are settled, as members.
template <bool kSettles>
struct CommonParts {
  template <class T>
  using Of = std::conditional_t<kSettles, T, const T>;

  Of<CallOptions>& call;
  Of<run::OptimizerOptions>& optimizer;
  Of<run::EvaluationOptions>& evaluation;
  Of<std::string>& preset;
  Of<std::vector<std::string>>& corpus;
  Of<std::vector<std::string>>* val = nullptr;   // null: the program has no such option
  Of<std::vector<std::string>>* data = nullptr;  // so, too
  Of<std::vector<std::string>>* chat = nullptr;
  Of<std::vector<std::string>>* preferences = nullptr;
};
using CommonOptions = CommonParts<false>;

template <class Options>
struct Preset {
  std::string name, summary;
  Options options;
};

class TrainingProgram {
 public:
  virtual ~TrainingProgram() = default;
  virtual std::string summary() const = 0;      // for --help
  virtual std::string_view format() const = 0;  // of config.json
  // Where all options start from, the first one if none is named: names, and summaries for help.
  virtual std::vector<std::pair<std::string, std::string>> presets() const = 0;
  virtual void take_preset(const std::string& name) = 0;
  virtual void take_defaults() = 0;  // those of the structs, for a file to be read into
  virtual OptionSchema options() = 0;
  virtual CommonOptions common() const = 0;
  // For comparison: with a value for each option that has one, given or not.
  virtual run::Config settled_config() const = 0;
  virtual void validate() const = 0;  // Error, naming the option
  // Error if a pattern of the options names nothing that the model has. Reads no weights.
  virtual void check_patterns() const {}
  virtual void describe(CommandLine&) const = 0;  // examples for --help
  // Settles the program's own options by what was given, before the common ones are settled.
  virtual void adjust(const CommandLine&) = 0;
  // Runs --plan or the like instead of training and returns its exit code; or nothing.
  virtual std::optional<int> run_other_mode() const { return std::nullopt; }
  virtual Product product() const = 0;  // the largest product of a block
  // Reads the data and makes the model. May settle options that depend on these.
  virtual std::unique_ptr<TrainingJob> prepare(run::RunFolder& folder) = 0;

 private:
  friend bool parse_arguments(TrainingProgram&, const Call&, int);
  friend bool parse_training(TrainingProgram&, const Call&, Processes&);
  virtual CommonParts<true> parts() = 0;
};

// The half of a TrainingProgram that goes by the type of its options.
template <class Options>
class TrainingWith : public TrainingProgram {
 public:
  // The presets must outlive this.
  explicit TrainingWith(const std::vector<Preset<Options>>& presets) : presets_(presets) {}
  std::vector<std::pair<std::string, std::string>> presets() const override {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Preset<Options>& preset : presets_) list.push_back({preset.name, preset.summary});
    return list;
  }
  void take_preset(const std::string& name) override {
    const auto it = std::find_if(presets_.begin(), presets_.end(),
                                 [&](const auto& preset) { return preset.name == name; });
    check(it != presets_.end(), "there is no preset '{}'", name);
    o_ = it->options;
    o_.text.preset = name;
  }
  void take_defaults() override { o_ = Options(); }
  OptionSchema options() override { return o_; }
  CommonOptions common() const override { return parts_of<CommonOptions>(o_); }
  run::Config settled_config() const override {
    if constexpr (requires { o_.settled(); }) {
      const Options settled = o_.settled();
      return run::config_of(settled, format());
    }
    return run::config_of(o_, format());
  }
  void validate() const override { o_.validate(); }
  const Options& values() const { return o_; }

 protected:
  Options o_;

 private:
  CommonParts<true> parts() override { return parts_of<CommonParts<true>>(o_); }
  template <class Parts, class O>
  static Parts parts_of(O& o) {
    Parts parts{.call = o.call,
                .optimizer = o.optimizer,
                .evaluation = o.evaluation,
                .preset = o.text.preset,
                .corpus = o.text.corpus};
    if constexpr (requires { o.text.val, o.text.data; }) {
      parts.val = &o.text.val, parts.data = &o.text.data, parts.chat = &o.text.chat;
      parts.preferences = &o.text.preferences;
    }
    return parts;
  }

  const std::vector<Preset<Options>>& presets_;
};

// Sets the options of this call: those of the preset, or of the run to resume, replaced by those
// that the arguments give, and settles what follows from these, for so many processes. False if
// --help or --version was printed. UsageError for invalid values, and for values that cannot change
// when a run is resumed. dtype may still be automatic.
bool parse_arguments(TrainingProgram& program, const Call& call, int ranks = 1);

// The same, and chooses what multiplies, which decides dtype. From here on, the options are const,
// but for those that depend on the text: TrainingProgram::prepare().
bool parse_training(TrainingProgram& program, const Call& call, Processes& processes);

// Takes the options of the run in `folder`, and returns what they stand for: values that are newer
// than the file have their defaults. Error if there is no run, or if its values are invalid.
run::Config take_stored(TrainingProgram& program, const std::filesystem::path& folder);

// --gradient-accumulation-steps of so many processes, of which each needs a batch at least: unless
// the number was given, it is rounded up. UsageError if there are too few.
std::int64_t batches_of_ranks(const CommonOptions& options, const CommandLine& cli, int ranks);

// The main() of a training program.
int train_main(TrainingProgram& program, const Call& call);

}  // namespace tapegrad::cli
