#include "tapegrad/run/folder/older_config.h"

namespace tapegrad::run {
namespace {

// A decoder had switches in place of `positions` and `norm`. One of Llama's had to have the values
// of GPT-2's other parts, and meant its own.
void modernise_decoder(Json& model) {
  if (!model.is_object() || !model.contains("rope")) return;
  if (model["rope"] == true) model["positions"] = "rotary";
  if (model.value("unbiased_norm", Json()) == true) model["norm"] = "unbiased";
  model.erase("rope");
  model.erase("unbiased_norm");
  const Json factor = model.value("rope_factor", Json());
  if (factor.is_number() && factor != 1) model["rope_scaling"] = "llama3";
  if (model.value("arch", Json()) != "llama") return;
  model["activation"] = nullptr;
  model["separate_qkv"] = nullptr;
}

}  // namespace

void modernise(Json& config) {
  if (config.contains("model")) modernise_decoder(config["model"]);
}

}  // namespace tapegrad::run
