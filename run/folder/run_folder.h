#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/file.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/file_names.h"
#include "tapegrad/run/folder/kept_models.h"
#include "tapegrad/run/folder/layer_means.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/options/options.h"

namespace tapegrad::run {

// The names of a folder's event files.
std::vector<std::string> event_files(const std::filesystem::path& folder);

// A file or folder that a run reads, and the option that names it, for messages.
struct NamedText {
  std::string option, path;
};

// Error if the folder, which need not exist, lies inside a text, whose part it would become when
// the run is resumed; or if a text is a file that a run there replaces.
void check_outside(const std::filesystem::path& folder, const std::vector<NamedText>& texts);

// The folder of one run:
//   config.json            the model, the options, and what the text was
//   tokenizer.json         if the model has one; generation_config.json beside it, if texts end at
//                          other tokens than its own, or end_tokens.json, if the model has one that
//                          does not say them
//   tokenizer_config.json, special_tokens_map.json, chat_template.jinja, settings.gguf
//                          of a model that the run started from: see model_settings.h
//   adapter_config.json, adapter_model.safetensors, adapter.gguf
//                          of a run that keeps adapters alone, for other programs, at its end
//   model.safetensors      ┐
//   optimizer.safetensors  ├ the last checkpoint: see run_checkpoint.h
//   trainer.json           ┘
//   metrics.jsonl          one object per evaluation, iter line and sample
//   layers.jsonl           one object per step whose layers are looked at: see layer_stats.h
//   sessions.jsonl         two objects per call of training: see session.h
//   report.html            the run as a page, at its end
//   events.out.tfevents.…  the same for TensorBoard, if it is wanted
//   corpus.txt             the text, from stdin or of the program: a later version may have another
//
// One program at a time trains in a folder: it holds a lock. The folder may come from somebody
// else: nothing in it may be a link, so that nothing outside of it is read or written in its place.
class RunFolder {
 public:
  // A new run, or the last checkpoint of the one that is there, as the options say. `name` is what
  // a folder without a name is called after; `texts` are the files and folders that the run learns.
  // Errors: the folder cannot be written; it holds a run (without options.overwrite), or files of
  // others that a run would replace; it lies among the texts; there is no checkpoint to resume.
  // Of several processes, rank 0 alone writes and holds the lock; the others read the checkpoint of
  // a run that is resumed, and must see the folder for that.
  static RunFolder open(const FolderOptions& options, const std::string& name,
                        const std::vector<NamedText>& texts = {}, Processes* processes = nullptr);
  RunFolder(RunFolder&&) noexcept = default;
  // Removes the folder if this made it and nothing was ever written there.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  bool resumes() const { return resumes_; }
  // The step that training goes on at: that of the checkpoint, or of the best model if the options
  // ask for it. 0 for a new run.
  std::int64_t first_step() const;
  // The step of the checkpoint, if the best model is of an earlier one and the run goes back to it.
  std::optional<std::int64_t> back_from() const { return back_from_; }
  // The processes that train together; null: this one alone.
  Processes* processes() const { return processes_; }
  // The config of a run that is resumed. Error if it is of another format.
  Config config(std::string_view format) const;
  // The tensors of the checkpoint of a run that is resumed.
  std::shared_ptr<const TensorSource> weights() const;
  // The parameters of the model to train: new ones, drawn from `rng`, which must outlive them; or
  // those of the checkpoint.
  nn::Params params(Rng& rng, Precision precision = Precision::full) const;

  // Writes config.json, and what `write_files` puts into the folder. A run that is replaced is
  // removed only now, when the new one is known to be possible.
  void begin(const Config& config,
             const std::function<void(const std::filesystem::path&)>& write_files = {});
  // True if begin() was called.
  bool begun() const { return begun_; }
  // Error if the folder was moved or removed since it was opened: the checkpoint is then saved
  // where the folder is now, or in a new one beside its place, which the message names.
  void save(const TrainState& state, const KeepRule& keep = {}) const;
  // Keeps the weights as the best ones, if the rule says so. Training goes on.
  void keep_best(const nn::Params& params, std::int64_t iteration, const KeepRule& keep) const;
  // Also removes the metrics and layers of steps that the checkpoint does not have, and lines of
  // these and of sessions that cannot be read, which stderr tells of.
  // A run that goes back to the best model has its weights and its step. All else goes on from the
  // checkpoint: the optimiser's state, random states, the time; but the outliers' windows are
  // empty. That is saved as the checkpoint at once.
  void restore(const TrainState& state) const;

  using Metrics = std::vector<std::pair<std::string, Value>>;
  void append_metrics(const Metrics& line);
  // Appends to sessions.jsonl, of which a resumed run keeps all lines.
  void append_session(const Metrics& line);
  // {"iteration": I, "layers": {NAME: {"gradient": G, "weight": W, "update": U}, …}}
  void append_layers(std::int64_t iteration, const std::vector<LayerMeans>& layers);

  // Receives every appended record.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void metrics(const Metrics& line) = 0;
    virtual void layers(std::int64_t iteration, const std::vector<LayerMeans>& layers) = 0;
    // The numbers of each step, as those steps have them that are appended.
    virtual void step(const Metrics&) {}
  };
  void observe(std::unique_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }
  void tell_step(const Metrics& line) const;

 private:
  RunFolder(std::filesystem::path path, bool resumes) : path_(std::move(path)), resumes_(resumes) {}
  static RunFolder create(const FolderOptions& options, const std::string& name,
                          const std::vector<NamedText>& texts);
  static RunFolder reopen(const FolderOptions& options);
  static RunFolder follow(const FolderOptions& options, Processes& processes);
  void find_best(const FolderOptions& options);
  void lock();
  bool holds_path() const;
  [[noreturn]] void rescue(const TrainState& state) const;
  void remove_old_run() const;
  // Leaves the lines whose object has a number of that name below `end`.
  void trim(std::string_view file, std::string_view number, std::int64_t end) const;
  void append(std::unique_ptr<AppendedFile>& to, std::string_view file, const std::string& line);

  struct Lock {
    explicit Lock(int d) : descriptor(d) {}
    ~Lock();
    int descriptor;
  };
  std::filesystem::path path_;
  bool made_ = false;  // by this program
  bool begun_ = false;
  Processes* processes_ = nullptr;
  bool follows_ = false;  // another rank writes
  bool resumes_;
  std::optional<std::int64_t> best_step_, back_from_;  // if the run goes back to the best model
  std::unique_ptr<Lock> lock_;
  std::function<void(const std::filesystem::path&)> write_start_;  // called by begin()
  std::unique_ptr<AppendedFile> metrics_, layers_;
  std::vector<std::unique_ptr<Observer>> observers_;
};

}  // namespace tapegrad::run
