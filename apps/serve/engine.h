#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/api/fields/refusal.h"
#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::serve {

// The work of one request for the engine: texts that are made, or pieces of other work.
class Job {
 public:
  // Prompt and options belong to the job: its texts share them.
  struct Text {
    const nn::Tokens* prompt;
    const nn::GenerateOptions* options;
    std::uint64_t seed;
  };
  virtual ~Job() = default;
  // Texts to make. They are begun in this order, each as soon as there is room for it.
  std::vector<Text> texts;
  // Other pieces of work, which are done one by one, between steps.
  std::size_t pieces = 0;

  // All of these are called by the engine's thread, and none after the last text or piece, or
  // after fail().
  // Takes the new part of a text after a step. False if it needs no more of it.
  virtual bool take(std::size_t, nn::Generation::Taken) { return false; }
  virtual void work(std::size_t) {}
  // All texts and pieces have ended.
  virtual void finish() = 0;
  virtual void fail(const Refusal& why) = 0;
};

struct EngineOptions {
  nn::GenerationLimits limits = {};
  std::int64_t max_waiting = 64;       // jobs of which nothing has begun
  std::chrono::seconds max_time{600};  // of a job
  std::string model = {};              // its path, for messages
  // Called before a job begins while none is under way; true if the model has other weights now.
  std::function<bool()> renew = {};
};

// The engine's state, for /metrics and whoever must wait.
struct EngineState {
  std::int64_t waiting = 0, running = 0;  // jobs of which nothing has begun; texts under way
  std::int64_t positions = 0;             // of the caches
  nn::GenerationCost cost = {};
  std::int64_t steps = 0, jobs = 0, cancelled = 0, refused = 0, failed = 0;
  double step_seconds = 0;

  // Of another engine, too.
  EngineState& operator+=(const EngineState& more);
};

// Makes the texts of all requests side by side: whatever joins does so at the next step, and what
// is cancelled leaves before it. Texts of a job begin in turn with those of others, so that a job
// of many texts does not hold up the next one; a text for which there is no room yet is not
// overtaken. Each becomes the text that it becomes alone (see nn::Generation).
//
// One thread runs it. submit(), cancel(), state() and idle() may come from any.
class Engine {
 public:
  using Id = std::int64_t;
  using Clock = std::chrono::steady_clock;

  Engine(const nn::Decoder& model, const EngineOptions& options);

  // `since`: when its time began. Nothing, or after how many seconds to ask again if too many wait.
  std::optional<std::int64_t> submit(Id id, std::unique_ptr<Job> job, Clock::time_point since);
  // Nobody waits for a job any more. It may have ended.
  void cancel(Id id);
  EngineState state() const;

  // Works until `ends` is true, which is asked between steps, and every 50 ms while there is
  // nothing to do. What is not done then fails.
  void run(const std::function<bool()>& ends);
  // True if there is nothing to do.
  bool idle() const;

 private:
  struct Entry {
    std::unique_ptr<Job> job;
    Clock::time_point submitted = {};
    std::size_t next_text = 0, next_piece = 0;
    std::int64_t open = 0;  // texts that are being made
    bool begun = false;
  };
  struct Running {
    Id job;
    std::size_t text;
    nn::Generation::Id id;
  };

  void receive();
  void end_late_jobs();
  void renew();
  void begin_texts();
  void work();
  void step();
  void hand_out();
  void begun(Entry& entry);
  void end_text(const Running& running);
  void end_if_done(Id id);
  void fail(Id id, const Refusal& why);
  void fail_all(const Refusal& why);
  void drop(Id id);
  void publish();
  template <class Call>
  bool guarded(Id id, const Call& call);

  const EngineOptions options_;
  nn::Generation generation_;
  std::map<Id, Entry> jobs_;
  std::deque<Id> texts_, works_;  // jobs that have texts or pieces to begin
  std::vector<Running> running_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable news_;
  std::vector<std::pair<Id, Entry>> submitted_;
  std::vector<Id> cancelled_;
  std::int64_t unfinished_ = 0;  // jobs
  EngineState state_;
  double mean_seconds_ = 1;  // of the last jobs
};

}  // namespace tapegrad::serve
