#include "tapegrad/run/folder/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/internal/lines_of_file.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/tokenize/internal/end_tokens_file.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// All files of a run but for the weights in kept_models.h. trainer.json is removed first: without
// it, nothing that is left can be taken for a checkpoint. config.json is written first and never
// removed: with it, all that is left can be recognised as files of a run, wherever a program was
// stopped.
constexpr std::string_view kRunFiles[] = {kTrainerFile,
                                          kReadyFolder,
                                          kWritingFolder,
                                          kModelFile,
                                          kOptimizerFile,
                                          kTokenizerFile,
                                          kMetricsFile,
                                          kLayersFile,
                                          kSessionsFile,
                                          kReportFile,
                                          kTextFile,
                                          data::kGenerationFile,
                                          kTokenizerConfigFile,
                                          kSpecialTokensFile,
                                          kChatTemplateFile,
                                          kSettingsKeysFile,
                                          data::kEndTokensFile,
                                          data::kBeginTokenFile,
                                          kPeftConfigFile,
                                          kPeftModelFile,
                                          kGgufAdapterFile,
                                          kConfigFile};

// The files of a run that a folder may have, in the order in which a run is removed.
std::vector<std::string> run_files(const fs::path& folder) {
  std::vector<std::string> files = kept_model_files(folder);
  const std::vector<std::string> events = event_files(folder);
  files.insert(files.end(), events.begin(), events.end());
  files.insert(files.begin(), std::begin(kRunFiles), std::end(kRunFiles));
  return files;
}

bool is_run_file(const std::string& name) {
  return is_kept_model(name) || name.starts_with(kEventFile) ||
         std::count(std::begin(kRunFiles), std::end(kRunFiles), name) > 0;
}

// The number `name` of a line's object; nothing if it has none. A foreign line may be anything.
std::optional<int64_t> number_of(std::string_view name, std::string_view line) {
  constexpr int depth = 4;
  try {
    const Json json = parse_json<Json>(line, depth);
    const auto at = json.is_object() ? json.find(name) : json.end();
    if (!json.is_object() || at == json.end() || !at->is_number_integer()) return std::nullopt;
    return at->get<int64_t>();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void check_outside(const fs::path& folder, const std::vector<NamedText>& texts) {
  const fs::path inner = resolved_path(folder);
  for (const auto& [option, name] : texts) {
    const fs::path outer = resolved_path(name);
    check(!is_inside(inner, outer) || !is_folder(outer),
          "the run folder {} lies inside {} {}, so that it would become part of the text: "
          "choose another --out-dir",
          folder.string(), option, name);
    const bool replaced = std::any_of(std::begin(kRunFiles), std::end(kRunFiles),
                                      [&](auto file) { return outer == inner / file; });
    check(!replaced, "{} {} is a file that a run in {} replaces: choose another --out-dir", option,
          name, folder.string());
  }
}

std::vector<std::string> event_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ended;
  for (fs::directory_iterator at(folder, ended); !ended && at != fs::directory_iterator();
       at.increment(ended)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kEventFile)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

RunFolder::Lock::~Lock() { ::close(descriptor); }

RunFolder::~RunFolder() {
  std::error_code ignored;  // a folder that is not empty stays
  if (made_ && !path_.empty()) fs::remove(path_, ignored);
}

void RunFolder::lock() { lock_ = std::make_unique<Lock>(lock_folder(path_, "training")); }

RunFolder RunFolder::open(const FolderOptions& options, const std::string& name,
                          const std::vector<NamedText>& texts, Processes* processes) {
  options.validate();
  if (processes != nullptr && processes->alone()) processes = nullptr;
  if (processes != nullptr) {
    check_same(*processes, {{"--init-from", options.resumes() ? "resume" : "a new run"},
                            {"--out-dir", options.out_dir.empty() ? "none" : options.out_dir}});
    if (processes->rank() > 0) return follow(options, *processes);
  }
  RunFolder run = options.resumes() ? reopen(options) : create(options, name, texts);
  run.processes_ = processes;
  if (options.goes_back()) run.find_best(options);
  if (processes != nullptr) processes->all_gather(run.path_.string());
  return run;
}

RunFolder RunFolder::follow(const FolderOptions& options, Processes& processes) {
  RunFolder run(processes.all_gather({}).front(), options.resumes());
  run.processes_ = &processes;
  run.follows_ = true;
  check(!run.resumes_ || path_exists(run.path_ / kTrainerFile),
        "{} is not to be seen here: processes on several hosts need a file system that they share "
        "to resume a run",
        (run.path_ / kTrainerFile).string());
  if (options.goes_back()) run.find_best(options);
  return run;
}

// A run that was stopped between an evaluation and its checkpoint may keep a best model that the
// checkpoint does not know.
void RunFolder::find_best(const FolderOptions& options) {
  const auto file =
      open_safetensors(model_file(path_, *options.checkpoint).string(), Links::refused);
  const auto known = best_iteration(path_);
  const auto step = file->metadata().find("iteration");
  const std::string found = step == file->metadata().end() ? "none" : step->second;
  check(known && found == std::to_string(*known),
        "{}: this is of step {}, and the checkpoint knows step {} as the best: --init-from resume "
        "without --checkpoint goes on from the checkpoint",
        file->name(), found, known ? std::to_string(*known) : "none");
  const int64_t last = checkpoint_iteration(path_);
  if (*known == last) return;
  best_step_ = known;
  back_from_ = last;
}

std::int64_t RunFolder::first_step() const {
  if (best_step_) return *best_step_;
  return resumes_ ? checkpoint_iteration(path_) : 0;
}

namespace {

// True if the folder has weights, but nothing that a run keeps beside them: a model of somebody
// else's, or one that tapegrad merge has made.
bool is_model_alone(const fs::path& folder) {
  const auto has = [&](std::string_view name) { return has_entry(folder / name); };
  const bool of_run =
      has(kTrainerFile) || has(kOptimizerFile) || has(kReadyFolder) || has(kMetricsFile);
  return (has(kModelFile) || has(kModelIndexFile)) && !of_run;
}

}  // namespace

RunFolder RunFolder::create(const FolderOptions& options, const std::string& name,
                            const std::vector<NamedText>& texts) {
  const bool named = !options.out_dir.empty();
  const bool existed = named && path_exists(options.out_dir);
  if (named) make_folder(options.out_dir);
  RunFolder run(named ? fs::path(options.out_dir) : make_next_folder(name), false);
  check_writable(run.path_);
  run.lock();
  run.made_ = !existed;
  check_outside(run.path_, texts);
  check(!is_model_alone(run.path_),
        "{} holds a model that is not of a run, and a run would replace it: choose another "
        "--out-dir",
        run.path_.string());
  const bool is_run = has_entry(run.path_ / kConfigFile) || has_entry(run.path_ / kTrainerFile);
  for (const std::string& file : run_files(run.path_)) {
    if (!has_entry(run.path_ / file)) continue;
    check(is_run,
          "{} has a file {} that is not of a run, and a run would replace it: choose another "
          "--out-dir",
          run.path_.string(), file);
    check(options.overwrite,
          "{} holds a run already ({}). Choose another --out-dir, go on with it by --init-from "
          "resume, or replace it by --overwrite",
          run.path_.string(), file);
  }
  remove_leftovers(run.path_, is_run_file);
  return run;
}

void RunFolder::remove_old_run() const {
  for (const std::string& name : run_files(path_)) {
    if (name == kConfigFile) continue;  // the new one will replace it
    remove_or_fail(path_ / name);
    // After a power cut, too, no old checkpoint must be found among files of the new run.
    if (name == kReadyFolder) sync_folder(path_);
  }
}

RunFolder RunFolder::reopen(const FolderOptions& options) {
  RunFolder run(options.out_dir, true);
  check_writable(run.path_);
  run.lock();
  finish_checkpoint(run.path_);
  std::error_code ignored;
  fs::remove_all(run.path_ / kWritingFolder, ignored);
  check(path_exists(run.path_ / kTrainerFile),
        "{} has no checkpoint to resume: {} is missing. The run can be started anew with "
        "--overwrite",
        run.path_.string(), kTrainerFile);
  remove_leftovers(run.path_, is_run_file);
  return run;
}

Config RunFolder::config(std::string_view format) const {
  return read_config(path_ / kConfigFile, format);
}

std::shared_ptr<const TensorSource> RunFolder::weights() const {
  return best_step_
             ? open_safetensors(model_file(path_, std::string(kBest)).string(), Links::refused)
             : checkpoint_model(path_);
}

nn::Params RunFolder::params(Rng& rng, Precision precision) const {
  return resumes_ ? nn::Params(weights(), DType::f32, precision)
                  : nn::Params(rng, DType::f32, precision);
}

void RunFolder::begin(const Config& config,
                      const std::function<void(const fs::path&)>& write_files) {
  begun_ = true;
  if (follows_) return;
  if (!resumes_) remove_old_run();
  write_start_ = [config, write_files](const fs::path& folder) {
    write_config(folder / kConfigFile, config);
    if (write_files) write_files(folder);
  };
  write_start_(path_);
}

bool RunFolder::holds_path() const {
  return lock_->descriptor < 0 || is_open_at(lock_->descriptor, path_);
}

void RunFolder::save(const TrainState& state, const KeepRule& keep) const {
  if (follows_) return contribute_checkpoint(state);
  if (!holds_path()) rescue(state);
  if (metrics_) metrics_->sync();
  if (layers_) layers_->sync();
  save_checkpoint(path_, state);
  if (keep.checkpoints == 0) return;
  // Between two meetings of local steps, the weights and their number are those of the last one.
  const std::int64_t iteration = state.progress.iteration, ahead = state.sync.steps_since_agreed();
  const std::string number = std::to_string(iteration - ahead);
  if (ahead == 0 || !keeps_model(path_, number)) {
    keep_model(path_, number, state.sync.agreed(state.params.checkpoint_tensors()),
               iteration - ahead);
  }
  drop_kept_models(path_, keep.checkpoints, iteration);
}

void RunFolder::keep_best(const nn::Params& params, std::int64_t iteration,
                          const KeepRule& keep) const {
  // Whatever has happened to the folder, the next checkpoint reports it.
  if (keep.best && !follows_ && holds_path())
    keep_model(path_, std::string(kBest), params.checkpoint_tensors(), iteration);
}

void RunFolder::rescue(const TrainState& state) const {
  std::error_code error;
  fs::path place = fs::read_symlink(fmt::format("/proc/self/fd/{}", lock_->descriptor), error);
  const bool moved = !error && is_open_at(lock_->descriptor, place);
  if (!moved) {
    place = make_folder_beside(path_);
    if (write_start_) write_start_(place);
  }
  save_checkpoint(place, state);
  fail(
      "the run folder {} was {} while a program trained in it. The checkpoint of step {} is in {}, "
      "from where the run can be resumed",
      path_.string(), moved ? "moved" : "removed", state.progress.iteration, place.string());
}

void RunFolder::restore(const TrainState& state) const {
  restore_checkpoint(path_, state);
  if (best_step_) {
    Progress& p = state.progress;
    p.iteration = *best_step_;
    p.skipped = 0;
    p.update_offset = state.sync.steps() - p.iteration;
    p.losses = p.norms = {};
    state.sync.restart();  // by the weights of that step
    if (!follows_) drop_later_models(path_, p.iteration);
    save(state);  // before the lines of the later steps go
  }
  if (follows_) return;
  for (const std::string_view file : {kMetricsFile, kLayersFile})
    trim(file, "iteration", state.progress.iteration);
  // A call that made no step beyond the checkpoint was one, too.
  trim(kSessionsFile, "first_step", std::numeric_limits<int64_t>::max());
}

void RunFolder::trim(std::string_view file, std::string_view number, int64_t end) const {
  const fs::path path = path_ / file;
  if (!has_entry(path)) return;
  int64_t unreadable = 0;
  keep_lines(path, [&](std::string_view line) {
    const auto at = number_of(number, line);
    if (!at) ++unreadable;
    return at && *at < end;
  });
  if (unreadable > 0) {
    print_error(fmt::format("warning: {}: {} without a readable {} {} left out\n", path.string(),
                            counted(unreadable, "line"), number, unreadable == 1 ? "is" : "are"));
  }
}

}  // namespace tapegrad::run
