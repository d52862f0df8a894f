#include "tapegrad/run/train/train.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/run/folder/internal/session.h"
#include "tapegrad/run/record/internal/group_lines.h"
#include "tapegrad/run/record/internal/start_notes.h"
#include "tapegrad/run/record/internal/step_trace.h"
#include "tapegrad/run/train/internal/batch_place.h"
#include "tapegrad/run/train/internal/evaluator.h"
#include "tapegrad/run/train/internal/group_batches.h"
#include "tapegrad/run/train/internal/in_order.h"
#include "tapegrad/run/train/internal/saver.h"
#include "tapegrad/run/train/internal/start_checks.h"
#include "tapegrad/run/train/internal/train_plan.h"
#include "tapegrad/run/train/internal/updater.h"

namespace tapegrad::run {
namespace {

RunHeader about_of(const Task& task, const TrainPlan& plan) {
  RunHeader about = task.about;
  about.minutes = plan.minutes;
  about.minutes_reason = plan.minutes_reason;
  return about;
}

// Options that a resumed run may have with other values. An optimiser's state refuses those few
// that it may not.
Section changeable_section(std::string_view name, OptionSchema part) {
  Section section = section_of(name, part);
  for (const auto& [member, value] : section.values) section.changeable.push_back(member);
  return section;
}

// While it lives, the parameters have the values of the model that a checkpoint keeps.
class KeptModel {
 public:
  explicit KeptModel(optim::GradientSync& sync) : sync_(sync) { sync_.swap_agreed(); }
  KeptModel(const KeptModel&) = delete;
  KeptModel& operator=(const KeptModel&) = delete;
  ~KeptModel() { sync_.swap_agreed(); }

 private:
  optim::GradientSync& sync_;
};

// One run of the loop. Its constructor hands each part of the options to the object that goes by
// it; the loop asks these.
class Trainer {
 public:
  Trainer(const Task& task, RunFolder& folder, const TrainOptions& options, RunHeader about,
          std::vector<std::string> notes)
      : task_(task),
        about_(std::move(about)),
        folder_(folder),
        processes_(folder.processes()),
        leads_(alone() || processes_->rank() == 0),
        tensors_(task.params.tensors()),
        steps_(options.optimizer.max_iters),
        learning_rate_(options.optimizer.learning_rates()),
        sync_(make_sync(task, options.optimizer, processes_)),
        state_{task.params, *sync_, task.batches,
               task.dropout == nullptr ? no_dropout_ : *task.dropout, at_},
        batches_(task.batches, options.optimizer.overfit_batch),
        updater_(task, options.optimizer, *sync_, processes_),
        report_(folder, options.optimizer, options.evaluation, about_, at_),
        evaluator_(task, options, report_, at_, processes_),
        saver_(folder, options.evaluation, state_),
        trace_(leads_ ? options.trace : TraceOptions(), tensors_) {
    if (folder.resumes()) restore();
    before_ = std::exchange(at_.multiplier, gemm_identity());
    if (const auto every = options.evaluation.layer_stats) {
      layers_.emplace(task.params.parameters(), processes_, *every);
    }
    Config config = task.config;
    config.set(changeable_section("optimizer", options.optimizer));
    config.set(changeable_section("evaluation", options.evaluation));
    if (!alone()) check_same_start(task, config, at_, *sync_, *processes_);
    if (folder.resumes()) changes_ = allowed_changes(folder.config(config.format), config);
    if (leads_) saver_.check_disk(optimizer_bytes(options.optimizer));
    header_ = header_lines(about_, options.optimizer, at_,
                           options.optimizer.rules.plain()
                               ? std::vector<std::string>()
                               : group_lines(task.params.parameters(), sync_->groups()),
                           options.evaluation.verbose);
    notes_ = start_notes(options.optimizer, options.evaluation, ranks());
    notes_.insert(notes_.begin(), notes.begin(), notes.end());
    folder.begin(config, task.write_files);
    begin_ = at_.iteration;
    folder.append_session(session_of(begin_, about_.command, ranks()));
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
      const std::string safe = way_on();
      try {
        end_session(Ending::error, memory ? "out of memory" : error.what());
      } catch (const std::exception&) {  // the error says more than that a line is missing
      }
      if (memory || safe.empty()) throw;
      fail("{}. {}", error.what(), safe);
    }
  }

 private:
  void restore() {
    check_model(task_, folder_);
    folder_.restore(state_);
    const std::int64_t updates = at_.iteration - at_.skipped + at_.update_offset;
    check(sync_->steps() == updates,
          "{}: the optimiser has made {} steps, but {} says {}: the files are not of one "
          "checkpoint",
          (folder_.path() / kOptimizerFile).string(), sync_->steps(), kTrainerFile, updates);
  }

  // The last step that a checkpoint has, and how to go on from it; empty if there is none.
  std::string way_on() const {
    const auto step = saver_.complete_step();
    if (!step) return "";
    return fmt::format("The checkpoint of step {} is complete{}", *step,
                       about_.resume_command.empty()
                           ? ""
                           : ", and the run can go on from there: " + about_.resume_command);
  }

  void end_session(Ending ending, const std::string& why) {
    if (std::exchange(told_end_, true)) return;
    folder_.append_session(end_of_session(begin_, at_.iteration, ending, why));
  }

  void print_start() {
    report_.header(header_, changes_);
    for (const std::string& note : notes_) report_.line("note: " + note);
    if (!before_.empty() && before_ != at_.multiplier) {
      report_.line(
          fmt::format("note: {} multiplied so far, and now {} does: the last bits of the "
                      "numbers will differ from those of a run without this change",
                      before_, at_.multiplier));
    }
  }

  Ending make_steps() {
    print_start();
    catch_interrupts();
    HeldInterrupts held(!alone());
    Ending ending = about_.minutes.empty() ? Ending::finished : Ending::time_budget;
    while (!interrupted()) {
      if (!meet()) break;
      bool ends = at_.iteration >= steps_;
      if (ends || evaluator_.due()) {
        sync_->gather_parameters();
        batches_.look_ahead([this] {
          const KeptModel kept(*sync_);
          if (evaluator_.evaluate()) saver_.keep_best();
        });
        if (!ends && evaluator_.stops_early()) {
          ending = Ending::early_stop;
          ends = true;
        }
      }
      if (ends || saver_.due()) save();
      after_step();
      if (ends || interrupted()) break;
      const Report::Step made = batches_.step([this] { return step(); });
      report_.step(made);
      at_.seconds += made.times.total();
      print(trace_.write(false));
      ++at_.iteration;
    }
    print(trace_.write(true));
    if (!alone() && at_.iteration > begin_) tell_traffic(at_.iteration - begin_);
    sync_->gather_parameters();  // for samples, and for whoever goes on with the model
    if (interrupted()) {
      saver_.save();
      report_.stopped();
      return Ending::stopped;
    }
    held.release();  // no step is left to agree on
    if (speaks() && task_.finish) {
      const KeptModel kept(*sync_);
      task_.finish(report_);
    }
    report_.next_steps();
    return interrupted() ? Ending::stopped : ending;
  }

  // Holds a meeting that is due through files. False if a signal ends the waiting. What was trained
  // is saved before, so that the group can stop here, and its part stays the same.
  bool meet() {
    constexpr auto kLookAgain = std::chrono::milliseconds(200);
    const bool due = sync_->meeting_due();
    if (due) save();
    std::string before, said;
    while (true) {
      const std::string words = sync_->meet();
      const bool held = !sync_->meeting_due();
      // What is said of a file that is being copied changes all the time.
      if (!words.empty() && words != said && (held || words == before)) report_.line(said = words);
      if (held) break;
      before = words;
      std::this_thread::sleep_for(kLookAgain);
      if (!alone()) in_order(std::vector<char>(), 0, processes_);  // agrees on a signal
      if (interrupted()) return false;
    }
    if (due) saver_.outdate();
    return true;
  }

  void save() {
    sync_->gather_parameters();
    saver_.save();
  }

  // Asks the task on all ranks, of which one makes what there is to see.
  void after_step() {
    if (at_.iteration == 0 || interrupted() || !task_.after_step) return;
    const bool made = at_.iteration > begin_;
    if (task_.after_step_due && !task_.after_step_due(at_.iteration, made)) return;
    sync_->gather_parameters();
    if (!leads_) return;
    const KeptModel kept(*sync_);
    task_.after_step(report_, made);
  }

  // An error says which step it is of.
  Report::Step step() {
    std::optional<ProfiledPart> traced;
    trace_.begin_step(traced);
    try {
      const bool looks = layers_ && layers_->due(at_.iteration);
      return updater_.step(learning_rate_(at_.iteration), at_, looks ? &*layers_ : nullptr);
    } catch (const Error& error) {
      fail("step {}: {}", at_.iteration, error.what());
    }
  }

  void print(const std::optional<std::string>& line) {
    if (line) report_.line(*line);
  }

  // Of a checkpoint's file, at most.
  double optimizer_bytes(const OptimizerOptions& options) const {
    const double kept = optim::bytes_kept(task_.params.parameters(), sync_->groups());
    double weights = 0;
    for (const auto& [name, t] : task_.params.parameters())
      weights += static_cast<double>(t.bytes());
    if (!options.local_steps) return options.averages() ? kept + weights : kept;
    if (options.meet) return kept + weights;
    return ranks() * (kept + weights) + weights;  // the outer momentum is one for all
  }

  bool alone() const { return processes_ == nullptr; }
  int ranks() const { return alone() ? 1 : processes_->size(); }
  // True if the task is asked for what is printed.
  bool speaks() const { return !interrupted() && leads_; }

  void tell_traffic(std::int64_t steps) {
    const Processes::Traffic traffic = processes_->traffic();
    const double each = 1.0 / static_cast<double>(steps);
    report_.line(fmt::format(
        "each of {} processes sent {:.3f} MB a step, and rank 0 waited {:.1f} ms a step for others",
        processes_->size(), each * 1e-6 * static_cast<double>(traffic.bytes_sent),
        each * 1e3 * traffic.seconds_waited));
  }

  const Task& task_;
  const RunHeader about_;
  RunFolder& folder_;
  Processes* const processes_;
  const bool leads_;  // the only process, or rank 0
  Rng no_dropout_{0};
  Progress at_;
  const NamedTensors tensors_;  // those that are frozen, too
  const std::int64_t steps_;
  const optim::Schedule learning_rate_;
  const std::unique_ptr<optim::GradientSync> sync_;
  const TrainState state_;
  BatchPlace batches_;
  Updater updater_;
  Report report_;
  Evaluator evaluator_;
  Saver saver_;
  StepTrace trace_;
  std::optional<LayerStats> layers_;
  std::string before_;           // the libraries that multiplied in the run that is resumed
  std::vector<Change> changes_;  // of its options
  std::vector<std::string> header_, notes_;
  std::int64_t begin_ = 0;  // the first step of this call
  bool told_end_ = false;   // see end_session()
};

}  // namespace

bool train(const Task& task, RunFolder& folder, const TrainOptions& options) {
  check(task.objective != nullptr, "[train] a task needs an objective");
  TrainFacts facts;
  if (folder.resumes()) facts.steps_made = folder.first_step();
  TrainPlan plan = resolve(options, facts, folder.path());
  if (options.time) {
    facts.fitting = fit_steps(task, options, folder.processes());
    if (!facts.fitting) return false;
    plan = resolve(options, facts, folder.path());
  }
  const optim::Sharing sharing = plan.options.optimizer.sharing();
  if (!sharing.local || !sharing.local->place)
    return Trainer(task, folder, plan.options, about_of(task, plan), plan.notes).run();
  Task of_group = task;
  of_group.objective = batches_of_group(task.objective, *sharing.local->place);
  return Trainer(of_group, folder, plan.options, about_of(task, plan), plan.notes).run();
}

}  // namespace tapegrad::run
