#include "tapegrad/apps/serve/engine.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::serve {
namespace {

constexpr std::chrono::milliseconds kLook{50};
constexpr double kNewest = 0.1;  // weight of the newest job in their mean time
constexpr std::int64_t kLongestWait = 60;

}  // namespace

EngineState& EngineState::operator+=(const EngineState& more) {
  waiting += more.waiting;
  running += more.running;
  positions += more.positions;
  cost += more.cost;
  steps += more.steps;
  jobs += more.jobs;
  cancelled += more.cancelled;
  refused += more.refused;
  failed += more.failed;
  step_seconds += more.step_seconds;
  return *this;
}

Engine::Engine(const nn::Decoder& model, const EngineOptions& options)
    : options_(options), generation_(model, options.limits) {}

std::optional<std::int64_t> Engine::submit(Id id, std::unique_ptr<Job> job,
                                           Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  if (state_.waiting >= options_.max_waiting) {
    ++state_.refused;
    const double rounds =
        static_cast<double>(state_.waiting) / static_cast<double>(options_.limits.max_sequences);
    return std::clamp(static_cast<std::int64_t>(mean_seconds_ * (1 + rounds)), std::int64_t{1},
                      kLongestWait);
  }
  submitted_.emplace_back(id, Entry{.job = std::move(job), .submitted = since});
  ++unfinished_;
  ++state_.waiting;
  ++state_.jobs;
  news_.notify_one();
  return std::nullopt;
}

void Engine::cancel(Id id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  news_.notify_one();
}

EngineState Engine::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Engine::idle() const {
  const std::lock_guard lock(mutex_);
  return unfinished_ == 0;
}

// Takes in what came and what was cancelled; waits a moment if there is nothing else to do.
void Engine::receive() {
  std::vector<std::pair<Id, Entry>> submitted;
  std::vector<Id> cancelled;
  {
    std::unique_lock lock(mutex_);
    if (jobs_.empty() && submitted_.empty() && cancelled_.empty()) news_.wait_for(lock, kLook);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
  }
  for (auto& [id, entry] : submitted) {
    if (!entry.job->texts.empty()) texts_.push_back(id);
    if (entry.job->pieces > 0) works_.push_back(id);
    jobs_.emplace(id, std::move(entry));
    end_if_done(id);
  }
  for (const Id id : cancelled) {
    if (!jobs_.contains(id)) continue;
    drop(id);
    const std::lock_guard lock(mutex_);
    ++state_.cancelled;
  }
}

void Engine::end_late_jobs() {
  std::vector<Id> late;
  const auto limit = Clock::now() - options_.max_time;
  for (const auto& [id, entry] : jobs_) {
    if (entry.submitted < limit) late.push_back(id);
  }
  for (const Id id : late) fail(id, too_late(options_.max_time));
}

void Engine::renew() {
  if (!options_.renew || jobs_.empty()) return;
  for (const auto& [id, entry] : jobs_) {
    if (entry.begun) return;
  }
  if (options_.renew()) generation_.forget_kept();
}

void Engine::begun(Entry& entry) {
  if (std::exchange(entry.begun, true)) return;
  const std::lock_guard lock(mutex_);
  --state_.waiting;
}

void Engine::begin_texts() {
  while (!texts_.empty()) {
    const Id id = texts_.front();
    Entry& entry = jobs_.at(id);
    const Job::Text& text = entry.job->texts[entry.next_text];
    if (!generation_.has_room(std::ssize(*text.prompt), *text.options)) return;
    texts_.pop_front();
    begun(entry);
    guarded(id, [&] {
      running_.push_back(
          {id, entry.next_text, generation_.add(*text.prompt, *text.options, Rng(text.seed))});
      ++entry.open;
      if (++entry.next_text < entry.job->texts.size()) texts_.push_back(id);
    });
  }
}

// One piece of the job whose turn it is.
void Engine::work() {
  if (works_.empty()) return;
  const Id id = works_.front();
  works_.pop_front();
  Entry& entry = jobs_.at(id);
  begun(entry);
  const bool well = guarded(id, [&] {
    entry.job->work(entry.next_piece);
    if (++entry.next_piece < entry.job->pieces) works_.push_back(id);
  });
  if (well) end_if_done(id);
}

void Engine::step() {
  if (running_.empty()) return;
  try {
    const double seconds = seconds_of([&] { generation_.step(); });
    const std::lock_guard lock(mutex_);
    ++state_.steps;
    state_.step_seconds += seconds;
  } catch (const std::exception& error) {  // no memory, or weights that give no numbers
    print_error(fmt::format("error: a step failed: {}\n", error.what()));
    fail_all(refusal_of(error));
  }
}

void Engine::hand_out() {
  std::vector<Running> ended;
  std::map<Id, Refusal> failed;
  for (const Running& r : running_) {
    if (failed.contains(r.job)) continue;
    try {
      nn::Generation::Taken taken =
          nn::naming_model(options_.model, [&] { return generation_.take(r.id); });
      const bool last = taken.end.has_value();
      if (!jobs_.at(r.job).job->take(r.text, std::move(taken)) || last) ended.push_back(r);
    } catch (const std::exception& error) {
      const Refusal why = refusal_of(error);
      if (why.status >= 500) {
        print_error(fmt::format("error: an answer failed: {}\n", error.what()));
      }
      failed.emplace(r.job, why);
    }
  }
  for (const Running& r : ended) {
    if (!failed.contains(r.job)) end_text(r);
  }
  for (const auto& [id, why] : failed) fail(id, why);
}

void Engine::end_text(const Running& running) {
  const Running ended = running;
  generation_.remove(ended.id);
  std::erase_if(running_, [&](const Running& r) { return r.id == ended.id; });
  --jobs_.at(ended.job).open;
  end_if_done(ended.job);
}

void Engine::end_if_done(Id id) {
  const Entry& entry = jobs_.at(id);
  if (entry.open > 0 || entry.next_text < entry.job->texts.size() ||
      entry.next_piece < entry.job->pieces) {
    return;
  }
  if (!guarded(id, [&] { entry.job->finish(); })) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - entry.submitted).count();
  drop(id);
  const std::lock_guard lock(mutex_);
  mean_seconds_ += kNewest * (seconds - mean_seconds_);
}

// True if the call ended well; the job fails otherwise.
template <class Call>
bool Engine::guarded(Id id, const Call& call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    print_error(fmt::format("error: a request failed: {}\n", error.what()));
    fail(id, refusal_of(error));
    return false;
  }
}

void Engine::fail(Id id, const Refusal& why) {
  if (!jobs_.contains(id)) return;
  try {
    jobs_.at(id).job->fail(why);
  } catch (const std::exception&) {  // no memory for a word: the connection ends in its time
  }
  drop(id);
  const std::lock_guard lock(mutex_);
  ++state_.failed;
}

void Engine::fail_all(const Refusal& why) {
  std::vector<Id> ids;
  for (const Running& r : running_) ids.push_back(r.job);
  for (const Id id : ids) fail(id, why);
}

void Engine::drop(Id id) {
  for (const Running& r : running_) {
    if (r.job == id) generation_.remove(r.id);
  }
  std::erase_if(running_, [&](const Running& r) { return r.job == id; });
  std::erase(texts_, id);
  std::erase(works_, id);
  begun(jobs_.at(id));
  jobs_.erase(id);
  const std::lock_guard lock(mutex_);
  --unfinished_;
  state_.cost = generation_.cost();  // who finds the engine idle finds all that it has done
}

void Engine::publish() {
  const std::lock_guard lock(mutex_);
  state_.running = std::ssize(running_);
  state_.positions = generation_.positions();
  state_.cost = generation_.cost();
}

void Engine::run(const std::function<bool()>& ends) {
  while (!ends()) {
    receive();
    end_late_jobs();
    renew();
    begin_texts();
    publish();
    work();
    step();
    hand_out();
    publish();
  }
  receive();
  while (!jobs_.empty()) fail(jobs_.begin()->first, server_ends());
  publish();
}

}  // namespace tapegrad::serve
