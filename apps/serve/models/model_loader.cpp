#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/serve/models/models_folder.h"
#include "tapegrad/apps/serve/models/stopped_source.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/terminal.h"

// The thread that loads models, and drops others for them.

namespace tapegrad::serve {
namespace {

constexpr std::chrono::milliseconds kLookForRoom{20};

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

Refusal too_large(const std::string& name, const ModelPlan& plan, std::uint64_t memory) {
  return {.status = 503,
          .message = fmt::format("the model '{}' needs {} bytes, {} of weights and {} of keys and "
                                 "values, and all models together may have {}: --models-memory "
                                 "allows more",
                                 name, plan.bytes(), plan.weights, plan.caches, memory),
          .param = "model",
          .code = "model_too_large"};
}

Refusal no_room(const std::string& name, std::uint64_t bytes, std::uint64_t left) {
  return {.status = 503,
          .message = fmt::format("the model '{}' needs {} bytes, and those that answer leave {}: "
                                 "try again later",
                                 name, bytes, left),
          .param = "model",
          .code = "model_has_no_room",
          .retry_after = 10};
}

Refusal files_changed(const std::string& name) {
  return {.status = 503,
          .message = fmt::format(
              "the files of the model '{}' were written to while it was loaded, twice: try again "
              "when they are whole",
              name),
          .param = "model",
          .code = "model_changes",
          .retry_after = 10};
}

}  // namespace

void ModelsFolder::load(const std::string& name, Then then, Wanted wanted) {
  std::unique_lock lock(mutex_);
  const auto place = entries_.find(name);
  if (place == entries_.end() || stops_) {
    const Refusal why = stops_ ? server_ends() : unknown(name);
    lock.unlock();
    return then(nullptr, why);
  }
  Entry& entry = place->second;
  if (entry.loaded) {
    HeldModel model = held(entry);
    lock.unlock();
    return then(std::move(model), {});
  }
  // The loader begins behind this mutex.
  if (entry.waiting.empty() && !entry.loading) submit(name);
  entry.waiting.push_back({std::move(then), std::move(wanted), Clock::now()});
}

void ModelsFolder::submit(const std::string& name) {
  loader_.submit(0, "", 0, [this, name] {
    try {
      load_now(name);
    } catch (...) {  // no memory for a word
      give_up(name);
    }
  });
}

void ModelsFolder::give_up(const std::string& name) noexcept {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.find(name)->second;
  entry.loading = false;
  const std::vector<Waiting> waiting = std::exchange(entry.waiting, {});
  lock.unlock();
  for (const Waiting& one : waiting) {
    one.then(nullptr, {.status = 503, .message = "out of memory"});
  }
}

void ModelsFolder::stop() {
  stops_ = true;
  loader_.stop();
  std::vector<Waiting> refused;
  std::vector<Loaded> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : entries_) {
      std::ranges::move(std::exchange(entry.waiting, {}), std::back_inserter(refused));
      if (entry.loaded) ended.push_back(entry.loaded);
    }
  }
  for (const Waiting& one : refused) one.then(nullptr, server_ends());
  for (const Loaded& model : ended) model->end();
  for (const Loaded& model : ended) model->join();
}

// For the loader's thread.
void ModelsFolder::load_now(const std::string& name) {
  std::unique_lock lock(mutex_);
  const auto place = entries_.find(name);
  if (place == entries_.end()) return;
  Entry& entry = place->second;  // it stays while somebody waits for it, or it is loading
  std::erase_if(entry.waiting, [](const Waiting& one) { return !one.wanted(); });
  if (entry.waiting.empty()) return;
  entry.loading = true;
  const std::filesystem::path path = entry.path;
  const std::string planned = entry.planned;
  const std::uint64_t needs = entry.needs;
  lock.unlock();
  Outcome outcome = make_whole(name, path, planned, needs);
  outcome.waits ? wait_for_room(name, std::move(outcome)) : take(name, std::move(outcome));
}

void ModelsFolder::take(const std::string& name, Outcome outcome) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.why = outcome.why;
  entry.loading = false;
  entry.loaded = std::move(outcome.loaded);
  entry.bytes = outcome.bytes;
  taken_ += outcome.bytes;
  entry.refused_until = outcome.refused_until;
  const bool fails_again = outcome.refused_until != Clock::time_point();
  entry.failed = fails_again ? std::move(outcome.stamp) : std::string();
  const std::vector<Waiting> waiting = std::exchange(entry.waiting, {});
  const HeldModel model = entry.loaded ? held(entry) : nullptr;
  lock.unlock();
  for (const Waiting& one : waiting) one.then(model, outcome.why);
}

// Sends a model to the back of the queue, where others are not held up, and refuses those who have
// waited for too long.
void ModelsFolder::wait_for_room(const std::string& name, Outcome outcome) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.loading = false;
  entry.planned = std::move(outcome.stamp);
  entry.needs = outcome.bytes;
  const auto limit = Clock::now() - options_.bounds.max_time;
  std::vector<Waiting>& waiting = entry.waiting;
  const auto late = std::stable_partition(waiting.begin(), waiting.end(),
                                          [&](const Waiting& one) { return one.since >= limit; });
  const std::vector<Waiting> refused(std::make_move_iterator(late),
                                     std::make_move_iterator(waiting.end()));
  waiting.erase(late, waiting.end());
  const Refusal why = no_room(name, outcome.bytes, memory_ - busy_bytes());
  const bool is_wanted = !waiting.empty();
  lock.unlock();
  for (const Waiting& one : refused) one.then(nullptr, why);
  if (!is_wanted) return;
  std::this_thread::sleep_for(kLookForRoom);
  submit(name);  // the mutex is free, but as long as somebody waits, nobody else does this
}

// `planned`, `needs`: bytes that a model with files of this stamp is known to need. Files that are
// written to meanwhile may have given a part of the old and a part of the new model.
ModelsFolder::Outcome ModelsFolder::make_whole(const std::string& name,
                                               const std::filesystem::path& path,
                                               const std::string& planned, std::uint64_t needs) {
  for (int i = 0; i < 2; ++i) {
    std::string stamp = stamp_of(path);
    const bool waits = stamp == planned && !make_room(name, needs);
    Outcome outcome = waits ? Outcome{.bytes = needs, .waits = true} : make(name, path);
    const bool is_whole = !outcome.loaded || stamp_of(path) == stamp;
    outcome.stamp = std::move(stamp);
    if (is_whole) return outcome;
    print_error(fmt::format("note: dropped {}: its files were written to while it was loaded\n",
                            cli::printable(name)));
    outcome.loaded.reset();
    release_cached_memory();
  }
  return {.why = files_changed(name)};
}

ModelsFolder::Outcome ModelsFolder::make(const std::string& name,
                                         const std::filesystem::path& path) {
  try {
    run::OpenedModel opened = run::open_model(path);
    const ModelPlan plan = plan_model(opened, options_.weights, options_.bounds, memory_);
    if (plan.bytes() > memory_) {
      return {.why = too_large(name, plan, memory_), .refused_until = Clock::time_point::max()};
    }
    if (!make_room(name, plan.bytes())) return {.bytes = plan.bytes(), .waits = true};
    for (auto* source : {&opened.weights, &opened.parts, &opened.base}) {
      *source = until(stops_, std::move(*source));
    }
    run::TextModel model = run::load_quantized(std::move(opened), options_.weights);
    ServerBounds bounds = options_.bounds;
    if (!bounds.cache) bounds.cache = nn::usual_cache(model.params);
    bounds.cache_bytes = plan.caches;
    const EnginePlan engine = plan_engine(model.gpt.config, bounds);
    auto loaded = std::make_shared<LoadedModel>(std::move(model), name, path.string(), engine,
                                                options_.served, [this] { broken_ = true; });
    print_error(fmt::format(
        "note: loaded {}: {} of weights, {} for keys and values, {} tokens of "
        "context\n",
        cli::printable(name), mebibytes(plan.weights), mebibytes(plan.caches), engine.context));
    return {.loaded = std::move(loaded), .bytes = plan.bytes()};
  } catch (const std::exception& error) {
    return failed(name, error);
  }
}

ModelsFolder::Outcome ModelsFolder::failed(const std::string& name,
                                           const std::exception& error) const {
  release_cached_memory();  // what it had by then
  if (stops_) return {.why = server_ends()};
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) return {.why = refused->why};
  const std::string text = error.what();
  print_error(fmt::format("error: {}\n",
                          cli::printable(fmt::format("{} cannot be loaded: {}", name, text))));
  const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                            text.find("out of memory") != text.npos;
  if (lacks_memory) return {.why = refusal_of(std::bad_alloc())};
  return {.why = {.status = 500,
                  .message = shown(name, text),
                  .param = "model",
                  .code = "model_broken"},
          .refused_until = Clock::now() + options_.try_again};
}

// Drops models until there is room for so many bytes. False if those that are left would be too
// large: then it drops none.
bool ModelsFolder::make_room(const std::string& name, std::uint64_t bytes) {
  std::vector<Loaded> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (busy_bytes() + bytes > memory_) return false;
    while (taken_ + bytes > memory_) dropped.push_back(take_idle());
  }
  for (Loaded& model : dropped) {
    const std::string its_name = model->ready().served.name();
    model.reset();
    release_cached_memory();
    print_error(fmt::format("note: dropped {} to make room for {}\n", cli::printable(its_name),
                            cli::printable(name)));
  }
  return true;
}

// False if a loaded model has something to do, or somebody who will give it that. Under the mutex,
// without which nobody begins to hold a model: what is idle stays so.
bool ModelsFolder::is_idle(const Entry& entry) {
  return entry.loaded.use_count() == 1 && entry.loaded->ready().engine.idle();
}

// Under the mutex.
std::uint64_t ModelsFolder::busy_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += is_idle(entry) ? 0 : entry.bytes;
  return bytes;
}

// The idle model that was not asked for the longest time; there must be one. Under the mutex.
ModelsFolder::Loaded ModelsFolder::take_idle() {
  Entry* oldest = nullptr;
  for (auto& [name, entry] : entries_) {
    if (is_idle(entry) && (oldest == nullptr || entry.turn < oldest->turn)) oldest = &entry;
  }
  check(oldest != nullptr, "no model is idle");
  EngineState state = oldest->loaded->ready().engine.state();
  state.waiting = state.running = state.positions = 0;  // its caches go with it
  past_ += state;
  taken_ -= std::exchange(oldest->bytes, 0);
  return std::exchange(oldest->loaded, nullptr);
}

}  // namespace tapegrad::serve
