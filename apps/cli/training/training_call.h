#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/cli/training/call_options.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::watch {
class Server;
}

namespace tapegrad::cli {

// A call of a training program around its task, whatever is trained: the run folder, the page of
// --serve, event files, and the report at the end.
class TrainingCall {
 public:
  using Texts = std::vector<std::pair<const char*, const std::vector<std::string>*>>;

  // Opens the folder of the run, before any text is read. UsageError if no step is left to make.
  // The page may have the next free port unless the call gives one. The call and the processes must
  // live as long as this.
  TrainingCall(const Call& call, Processes& processes, const CallOptions& options, bool gives_port,
               const run::OptimizerOptions& optimizer, const std::string& preset,
               const Texts& texts);
  template <class Plan>
  TrainingCall(const Call& call, Processes& processes, const GivenOptions& given, const Plan& plan)
      : TrainingCall(call, processes, plan.call, given.has_value("--serve"), plan.optimizer,
                     plan.text.preset, Plan::texts(plan)) {}
  ~TrainingCall();

  run::RunFolder& folder() { return folder_; }
  // Trains, writes the report, and returns the exit code. Also a run that fails has a report. By
  // the clock, it makes at most so many steps.
  int train(run::Task task, const run::OptimizerOptions& optimizer,
            const run::EvaluationOptions& evaluation, std::optional<std::int64_t> most_iters = {});

 private:
  void end_page();

  const Call& call_;
  Processes& processes_;
  const CallOptions options_;
  run::RunFolder folder_;
  std::unique_ptr<watch::Server> page_;
};

// For modes beside training: the exit code that `run` returns on rank 0, which alone runs it, since
// others would only disturb what it measures; or nothing.
std::optional<int> code_of_rank_0(Processes& processes,
                                  const std::function<std::optional<int>()>& run);

}  // namespace tapegrad::cli
