#include "tapegrad/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tapegrad/apps/cli/cli.h"
#include "tapegrad/autograd/base/file.h"

namespace tapegrad::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view optimizer_file = "optimizer.safetensors";
constexpr std::string_view trainer_file = "trainer.json";
constexpr std::string_view metrics_file = "metrics.jsonl";
constexpr std::string_view text_file = "corpus.txt";
constexpr std::string_view writing_folder = "checkpoint.writing";
constexpr std::string_view ready_folder = "checkpoint.ready";
// trainer.json goes last: until it is there, a new run has no checkpoint.
constexpr std::string_view checkpoint_files[] = {model_file, optimizer_file, trainer_file};
// All that a run writes. Without trainer.json, which goes first when a run is removed, what is left
// of it cannot be mistaken for a checkpoint.
constexpr std::string_view run_files[] = {trainer_file,   ready_folder,   writing_folder,
                                          model_file,     optimizer_file, config_file,
                                          tokenizer_file, metrics_file,   text_file};
constexpr std::string_view trainer_format = "tapegrad-trainer";
constexpr int trainer_version = 1;
const std::string iteration_key = "iteration";

std::string system_error() { return std::generic_category().message(errno); }

void sync_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check(!error, "cannot move {} to {}: {}", from.string(), to.string(), error.message());
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(!error, "cannot make the folder {}: {}", path.string(), error.message());
}

// The first of runs/<preset>-1, -2, … that does not exist yet, made.
fs::path make_next_folder(const std::string& preset) {
  make_folder("runs");
  for (int n = 1;; ++n) {
    fs::path path = fs::path("runs") / fmt::format("{}-{}", preset, n);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    check(!error || fs::exists(path), "cannot make the folder {}: {}", path.string(),
          error.message());
  }
}

// Finds out before training what would otherwise fail after it.
void check_writable(const fs::path& path) {
  check(fs::is_directory(path), "{} is not a folder", path.string());
  check(::access(path.c_str(), W_OK | X_OK) == 0, "the run folder {} cannot be written: {}",
        path.string(), system_error());
}

struct Trainer {
  fs::path path;
  Json json;
  int64_t iteration = 0;
};

Trainer read_trainer(const fs::path& folder) {
  Trainer trainer{folder / trainer_file, read_json_object(folder / trainer_file)};
  std::string format;
  int64_t version = 0;
  get(trainer.path, trainer.json, "format", format);
  get(trainer.path, trainer.json, "version", version);
  check(format == trainer_format && version == trainer_version,
        "{}: this has format '{}', version {}; expected '{}', version {}", trainer.path.string(),
        format, version, trainer_format, trainer_version);
  get(trainer.path, trainer.json, iteration_key, trainer.iteration);
  check(trainer.iteration >= 0, "{}: '{}' is {}", trainer.path.string(), iteration_key,
        trainer.iteration);
  return trainer;
}

// A run among the texts that it learns would learn itself when it is resumed.
void check_outside(const fs::path& folder, const std::vector<std::string>& corpus) {
  const fs::path inner = fs::weakly_canonical(folder);
  for (const std::string& name : corpus) {
    const fs::path outer = fs::weakly_canonical(name);
    const auto [end, at] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
    check(end != outer.end() || !fs::is_directory(outer),
          "the run folder {} lies inside --corpus {}, so that it would become part of the text: "
          "choose another --out-dir",
          folder.string(), name);
    const bool replaced = std::any_of(std::begin(run_files), std::end(run_files),
                                      [&](auto file) { return outer == inner / file; });
    check(!replaced, "--corpus {} is a file that a run in {} replaces: choose another --out-dir",
          name, folder.string());
  }
}

// All files of a checkpoint carry its iteration.
void check_iteration(const std::string& file, const Metadata& metadata, int64_t iteration) {
  const auto it = metadata.find(iteration_key);
  const std::string found = it == metadata.end() ? "none" : it->second;
  check(found == std::to_string(iteration),
        "{}: this is of iteration {}, but {} is of iteration {}: the files are not of one "
        "checkpoint",
        file, found, trainer_file, iteration);
}

}  // namespace

RunFolder::Lock::~Lock() { ::close(descriptor); }

RunFolder::RunFolder(fs::path path, bool resumes) : path_(std::move(path)), resumes_(resumes) {}

RunFolder::~RunFolder() {
  std::error_code ignored;  // a folder that is not empty stays
  if (made_ && !path_.empty()) fs::remove(path_, ignored);
}

void RunFolder::lock() {
  lock_ = std::make_unique<Lock>(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems have no locks; that is no reason not to train.
  const bool busy = lock_->descriptor >= 0 && ::flock(lock_->descriptor, LOCK_EX | LOCK_NB) != 0 &&
                    errno == EWOULDBLOCK;
  check(!busy, "another program is training in {}", path_.string());
}

RunFolder RunFolder::create(const RunOptions& options) {
  const bool named = !options.out_dir.empty();
  const bool existed = named && fs::exists(options.out_dir);
  if (named) make_folder(options.out_dir);
  RunFolder run(named ? fs::path(options.out_dir) : make_next_folder(options.preset), false);
  check_writable(run.path_);
  run.lock();
  run.made_ = !existed;
  check_outside(run.path_, options.corpus);
  const bool is_run = fs::exists(run.path_ / config_file) || fs::exists(run.path_ / trainer_file);
  for (const std::string_view name : run_files) {
    if (!fs::exists(run.path_ / name)) continue;
    check(is_run,
          "{} has a file {} that is not of a run, and a run would replace it: choose another "
          "--out-dir",
          run.path_.string(), name);
    check(options.overwrite,
          "{} holds a run already ({}). Choose another --out-dir, go on with it by --init-from "
          "resume, or replace it by --overwrite",
          run.path_.string(), name);
  }
  return run;
}

void RunFolder::remove_old_run() const {
  for (const std::string_view name : run_files) {
    std::error_code error;
    fs::remove_all(path_ / name, error);
    check(!error, "cannot remove {}: {}", (path_ / name).string(), error.message());
  }
}

RunFolder RunFolder::open(const RunOptions& options) {
  RunFolder run(options.out_dir, true);
  check_writable(run.path_);
  run.lock();
  run.finish_checkpoint();
  std::error_code ignored;
  fs::remove_all(run.path_ / writing_folder, ignored);
  check(fs::exists(run.path_ / trainer_file),
        "{} has no checkpoint to resume: {} is missing. The run can be started anew with "
        "--overwrite",
        run.path_.string(), trainer_file);
  return run;
}

void RunFolder::write_setup(const RunOptions& options, const Setup& setup) {
  const int64_t made = resumes_ ? read_trainer(path_).iteration : 0;
  if (made > options.max_iters) {
    usage_error("the run in {} has made {} steps already: --max-iters {} leaves none to make",
                path_.string(), made, options.max_iters);
  }
  if (!resumes_) remove_old_run();
  setup.tokenizer.save(path_ / tokenizer_file);
  if (options.corpus.empty()) write_file_atomically(path_ / text_file, setup.text.contents);
  const Json about_text = {{"name", setup.text.name},
                           {"bytes", setup.text.contents.size()},
                           {"fingerprint", setup.text.fingerprint}};
  write_json(path_ / config_file, {{"format", options.format},
                                   {"version", config_version},
                                   {"model", setup.model},
                                   {"text", about_text},
                                   {"training", setup.training}});
}

std::optional<data::Tokenizer> RunFolder::tokenizer() const {
  if (!resumes_) return std::nullopt;
  return data::Tokenizer::load(path_ / tokenizer_file);
}

Text RunFolder::text(const RunOptions& options, const std::function<Text()>& own_text) const {
  const bool own = options.corpus.empty();
  if (!resumes_) return own ? own_text() : read_text(options.corpus);
  Text text = read_text(own ? std::vector{(path_ / text_file).string()} : options.corpus);
  const fs::path path = path_ / config_file;
  Json stored;
  std::string name, fingerprint;
  get(path, read_config(path_, options.format), "text", stored);
  get(path, stored, "name", name);
  get(path, stored, "fingerprint", fingerprint);
  check(text.fingerprint == fingerprint,
        "the run in {} was made of another text: of {} with fingerprint {}, while {} has {}. "
        "Resume it with the same --corpus, or start a new run",
        path_.string(), name, fingerprint, text.name, text.fingerprint);
  if (own) text.name = name;  // and not that of the copy here
  return text;
}

void RunFolder::save(const TrainState& state) const {
  finish_checkpoint();
  const fs::path writing = path_ / writing_folder;
  std::error_code ignored;
  fs::remove_all(writing, ignored);
  make_folder(writing);
  try {
    write_checkpoint(writing, state);
  } catch (...) {  // what was written may fill the disk
    fs::remove_all(writing, ignored);
    throw;
  }
  rename_or_fail(writing, path_ / ready_folder);
  sync_folder(path_);
  finish_checkpoint();
}

void RunFolder::write_checkpoint(const fs::path& writing, const TrainState& state) const {
  const Progress& p = state.progress;
  Metadata metadata = {{iteration_key, std::to_string(p.iteration)}};
  save_safetensors((writing / model_file).string(), state.params.tensors(), metadata);
  metadata.merge(state.adamw.metadata());
  save_safetensors((writing / optimizer_file).string(), state.adamw.state(), metadata);
  write_json(writing / trainer_file, {{"format", trainer_format},
                                      {"version", trainer_version},
                                      {"iteration", p.iteration},
                                      {"best_val_loss", json_of(p.best_val_loss)},
                                      {"best_iteration", p.best_iteration},
                                      {"seconds", p.seconds},
                                      {"loader", state.loader.state()},
                                      {"dropout", state.dropout.state()}});
  sync_folder(writing);
}

void RunFolder::finish_checkpoint() const {
  const fs::path ready = path_ / ready_folder;
  if (!fs::exists(ready)) return;
  for (const std::string_view name : checkpoint_files) {
    if (fs::exists(ready / name)) rename_or_fail(ready / name, path_ / name);
  }
  sync_folder(path_);
  std::error_code error;
  fs::remove_all(ready, error);
  check(!error, "cannot remove {}: {}", ready.string(), error.message());
}

std::shared_ptr<const TensorSource> RunFolder::model() const {
  auto file = open_safetensors((path_ / model_file).string());
  check_iteration(file->name(), file->metadata(), read_trainer(path_).iteration);
  return file;
}

void RunFolder::restore(const TrainState& state) const {
  const auto [path, json, iteration] = read_trainer(path_);
  Progress p;
  std::string loader, dropout;
  p.iteration = iteration;
  get(path, json, "best_val_loss", p.best_val_loss);
  get(path, json, "best_iteration", p.best_iteration);
  get(path, json, "seconds", p.seconds);
  get(path, json, "loader", loader);
  get(path, json, "dropout", dropout);

  const SafeTensors optimizer = load_safetensors((path_ / optimizer_file).string());
  check_iteration(optimizer.path, optimizer.metadata, p.iteration);
  state.adamw.load_state(optimizer);
  try {
    state.loader.set_state(loader);
    state.dropout.set_state(dropout);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  state.progress = p;
  trim_metrics(p.iteration);
}

void RunFolder::trim_metrics(int64_t iteration) const {
  const fs::path path = path_ / metrics_file;
  if (!fs::exists(path)) return;
  const std::string text = read_file(path);
  size_t kept = 0;
  while (kept < text.size()) {
    const size_t end = text.find('\n', kept);
    if (end == std::string::npos) break;  // a line that was cut short
    const Json line = Json::parse(text.begin() + static_cast<ptrdiff_t>(kept),
                                  text.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
    const auto at = line.is_object() ? line.find("iteration") : line.end();
    if (!line.is_object() || at == line.end() || !at->is_number_integer()) break;
    if (at->get<int64_t>() >= iteration) break;
    kept = end + 1;
  }
  if (kept == text.size()) return;
  std::error_code error;
  fs::resize_file(path, kept, error);
  check(!error, "cannot shorten {}: {}", path.string(), error.message());
}

void RunFolder::append_metrics(const Json& line) {
  const fs::path path = path_ / metrics_file;
  if (!metrics_) {
    metrics_.reset(std::fopen(path.c_str(), "ae"));
    check(metrics_ != nullptr, "cannot write {}: {}", path.string(), system_error());
  }
  const std::string text = line.dump() + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), metrics_.get()) == text.size() &&
                       std::fflush(metrics_.get()) == 0;
  check(written, "cannot write {}: {}", path.string(), system_error());
}

}  // namespace tapegrad::apps
