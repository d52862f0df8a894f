#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

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

}  // namespace

void ModelsFolder::load(const std::string& name, Then then) {
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
  const bool is_first = entry.waiting.empty() && !entry.loading;
  entry.waiting.push_back(std::move(then));
  if (is_first) loader_.submit(0, "", 0, [this, name] { load_now(name); });
}

void ModelsFolder::stop() {
  stops_ = true;
  loader_.stop();
  std::vector<Then> refused;
  std::vector<Loaded> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : entries_) {
      std::ranges::move(std::exchange(entry.waiting, {}), std::back_inserter(refused));
      if (entry.loaded) ended.push_back(entry.loaded);
    }
  }
  for (const Then& then : refused) then(nullptr, server_ends());
  for (const Loaded& model : ended) model->end();
  for (const Loaded& model : ended) model->join();
}

// For the loader's thread.
void ModelsFolder::load_now(const std::string& name) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(name);  // it stays while somebody waits for it, or it is loading
  entry.loading = true;
  const std::filesystem::path path = entry.path;
  lock.unlock();
  const std::string stamp = stamp_of(path);
  Outcome outcome = make(name, path);
  lock.lock();
  entry.loading = false;
  entry.loaded = std::move(outcome.loaded);
  entry.bytes = outcome.bytes;
  taken_ += outcome.bytes;
  entry.failed = outcome.lasts ? stamp : std::string();
  entry.why = outcome.why;
  const std::vector<Then> waiting = std::exchange(entry.waiting, {});
  const HeldModel model = entry.loaded ? held(entry) : nullptr;
  lock.unlock();
  for (const Then& then : waiting) then(model, outcome.why);
}

ModelsFolder::Outcome ModelsFolder::make(const std::string& name,
                                         const std::filesystem::path& path) {
  try {
    run::OpenedModel opened = run::open_model(path);
    const ModelPlan plan = plan_model(opened, options_.weights, options_.bounds, memory_);
    if (plan.bytes() > memory_) return {.why = too_large(name, plan, memory_), .lasts = true};
    make_room(name, plan.bytes());
    for (auto* source : {&opened.weights, &opened.parts, &opened.base}) {
      *source = until(stops_, std::move(*source));
    }
    run::TextModel model = run::load_quantized(std::move(opened), options_.weights);
    ServerBounds bounds = options_.bounds;
    if (!bounds.cache) bounds.cache = nn::usual_cache(model.params);
    bounds.cache_bytes = plan.caches;
    const EnginePlan engine = plan_engine(model.gpt.config, bounds);
    auto loaded = std::make_shared<LoadedModel>(std::move(model), name, path.string(), engine,
                                                options_.served);
    print_error(
        fmt::format("note: loaded {}: {} of weights, {} for keys and values, {} tokens of "
                    "context\n",
                    name, mebibytes(plan.weights), mebibytes(plan.caches), engine.context));
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
  print_error(fmt::format("error: {} cannot be loaded: {}\n", name, text));
  const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                            text.find("out of memory") != text.npos;
  if (lacks_memory) return {.why = refusal_of(std::bad_alloc())};
  return {.why = {.status = 500,
                  .message = shown(name, text),
                  .param = "model",
                  .code = "model_broken"},
          .lasts = true};
}

// Drops models until there is room for so many bytes. Refused if those that are left answer for too
// long, or the server ends.
void ModelsFolder::make_room(const std::string& name, std::uint64_t bytes) {
  const auto limit = Clock::now() + options_.bounds.max_time;
  std::unique_lock lock(mutex_);
  while (taken_ + bytes > memory_) {
    if (stops_) throw Refused(server_ends());
    if (Loaded dropped = take_idle()) {
      lock.unlock();
      const std::string its_name = dropped->ready().served.name();
      dropped.reset();
      release_cached_memory();
      print_error(fmt::format("note: dropped {} to make room for {}\n", its_name, name));
      lock.lock();
      continue;
    }
    if (Clock::now() > limit) throw Refused(no_room(name, bytes, memory_ - taken_));
    lock.unlock();
    std::this_thread::sleep_for(kLookForRoom);
    lock.lock();
  }
}

// The model to drop; null if each has something to do, or somebody who will give it that. Under the
// mutex, without which nobody begins to hold a model.
ModelsFolder::Loaded ModelsFolder::take_idle() {
  Entry* oldest = nullptr;
  for (auto& [name, entry] : entries_) {
    if (entry.loaded.use_count() != 1 || !entry.loaded->ready().engine.idle()) continue;
    if (oldest == nullptr || entry.turn < oldest->turn) oldest = &entry;
  }
  if (oldest == nullptr) return nullptr;
  EngineState state = oldest->loaded->ready().engine.state();
  state.waiting = state.running = state.positions = 0;  // its caches go with it
  past_ += state;
  taken_ -= std::exchange(oldest->bytes, 0);
  return std::exchange(oldest->loaded, nullptr);
}

}  // namespace tapegrad::serve
