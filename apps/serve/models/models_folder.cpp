#include "tapegrad/apps/serve/models/models_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/models/chat_template_of.h"

// The list of models and their engines, for those who ask; model_loader.cpp loads and drops them.

namespace tapegrad::serve {
namespace {

std::uint64_t usual_memory() {
  const auto memory = available_memory();
  return memory ? static_cast<std::uint64_t>(memory->bytes * 3 / 4) : UINT64_MAX;
}

// True if a text has a path from the root on: such paths are this computer's own.
bool names_root(const std::string& text) {
  for (std::size_t at = 0; (at = text.find('/', at)) != text.npos; ++at) {
    if (at == 0 || std::string_view(" '\"(:").find(text[at - 1]) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

ModelsFolder::ModelsFolder(ModelsOptions options)
    : options_(std::move(options)),
      memory_(options_.memory.value_or(usual_memory())),
      created_(seconds_since_1970()),
      files_(options_.folder),
      loader_(SIZE_MAX, SIZE_MAX) {
  read_folder();
}

ModelsFolder::~ModelsFolder() { stop(); }

// Brings the list up to date. A model that is in use stays there.
void ModelsFolder::read_folder() {
  const std::lock_guard files_lock(files_mutex_);
  try {
    files_.read_again();
  } catch (const Error& error) {
    print_error(
        fmt::format("note: the folder of models is not read: {}\n", cli::printable(error.what())));
    return;
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& named) {
    const Entry& e = named.second;
    return !files_.paths().contains(named.first) && !e.loaded && !e.loading && e.waiting.empty();
  });
  for (const auto& [name, path] : files_.paths()) entries_[name].path = path;
}

std::size_t ModelsFolder::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

// Under the mutex.
Refusal ModelsFolder::unknown(const std::string& name) const {
  std::string names;
  for (const auto& [known, entry] : entries_) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", known);
  }
  if (names.empty()) names = "none";
  return {.status = 404,
          .message = fmt::format("there is no model '{}' here, only {}", name, names),
          .param = "model",
          .code = "model_not_found"};
}

// Errors name files by their paths, of which clients see what lies in the folder.
std::string ModelsFolder::shown(const std::string& name, const std::string& error) const {
  std::string text = error;
  const std::string before = (options_.folder / "").string();
  for (std::size_t at; (at = text.find(before)) != text.npos;) text.erase(at, before.size());
  if (names_root(text)) text = "the server's log says why";
  return fmt::format("the model '{}' cannot be loaded: {}", name, text);
}

// Under the mutex.
HeldModel ModelsFolder::held(Entry& entry) {
  entry.turn = ++turn_;
  return {entry.loaded, &entry.loaded->ready()};
}

// Nothing if there is no such model. Refused if it has failed, and would fail again.
std::optional<ModelSet::Found> ModelsFolder::found(const std::string& name) {
  std::filesystem::path path;
  {
    const std::lock_guard lock(mutex_);
    const auto place = entries_.find(name);
    if (place == entries_.end()) return std::nullopt;
    if (place->second.loaded) return Found{held(place->second), name};
    if (place->second.loading) return Found{nullptr, name};
    path = place->second.path;
  }
  const std::string stamp = stamp_of(path);
  if (stamp.empty()) return std::nullopt;  // it has gone
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(name);
  if (place == entries_.end()) return std::nullopt;
  const Entry& entry = place->second;
  if (entry.failed == stamp && Clock::now() < entry.refused_until) throw Refused(entry.why);
  return Found{nullptr, name};
}

ModelSet::Found ModelsFolder::find(const std::optional<std::string>& asked) {
  std::string name = asked.value_or("");
  if (!asked) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() != 1) {
      throw Refused({.message = fmt::format("'model' is missing, and there are {} models here: "
                                            "GET /v1/models names them",
                                            entries_.size()),
                     .param = "model",
                     .code = "missing_required_parameter"});
    }
    name = entries_.begin()->first;
  }
  if (auto it = found(name)) return std::move(*it);
  read_folder();
  if (auto it = found(name)) return std::move(*it);
  const std::lock_guard lock(mutex_);
  throw Refused(unknown(name));
}

EngineState ModelsFolder::state() const {
  const std::lock_guard lock(mutex_);
  EngineState sum = past_;
  for (const auto& [name, entry] : entries_) {
    if (entry.loaded) sum += entry.loaded->ready().engine.state();
  }
  return sum;
}

bool ModelsFolder::idle() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, [](const auto& named) {
    return !named.second.loaded || named.second.loaded->ready().engine.idle();
  });
}

// What the files of a model say, none of whose weights is read.
Json ModelsFolder::about(const std::string& name, const std::filesystem::path& path) const {
  try {
    const run::OpenedModel opened = run::open_model(path);
    const ModelPlan plan = plan_model(opened, options_.weights, options_.bounds, memory_);
    const bool chat = run::chat_template_or_chatml(opened.settings, opened.tokenizer).has_value();
    return {{"meta",
             {{"n_vocab", opened.config.vocab_size},
              {"n_ctx", plan.engine.context},
              {"n_ctx_train", opened.config.block_size},
              {"n_embd", opened.config.n_embd},
              {"chat", chat},
              {"weight_bytes", plan.weights},
              {"memory_bytes", plan.bytes()}}}};
  } catch (const std::exception& error) {
    return {{"meta", Json::object()}, {"error", shown(name, error.what())}};
  }
}

// Reads what the files of a model say, if they have changed.
void ModelsFolder::look_at(const std::string& name) {
  std::filesystem::path path;
  std::string known;
  {
    const std::lock_guard lock(mutex_);
    const auto place = entries_.find(name);
    if (place == entries_.end() || stops_) return;
    path = place->second.path;
    known = place->second.known;
  }
  const std::string stamp = stamp_of(path);
  if (stamp == known) return;
  Json found = about(name, path);
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(name);
  if (place == entries_.end()) return;
  place->second.about = std::move(found);
  place->second.known = stamp;
}

// Under the mutex. The members are those of a single model, and a status as llama-server has it.
Json ModelsFolder::described(const std::string& name, const Entry& entry) const {
  const bool fails = !entry.failed.empty() && entry.failed == entry.known;
  const bool broken = entry.about.contains("error") || fails;
  Json status = {{"value", entry.loaded                              ? "loaded"
                           : entry.loading || !entry.waiting.empty() ? "loading"
                           : broken                                  ? "failed"
                                                                     : "unloaded"}};
  if (status["value"] == "failed") {
    status["error"] = fails ? Json(entry.why.message) : entry.about["error"];
  }
  Json meta = entry.about.value("meta", Json::object());
  if (entry.loaded) meta["n_ctx"] = entry.loaded->ready().served.context;
  return {{"id", name},          {"parent", nullptr},      {"object", "model"},
          {"created", created_}, {"owned_by", "tapegrad"}, {"status", std::move(status)},
          {"meta", meta}};
}

Json ModelsFolder::list() {
  read_folder();
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) names.push_back(name);
  }
  for (const std::string& name : names) look_at(name);
  Json list = Json::array();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) list.push_back(described(name, entry));
  return {{"object", "list"}, {"data", std::move(list)}};
}

Json ModelsFolder::describe(std::string_view asked) {
  const std::string name(asked);
  read_folder();
  look_at(name);
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(name);
  if (place == entries_.end()) throw Refused(no_model_to_describe());
  return described(name, place->second);
}

}  // namespace tapegrad::serve
