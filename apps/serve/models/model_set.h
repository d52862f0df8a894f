#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/apps/serve/engine.h"
#include "tapegrad/apps/serve/served_model.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::serve {

// A model that can answer now. It stays in memory while somebody holds it.
struct ReadyModel {
  const ServedModel& served;
  Engine& engine;
};
using HeldModel = std::shared_ptr<const ReadyModel>;

// The models of a server, by their names for clients. Any thread may call all of it.
class ModelSet {
 public:
  struct Found {
    HeldModel model;        // null: it has to be loaded first
    std::string name = {};  // for load()
  };
  // Called once, unless nobody wants the model any more: with it, or with a null one and why there
  // is none. Throws nothing.
  using Then = std::function<void(HeldModel model, const Refusal& why)>;
  // False once nobody waits for the model any more. Throws nothing; any thread may ask.
  using Wanted = std::function<bool()>;

  virtual ~ModelSet() = default;
  // The model for a request whose `model` is this, or which names none. Refused if there is none.
  virtual Found find(const std::optional<std::string>& name) = 0;
  // Calls `then` at once, or later from another thread.
  virtual void load(const std::string& name, Then then, Wanted wanted) = 0;

  virtual Json list() = 0;  // GET /v1/models
  // GET /v1/models/NAME. Refused if there is no such model.
  virtual Json describe(std::string_view name) = 0;
  // True if both of these read files, which may take long.
  virtual bool reads_files() const = 0;

  // All engines together.
  virtual EngineState state() const = 0;
  virtual bool idle() const = 0;
};

// The refusal of a name that no model has.
inline Refusal no_model_to_describe() {
  return {.status = 404,
          .message = "there is no model of that name here",
          .param = "model",
          .code = "model_not_found"};
}

}  // namespace tapegrad::serve
