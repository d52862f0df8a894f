#include "tapegrad/run/folder/run_checkpoint.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// trainer.json goes last: until it is there, a new run has no checkpoint.
constexpr std::string_view kCheckpointFiles[] = {kModelFile, kOptimizerFile, kTrainerFile};
constexpr std::string_view kTrainerFormat = "tapegrad-trainer";
constexpr int kTrainerVersion = 1;
const std::string kIteration = "iteration";
// Keys of skip_outliers: absent while there is nothing to store.
const std::string kSkipped = "skipped", kLosses = "last_losses", kNorms = "last_norms";
const std::string kUpdateOffset = "update_offset";  // absent if it is 0
// Tells which batches were drawn: the fingerprint of the random states in trainer.json.
const std::string kRandomState = "random_state";

struct Trainer {
  fs::path path;
  Json json;
  int64_t iteration = 0;
};

Trainer read_trainer(const fs::path& folder) {
  Trainer trainer{folder / kTrainerFile, read_json_object(folder / kTrainerFile)};
  std::string format;
  int64_t version = 0;
  get(trainer.path, trainer.json, "format", format);
  get(trainer.path, trainer.json, "version", version);
  check(format == kTrainerFormat && version == kTrainerVersion,
        "{}: this has format '{}', version {}; expected '{}', version {}", trainer.path.string(),
        format, version, kTrainerFormat, kTrainerVersion);
  get(trainer.path, trainer.json, kIteration, trainer.iteration);
  check(trainer.iteration >= 0, "{}: '{}' must be 0 or more, not {}", trainer.path.string(),
        kIteration, trainer.iteration);
  return trainer;
}

// Reads the name of the library that multiplied, which is printed: a foreign file must not control
// the terminal by it, or fill it.
std::string read_multiplier(const fs::path& path, const Json& json) {
  constexpr std::size_t most = 1000;
  std::string text;
  if (json.contains("multiplier")) get(path, json, "multiplier", text);
  unsigned char before = 0;
  const bool controls = std::any_of(text.begin(), text.end(), [&](unsigned char c) {
    const bool c1 = std::exchange(before, c) == 0xC2 && c < 0xA0;  // U+0080 to U+009F
    return c < 0x20 || c == 0x7F || c1;
  });
  check(!controls && text.size() <= most,
        "{}: 'multiplier' must have at most {} bytes and no control characters", path.string(),
        most);
  return text;
}

// Reads the memory of skip_outliers.
void read_outliers(const fs::path& path, const Json& json, Progress& progress) {
  if (json.contains(kSkipped)) get(path, json, kSkipped, progress.skipped);
  check(progress.skipped >= 0 && progress.skipped <= progress.iteration,
        "{}: '{}' must be from 0 to {}, not {}", path.string(), kSkipped, progress.iteration,
        progress.skipped);
  const auto read = [&](const std::string& name, optim::OutlierWindow& window) {
    if (!json.contains(name)) return;
    std::vector<double> values;
    get(path, json, name, values);
    try {
      window.set_values(std::move(values));
    } catch (const Error& error) {
      fail("{}: '{}': {}", path.string(), name, error.what());
    }
  };
  read(kLosses, progress.losses);
  read(kNorms, progress.norms);
  check(progress.losses.values().size() == progress.norms.values().size(),
        "{}: '{}' and '{}' must have as many values as each other", path.string(), kLosses, kNorms);
}

// All files of a checkpoint carry its iteration.
void check_iteration(const TensorSource& file, int64_t iteration) {
  const auto it = file.metadata().find(kIteration);
  const std::string found = it == file.metadata().end() ? "none" : it->second;
  check(found == std::to_string(iteration),
        "{}: this is of iteration {}, but {} is of iteration {}: the files are not of one "
        "checkpoint",
        file.name(), found, kTrainerFile, iteration);
}

// Weights must not go on with other batches than those that would have been theirs. Files of
// earlier versions do not say which they are.
void check_random_state(const TensorSource& file, const std::string& states) {
  const auto it = file.metadata().find(kRandomState);
  check(it == file.metadata().end() || it->second == fingerprint(states),
        "{}: this was saved with other random states than those in {}: the files are not of one "
        "checkpoint",
        file.name(), kTrainerFile);
}

void check_finite(const std::string& broken, int64_t iteration) {
  check(broken.empty(),
        "after step {}, '{}' has values that are not numbers, and nothing is saved. Lower the "
        "learning rate",
        iteration, broken);
}

// A checkpoint that no run can go on from must not replace one that is good.
void check_finite_state(const TrainState& state) {
  check_finite(broken_tensor(state.params.tensors()), state.progress.iteration);
  check_finite(state.sync.broken_tensor(), state.progress.iteration);
}

void write_files(const fs::path& writing, const TrainState& state) {
  const Progress& p = state.progress;
  Metadata metadata = {{kIteration, std::to_string(p.iteration)}};
  save_safetensors((writing / kModelFile).string(),
                   state.sync.agreed(state.params.checkpoint_tensors()), metadata);
  const std::string loader = state.batches.state(), dropout = state.dropout.state();
  metadata[kRandomState] = fingerprint(loader + dropout);
  state.sync.save((writing / kOptimizerFile).string(), metadata, {});
  Json trainer = {{"format", kTrainerFormat},
                  {"version", kTrainerVersion},
                  {"iteration", p.iteration},
                  {"best_val_loss", json_of(p.best_val_loss)},
                  {"best_iteration", p.best_iteration},
                  {"seconds", p.seconds},
                  {"multiplier", p.multiplier},
                  {"loader", loader},
                  {"dropout", dropout}};
  if (p.skipped > 0) trainer[kSkipped] = p.skipped;
  if (!p.losses.values().empty()) {
    trainer[kLosses] = p.losses.values();
    trainer[kNorms] = p.norms.values();
  }
  if (p.update_offset != 0) trainer[kUpdateOffset] = p.update_offset;
  write_json(writing / kTrainerFile, trainer);
}

}  // namespace

void check_finite_weights(const NamedTensors& weights, std::int64_t iteration) {
  check_finite(broken_tensor(weights), iteration);
}

void check_finite_tensors(const fs::path& path, const NamedTensors& tensors) {
  const std::string broken = broken_tensor(tensors);
  check(broken.empty(), "{}: '{}' has values that are not numbers: the file is broken",
        path.string(), broken);
}

void save_checkpoint(const fs::path& folder, const TrainState& state) {
  check_finite_state(state);
  finish_checkpoint(folder);
  const fs::path writing = folder / kWritingFolder;
  std::error_code ignored, error;
  fs::remove_all(writing, ignored);
  fs::create_directory(writing, error);
  check(!error, "cannot make the folder {}: {}", writing.string(), error.message());
  try {
    write_files(writing, state);
  } catch (...) {  // the files written so far may fill the disk
    fs::remove_all(writing, ignored);
    throw;
  }
  // All that is in it has reached the disk, since each file was written atomically.
  rename_or_fail(writing, folder / kReadyFolder);
  sync_folder(folder);
  finish_checkpoint(folder);
}

void contribute_checkpoint(const TrainState& state) {
  check_finite_state(state);
  state.sync.save({}, {}, {});
}

void finish_checkpoint(const fs::path& folder) {
  const fs::path ready = folder / kReadyFolder;
  if (!has_entry(ready)) return;
  move_files(ready, kCheckpointFiles, folder);
  sync_folder(folder);
  remove_or_fail(ready);
}

std::int64_t checkpoint_iteration(const fs::path& folder) { return read_trainer(folder).iteration; }

std::optional<std::int64_t> best_iteration(const fs::path& folder) {
  const Trainer trainer = read_trainer(folder);
  std::optional<double> loss;
  std::int64_t best = 0;
  get(trainer.path, trainer.json, "best_val_loss", loss);
  get(trainer.path, trainer.json, "best_iteration", best);
  return loss ? std::optional(best) : std::nullopt;
}

std::shared_ptr<const TensorSource> checkpoint_model(const fs::path& folder) {
  const auto file = open_safetensors((folder / kModelFile).string(), Links::refused);
  check_iteration(*file, read_trainer(folder).iteration);
  return file;
}

void restore_checkpoint(const fs::path& folder, const TrainState& state) {
  const auto [path, json, iteration] = read_trainer(folder);
  Progress p;
  std::string loader, dropout;
  p.iteration = iteration;
  get(path, json, "best_val_loss", p.best_val_loss);
  get(path, json, "best_iteration", p.best_iteration);
  get(path, json, "seconds", p.seconds);
  check(p.best_iteration >= 0 && p.best_iteration <= iteration,
        "{}: 'best_iteration' must be from 0 to {}, not {}", path.string(), iteration,
        p.best_iteration);
  constexpr double most_seconds = 1e12;
  check(p.seconds >= 0 && p.seconds <= most_seconds, "{}: 'seconds' must be from 0 to {}, not {}",
        path.string(), most_seconds, p.seconds);
  read_outliers(path, json, p);
  if (json.contains(kUpdateOffset)) get(path, json, kUpdateOffset, p.update_offset);
  constexpr int64_t most_steps = int64_t{1} << 40;
  check(p.update_offset >= -most_steps && p.update_offset <= most_steps,
        "{}: '{}' must be from {} to {}, not {}", path.string(), kUpdateOffset, -most_steps,
        most_steps, p.update_offset);
  p.multiplier = read_multiplier(path, json);
  get(path, json, "loader", loader);
  get(path, json, "dropout", dropout);

  const auto optimizer = open_safetensors((folder / kOptimizerFile).string(), Links::refused);
  check_iteration(*optimizer, p.iteration);
  check_random_state(*optimizer, loader + dropout);
  state.sync.load(*optimizer);
  check_finite_tensors(folder / kModelFile, state.sync.agreed(state.params.tensors()));
  // The optimiser's file has the weights where the model's has averages or those of a last meeting.
  check_finite_tensors(folder / kOptimizerFile, state.params.tensors());
  const std::string broken = state.sync.broken_tensor();
  check(broken.empty(), "{}: '{}' has values that are not numbers: the file is broken",
        (folder / kOptimizerFile).string(), broken);
  try {
    state.batches.set_state(loader);
    state.dropout.set_state(dropout);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  state.progress = p;
}

}  // namespace tapegrad::run
