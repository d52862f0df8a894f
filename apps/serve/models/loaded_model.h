#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "tapegrad/apps/serve/models/model_plan.h"
#include "tapegrad/apps/serve/models/model_set.h"
#include "tapegrad/apps/serve/work_thread.h"

namespace tapegrad::serve {

// A model in memory, and a thread for its engine.
class LoadedModel {
 public:
  // `path` is for messages. If the engine fails, the server is interrupted, and then `fails` called
  // by its thread; it throws nothing. Error as of served_model().
  LoadedModel(run::TextModel model, const std::string& name, const std::string& path,
              const EnginePlan& plan, const ServedOptions& options, std::function<void()> fails);
  // Calls end() and join().
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ReadyModel& ready() const { return ready_; }
  // Ends the engine soon; what it has not done fails. join() waits for that.
  void end() { ends_ = true; }
  void join() { thread_.stop(); }

 private:
  void work() noexcept;

  const run::TextModel model_;
  run::JsonMasks json_masks_;
  const ServedModel served_;
  Engine engine_;
  const ReadyModel ready_;
  const std::function<void()> fails_;
  std::atomic<bool> ends_ = false;
  WorkThread thread_{1, 0};
};

}  // namespace tapegrad::serve
