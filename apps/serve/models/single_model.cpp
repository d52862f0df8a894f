#include "tapegrad/apps/serve/models/single_model.h"

#include <algorithm>

#include "tapegrad/apps/serve/api/token_calls.h"

namespace tapegrad::serve {

Json SingleModel::list() { return list_models(model_->served); }

Json SingleModel::describe(std::string_view name) {
  const auto& named = model_->served.named;
  const auto found = std::ranges::find(named, name, &NamedModel::name);
  if (found == named.end()) throw Refused(no_model_to_describe());
  return describe_model(model_->served, *found);
}

}  // namespace tapegrad::serve
