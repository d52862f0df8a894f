#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/call_options.h"
#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/plan/product_rate.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::cli {

// A training program, as its command line and train_main() see it: options, and what they train.

// Read data and a model, for one training.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual run::Task task() = 0;
};

// The options that every training program has, as parts of its own struct.
struct CommonOptions {
  CallOptions& call;
  run::OptimizerOptions& optimizer;
  run::EvaluationOptions& evaluation;
  std::string& preset;
  std::vector<std::string>& corpus;
  std::vector<std::string>* val = nullptr;  // null: the program has no such option
  std::string* data = nullptr;              // so, too
};

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
  virtual Described options() = 0;
  virtual CommonOptions common() = 0;
  virtual void validate() const = 0;              // Error, naming the option
  virtual void describe(CommandLine&) const = 0;  // examples for --help
  // Options that follow from what was given.
  virtual void adjust(const CommandLine&) = 0;
  // The exit code of what is done in place of training (--plan), or nothing.
  virtual std::optional<int> instead() const { return std::nullopt; }
  virtual run::Product product() const = 0;  // the largest product of a block
  // Reads the data and makes the model. May settle options that depend on these.
  virtual std::unique_ptr<Prepared> prepare(run::RunFolder& folder) = 0;
};

// The half of a TrainingProgram that goes by the type of its options.
template <class Options>
class TrainingWith : public TrainingProgram {
 public:
  std::vector<std::pair<std::string, std::string>> presets() const override {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Preset<Options>& preset : all_presets())
      list.push_back({preset.name, preset.summary});
    return list;
  }
  void take_preset(const std::string& name) override {
    for (const Preset<Options>& preset : all_presets()) {
      if (preset.name == name) o_ = preset.options;
    }
    o_.text.preset = name;
  }
  void take_defaults() override { o_ = Options(); }
  Described options() override { return o_; }
  CommonOptions common() override {
    CommonOptions c{.call = o_.call,
                    .optimizer = o_.optimizer,
                    .evaluation = o_.evaluation,
                    .preset = o_.text.preset,
                    .corpus = o_.text.corpus};
    if constexpr (requires { o_.text.val, o_.text.data; })
      c.val = &o_.text.val, c.data = &o_.text.data;
    return c;
  }
  void validate() const override { o_.validate(); }
  const Options& values() const { return o_; }

 protected:
  virtual const std::vector<Preset<Options>>& all_presets() const = 0;
  Options o_;
};

// Sets the options of this call: those of the preset, or of the run to resume, replaced by those
// that the arguments give. False if --help or --version was printed. UsageError for invalid values,
// and for values that cannot change when a run is resumed.
bool parse_training(TrainingProgram& program, const Call& call);

// Takes the options of the run in `folder`, which it returns, complete: values that are newer than
// the file have their defaults. Error if there is no run, or if its values are invalid.
run::Config take_stored(TrainingProgram& program, const std::filesystem::path& folder);

// --gradient-accumulation-steps of so many processes, of which each needs a batch at least: unless
// the number was given, it is rounded up. UsageError if there are too few.
std::int64_t batches_of_ranks(std::int64_t batches, const CallOptions& call,
                              const std::vector<std::string>& corpus, int ranks);

// The main() of a training program.
int train_main(TrainingProgram& program, const Call& call);

}  // namespace tapegrad::cli
