#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tapegrad/optim/adamw.h"
#include "tapegrad/run/dataset.h"
#include "tapegrad/run/model_folder.h"
#include "tapegrad/run/run_options.h"

namespace tapegrad::apps {

// How far a run has come.
struct Progress {
  int64_t iteration = 0;  // optimiser steps made
  std::optional<double> best_val_loss;
  int64_t best_iteration = 0;
  double seconds = 0;  // spent in training steps
};

// A source of random batches, whose place in its stream is saved.
struct Resumable {
  template <class Loader>
  Resumable(Loader& loader)  // NOLINT: a Loader is one
      : state([&loader] { return loader.state(); }),
        set_state([&loader](std::string_view saved) { loader.set_state(saved); }) {}
  std::function<std::string()> state;
  std::function<void(std::string_view)> set_state;
};

// What a checkpoint is taken of, and restored into. The model's parameters are loaded when the
// model is made.
struct TrainState {
  const nn::Params& params;
  optim::AdamW& adamw;
  Resumable loader;
  Rng& dropout;
  Progress& progress;
};

// The folder of one run:
//   config.json            the model, the options, and what the text was
//   tokenizer.json
//   model.safetensors      ┐
//   optimizer.safetensors  ├ the last checkpoint
//   trainer.json           ┘ iteration, random states, best loss
//   metrics.jsonl          one object per evaluation and iter line
//   corpus.txt             the text, if it is the program's own: another build has another one
//
// The three files of a checkpoint belong together, whenever the program or the machine stops: they
// are written to checkpoint.writing/, which becomes checkpoint.ready/ in one step, and then move to
// their places, one after the other. Opening a folder finishes moves that were cut short. The file
// model.safetensors by itself is complete at all times.
class RunFolder {
 public:
  // A new run in options.out_dir, or in a folder runs/<preset>-<n> of its own. Error if the folder
  // cannot be written, holds a run already (without options.overwrite) or files of others that a
  // run would replace, or lies among the texts of options.corpus.
  static RunFolder create(const RunOptions& options);
  // The run in options.out_dir. Error if it has no checkpoint.
  static RunFolder open(const RunOptions& options);
  RunFolder(RunFolder&&) noexcept = default;
  // Takes away a folder in which nothing was ever written.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }

  // config.json and tokenizer.json. An old run that is replaced is removed only now, when the new
  // one is known to be possible.
  struct Setup {
    Json model, training;  // the parts of config.json that depend on the program
    const Text& text;
    const data::Tokenizer& tokenizer;
  };
  // UsageError if a run that is resumed has made more than options.max_iters steps.
  void write_setup(const RunOptions& options, const Setup& setup);
  // The tokenizer of a run that is resumed.
  std::optional<data::Tokenizer> tokenizer() const;
  // The text to learn: options.corpus or, if that is empty, what `own_text` makes. Error if the run
  // is resumed and was made of another one.
  Text text(const RunOptions& options, const std::function<Text()>& own_text) const;

  void save(const TrainState& state) const;
  std::shared_ptr<const TensorSource> model() const;
  // The rest of the checkpoint; metrics of steps that it does not have are removed.
  void restore(const TrainState& state) const;

  void append_metrics(const Json& line);

 private:
  RunFolder(std::filesystem::path path, bool resumes);
  void lock();
  void remove_old_run() const;
  void write_checkpoint(const std::filesystem::path& writing, const TrainState& state) const;
  void finish_checkpoint() const;
  void trim_metrics(int64_t iteration) const;

  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Lock {
    explicit Lock(int d) : descriptor(d) {}
    ~Lock();
    int descriptor;
  };
  std::filesystem::path path_;
  bool made_ = false;  // by this program
  bool resumes_;
  std::unique_ptr<Lock> lock_;  // one program at a time trains here
  std::unique_ptr<std::FILE, Closer> metrics_;
};

}  // namespace tapegrad::apps
