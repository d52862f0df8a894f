#include "tapegrad/run/train/train.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/fingerprint.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/nn/generation/broken_logits.h"
#include "tapegrad/run/folder/session.h"
#include "tapegrad/run/plan/disk_room.h"
#include "tapegrad/run/record/group_lines.h"
#include "tapegrad/run/record/start_notes.h"
#include "tapegrad/run/record/step_trace.h"
#include "tapegrad/run/train/resolved_options.h"
#include "tapegrad/run/train/train_step.h"

namespace tapegrad::run {
namespace {

RunHeader about_of(const Task& task, const ResolvedOptions& settled) {
  RunHeader about = task.about;
  about.minutes = settled.minutes;
  about.minutes_reason = settled.minutes_reason;
  return about;
}

// Options that a resumed run may have with other values. An optimiser's state refuses those few
// that it may not.
Section changeable_section(std::string_view name, OptionSchema part) {
  Section section = section_of(name, part);
  for (const auto& [member, value] : section.values) section.changeable.push_back(member);
  return section;
}

// One run of the loop.
class Trainer {
 public:
  Trainer(const Task& task, RunFolder& folder, const ResolvedOptions& settled)
      : Trainer(task, folder, settled.options, about_of(task, settled)) {}

  Trainer(const Task& task, RunFolder& folder, const TrainOptions& options, RunHeader about)
      : task_(task),
        about_(std::move(about)),
        folder_(folder),
        optimizer_(options.optimizer),
        evaluation_(options.evaluation),
        processes_(folder.processes()),
        sync_(optim::make_gradient_sync(task.params.parameters(), options.optimizer.rules(),
                                        folder.processes(), options.optimizer.comm_dtype)),
        tensors_(task.params.tensors()),
        trace_(traces(folder) ? options.trace : TraceOptions(), tensors_),
        report_(folder, options.optimizer, options.evaluation, about_, at_) {
    if (folder.resumes()) {
      check_model();
      folder.restore(state());
      const std::int64_t updates = at_.iteration - at_.skipped + at_.update_offset;
      check(sync_->steps() == updates,
            "{}: the optimiser has made {} steps, but {} says {}: the files are not of one "
            "checkpoint",
            (folder.path() / kOptimizerFile).string(), sync_->steps(), kTrainerFile, updates);
    }
    before_ = std::exchange(at_.multiplier, gemm_identity());
    if (evaluation_.layer_stats) stats_.emplace(task.params.parameters(), processes_);
    Config config = task.config;
    config.set(changeable_section("optimizer", optimizer_));
    config.set(changeable_section("evaluation", evaluation_));
    if (!alone()) check_same_start(config);
    if (folder.resumes()) changes_ = allowed_changes(folder.config(config.format), config);
    check_disk();
    folder.begin(config, task.write_files);
    begin_ = at_.iteration;
    folder.append_session(session_of(begin_, about_.command, alone() ? 1 : processes_->size()));
  }

  // As train(). Says in the folder how it ended, and in an error from where the run can go on.
  bool run() {
    try {
      const Ending ending =  // a sample may be what finds that the weights are broken
          nn::naming_model(folder_.path().string(), [this] { return make_steps(); });
      end_session(ending, interrupted() ? interrupt_cause() : "");
      return ending != Ending::stopped;
    } catch (const std::exception& error) {
      const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
      const std::string safe = safe_step();
      try {
        end_session(Ending::error, memory ? "out of memory" : error.what());
      } catch (const std::exception&) {  // the error says more than that a line is missing
      }
      if (memory || safe.empty()) throw;
      fail("{}. {}", error.what(), safe);
    }
  }

 private:
  // The last step that a checkpoint has; empty if there is none. Its file says which: an error may
  // come after it was replaced.
  std::string safe_step() const {
    if (saved_ < 0 && (!folder_.resumes() || folder_.back_from())) return "";
    try {
      return fmt::format("The checkpoint of step {} is complete{}",
                         checkpoint_iteration(folder_.path()),
                         about_.resume_command.empty()
                             ? ""
                             : ", and the run can go on from there: " + about_.resume_command);
    } catch (const std::exception&) {
      return "";
    }
  }

  // Error if the disk has no room for checkpoints: see DiskNeeds.
  void check_disk() const {
    if (!traces(folder_)) return;  // another rank writes
    const bool replaces = path_exists(folder_.path() / kTrainerFile);
    if (replaces && !folder_.resumes()) return;  // the old run goes first, and leaves its room
    DiskNeeds needs{.optimizer = about_.memory ? about_.memory->optimizer : 0,
                    .keeps_best = keep_rule(evaluation_.keep).best,
                    .replaces = replaces};
    for (const auto& [name, tensor] : task_.params.checkpoint_tensors()) {
      needs.weights += static_cast<double>(tensor.bytes());
    }
    check_room(folder_.path(), needs, free_room(folder_.path()));
  }

  void end_session(Ending ending, const std::string& why) {
    if (std::exchange(told_end_, true)) return;
    folder_.append_session(end_of_session(begin_, at_.iteration, ending, why));
  }

  Ending make_steps() {
    const optim::GroupRules rules = optimizer_.rules();
    report_.header(rules.plain() ? std::vector<std::string>{}
                                 : group_lines(task_.params.parameters(), sync_->groups()),
                   changes_);
    for (const std::string& note : start_notes(optimizer_, evaluation_)) {
      report_.line("note: " + note);
    }
    const std::int64_t ranks = alone() ? 1 : processes_->size();
    if (optimizer_.gradient_accumulation_steps % ranks != 0) {
      report_.line(fmt::format(
          "note: {} processes cannot share out the {} forward passes of a step evenly: some wait",
          ranks, optimizer_.gradient_accumulation_steps));
    }
    if (!before_.empty() && before_ != at_.multiplier) {
      report_.line(
          fmt::format("note: {} multiplied so far, and now {} does: the last bits of the "
                      "numbers will differ from those of a run without this change",
                      before_, at_.multiplier));
    }
    catch_interrupts();
    HeldInterrupts held(!alone());
    Ending ending = about_.minutes.empty() ? Ending::finished : Ending::time_budget;
    while (!interrupted()) {
      bool ends = at_.iteration >= optimizer_.max_iters;
      std::optional<std::string> advanced;
      if (ends || evaluation_.evaluates_at(at_.iteration)) advanced = evaluate();
      if (!ends && advanced && at_.best_val_loss &&
          evaluation_.stops_early(at_.best_iteration, at_.iteration)) {
        report_.line(fmt::format("no new lowest val loss in {} evaluations: --early-stop ends here",
                                 *evaluation_.early_stop));
        ending = Ending::early_stop;
        ends = true;
      }
      if (ends || evaluation_.saves_at(at_.iteration)) save();
      if (at_.iteration > 0 && speaks() && task_.at_step) task_.at_step(report_);
      if (at_.iteration > begin_ && speaks() && task_.after_step) task_.after_step(report_);
      if (ends || interrupted()) break;
      if (advanced && !optimizer_.overfit_batch) task_.batches.set_state(*advanced);
      const std::string drawn = optimizer_.overfit_batch ? task_.batches.state() : std::string();
      at_.seconds += report_.step(trace_.run([this] { return step(); }));
      write_trace(false);
      if (optimizer_.overfit_batch) task_.batches.set_state(drawn);
      ++at_.iteration;
    }
    write_trace(true);
    if (!alone() && at_.iteration > begin_) tell_traffic(at_.iteration - begin_);
    if (interrupted()) {
      save();
      report_.stopped();
      return Ending::stopped;
    }
    held.release();  // no step is left to agree on
    if (speaks() && task_.finish) task_.finish(report_);
    report_.next_steps();
    return interrupted() ? Ending::stopped : ending;
  }

  TrainState state() {
    Rng& dropout = task_.dropout == nullptr ? no_dropout_ : *task_.dropout;
    return {task_.params, *sync_, task_.batches, dropout, at_};
  }

  // Rank 0 alone traces, of several processes.
  static bool traces(const RunFolder& folder) {
    return folder.processes() == nullptr || folder.processes()->rank() == 0;
  }
  // A trace is not worth a run: an error is printed, and training goes on.
  void write_trace(bool at_end) {
    try {
      if (const auto line = trace_.write(at_end)) report_.line(*line);
    } catch (const std::exception& error) {
      report_.line(fmt::format("note: no trace: {}", error.what()));
    }
  }

  bool alone() const { return processes_ == nullptr; }
  // True if the task is asked for what is printed.
  bool speaks() const { return !interrupted() && (alone() || processes_->rank() == 0); }

  // Ranks on other processors may differ in the last bits, and decide by the losses.
  void agree_on(Losses& losses) {
    double both[] = {losses.train, losses.val};
    processes_->broadcast(std::as_writable_bytes(std::span(both)));
    losses.train = both[0];
    losses.val = both[1];
  }

  void tell_traffic(std::int64_t steps) {
    const Processes::Traffic traffic = processes_->traffic();
    const double each = 1.0 / static_cast<double>(steps);
    report_.line(fmt::format(
        "each of {} processes sent {:.1f} MB a step, and rank 0 waited {:.1f} ms a step for others",
        processes_->size(), each * 1e-6 * static_cast<double>(traffic.bytes_sent),
        each * 1e3 * traffic.seconds_waited));
  }

  // Otherwise ranks would go apart without a word.
  void check_same_start(const Config& config) {
    std::map<std::string, std::string> texts;
    for (const Section& section : config.sections) {
      std::string text;
      for (const auto& [name, value] : section.values)
        text += name + " " + value_text(value) + "\n";
      texts["section '" + section.name + "' of the options"] = fingerprint(text);
    }
    Fingerprint weights;
    for (const auto& [name, tensor] : task_.params.tensors()) {
      const std::vector<double> sums = optim::square_sums(tensor);
      weights.add({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double)});
    }
    texts["weights"] = weights.str();
    texts["checkpoint"] = fmt::format("of step {}", at_.iteration);
    texts["state of the batches"] = fingerprint(task_.batches.state());
    texts["library for products"] = at_.multiplier;
    check_same(*processes_, texts);
  }

  // An error says which step it is of.
  Report::Step step() {
    try {
      return make_step(task_, optimizer_, optimizer_.lr_at(at_.iteration), *sync_, at_, processes_,
                       evaluation_.looks_at_layers(at_.iteration) ? &*stats_ : nullptr);
    } catch (const Error& error) {
      fail("step {}: {}", at_.iteration, error.what());
    }
  }

  // Evaluates, then restores the state of the batches, so that a checkpoint taken now repeats this
  // evaluation after a resume. Returns the advanced state, with which training continues.
  std::string evaluate() {
    const std::string before = task_.batches.state();
    if (auto losses = task_.evaluate()) {
      if (!alone()) agree_on(*losses);
      report_.evaluation(*losses);
      check(std::isfinite(losses->train) && std::isfinite(losses->val),
            "the loss of step {} is not a number: the weights are broken. Lower the learning "
            "rate{}. --check-finite names the op that made the first NaN or infinity",
            at_.iteration, optimizer_.grad_clip == 0 ? " or clip the gradients" : "");
      if (!at_.best_val_loss || losses->val < *at_.best_val_loss) {
        at_.best_val_loss = losses->val;
        at_.best_iteration = at_.iteration;
        folder_.keep_best(task_.params, at_.iteration, keep_rule(evaluation_.keep));
      }
    }
    std::string advanced = task_.batches.state();
    task_.batches.set_state(before);
    return advanced;
  }

  void save() {
    if (saved_ == at_.iteration) return;
    folder_.save(state(), keep_rule(evaluation_.keep));
    saved_ = at_.iteration;
  }

  // The checkpoint's parameters fit, or they would not have been loaded. The rest of the model's
  // config must be the same, too.
  void check_model() const {
    const std::filesystem::path path = folder_.path() / kConfigFile;
    const Config stored = folder_.config(task_.config.format);
    const Section* model = task_.config.find("model");
    if (model == nullptr) return;
    if (const auto change = first_change(stored.at(model->name, path), *model)) {
      fail("{}: the run to resume has a model with {} {}, not {}", path.string(), change->name,
           change->before, change->now);
    }
  }

  const Task& task_;
  const RunHeader about_;
  RunFolder& folder_;
  const OptimizerOptions& optimizer_;
  const EvaluationOptions& evaluation_;
  Processes* processes_;
  std::unique_ptr<optim::GradientSync> sync_;
  std::optional<LayerStats> stats_;
  Rng no_dropout_{0};
  Progress at_;
  std::string before_;           // the libraries that multiplied in the run that is resumed
  std::vector<Change> changes_;  // of its options
  NamedTensors tensors_;         // those that are frozen, too
  StepTrace trace_;
  Report report_;
  std::int64_t begin_ = 0;   // the first step of this call
  std::int64_t saved_ = -1;  // the iteration that the last checkpoint was taken at
  bool told_end_ = false;    // see end_session()
};

}  // namespace

bool train(const Task& task, RunFolder& folder, const TrainOptions& options) {
  const std::optional<const ResolvedOptions> decided = resolved(options, task, folder);
  return decided && Trainer(task, folder, *decided).run();
}

}  // namespace tapegrad::run
