#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/base/random.h"
#include "tapegrad/nn/params.h"
#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/optim/outlier_window.h"

namespace tapegrad::run {

// How far a run has come.
struct Progress {
  std::int64_t iteration = 0;  // optimiser steps made, and skipped
  std::int64_t skipped = 0;    // of them, by skip_outliers
  // The optimiser's count of updates beyond iteration − skipped: 0 unless the run went back
  // to an earlier step.
  std::int64_t update_offset = 0;
  optim::OutlierWindow losses = {}, norms = {};  // of the last steps, if it is on
  std::optional<double> best_val_loss = {};
  std::int64_t best_iteration = 0;
  double seconds = 0;           // spent in training steps
  std::string multiplier = {};  // gemm_identity()
};

// Something that draws random batches. A checkpoint saves its place in the random stream, as a
// text. Any class with state() and set_state() converts to it; the object must live as long.
struct Resumable {
  template <class Loader>
  requires requires(Loader& loader, std::string_view saved) {
    { loader.state() } -> std::convertible_to<std::string>;
    loader.set_state(saved);
  }
  Resumable(Loader& loader)  // NOLINT: a Loader is one
      : state([&loader] { return std::string(loader.state()); }),
        set_state([&loader](std::string_view saved) { loader.set_state(saved); }) {}
  std::function<std::string()> state;
  std::function<void(std::string_view)> set_state;
};

// The state that a checkpoint saves and restores. The parameters' values are read when the model
// is made.
struct TrainState {
  const nn::Params& params;
  optim::GradientSync& sync;
  const Resumable& batches;
  Rng& dropout;
  Progress& progress;
};

// The checkpoint of a folder is three files: model.safetensors, optimizer.safetensors and
// trainer.json (iteration, random states, best loss). They belong together, whenever the program
// or the machine stops: they are written to checkpoint.writing/, which becomes checkpoint.ready/ by
// one rename, and then move to their places one by one. finish_checkpoint() completes moves that
// were cut short. The file model.safetensors by itself is complete at all times.
inline constexpr std::string_view kModelFile = "model.safetensors";
// In folders of Hugging Face's, where a model's weights are in several files.
inline constexpr std::string_view kModelIndexFile = "model.safetensors.index.json";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kTrainerFile = "trainer.json";
inline constexpr std::string_view kWritingFolder = "checkpoint.writing";
inline constexpr std::string_view kReadyFolder = "checkpoint.ready";

// Error, naming the first one, if a weight is not finite: such weights replace no good file.
void check_finite_weights(const NamedTensors& weights, std::int64_t iteration);
// Checks tensors that the file at `path` had.
void check_finite_tensors(const std::filesystem::path& path, const NamedTensors& tensors);
void save_checkpoint(const std::filesystem::path& folder, const TrainState& state);
// The part of a rank other than 0: it sends its share of the optimiser's state.
void contribute_checkpoint(const TrainState& state);
void finish_checkpoint(const std::filesystem::path& folder);
// The steps that the checkpoint has made.
std::int64_t checkpoint_iteration(const std::filesystem::path& folder);
// The step of the lowest validation loss that the checkpoint knows; nothing if it knows none.
std::optional<std::int64_t> best_iteration(const std::filesystem::path& folder);
// The model's tensors. Error if its file is not of the iteration that trainer.json names.
std::shared_ptr<const TensorSource> checkpoint_model(const std::filesystem::path& folder);
// All but the parameters. Errors name the file that is broken or of another checkpoint.
void restore_checkpoint(const std::filesystem::path& folder, const TrainState& state);

}  // namespace tapegrad::run
