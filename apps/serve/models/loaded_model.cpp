#include "tapegrad/apps/serve/models/loaded_model.h"

#include <fmt/format.h>

#include <utility>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::serve {
namespace {

EngineOptions named_options(EngineOptions options, const std::string& path) {
  options.model = path;
  return options;
}

}  // namespace

LoadedModel::LoadedModel(run::TextModel model, const std::string& name, const std::string& path,
                         const EnginePlan& plan, const ServedOptions& options,
                         std::function<void()> fails)
    : model_(std::move(model)),
      json_masks_(masks_of(model_.tokenizer)),
      served_(served_model(model_, {{name}}, plan.context, json_masks_, options)),
      engine_(model_.gpt, named_options(plan.engine, path)),
      ready_{served_, engine_},
      fails_(std::move(fails)) {
  thread_.submit(0, name, 0, [this] { work(); });
}

LoadedModel::~LoadedModel() {
  end();
  join();
}

void LoadedModel::work() noexcept {
  try {
    engine_.run([this] { return ends_.load(); });
  } catch (const std::exception& error) {
    interrupt("an engine has failed");
    fails_();
    print_error(
        fmt::format("error: {}\n", cli::printable(fmt::format("the engine of {} has failed: {}",
                                                              served_.name(), error.what()))));
  }
}

}  // namespace tapegrad::serve
