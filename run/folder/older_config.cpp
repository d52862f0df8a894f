#include "tapegrad/run/folder/older_config.h"

#include "tapegrad/base/error.h"

namespace tapegrad::run {
namespace {

// Takes a switch out of the section.
bool taken(Json& model, const char* name) {
  const Json value = model.value(name, Json(false));
  check(value.is_boolean(), "'{}' must be true or false", name);
  model.erase(name);
  return value.get<bool>();
}

// A decoder had switches in place of `positions` and `norm`. One of Llama's had to have the values
// of GPT-2's other parts, and meant its own. Without rotary positions, their options said nothing.
void modernise_decoder(Json& model) {
  if (!model.is_object() || !model.contains("rope")) return;
  const bool llama = model.value("arch", Json()) == "llama";
  const bool rotary = taken(model, "rope");
  if (rotary) model["positions"] = "rotary";
  if (taken(model, "unbiased_norm")) model["norm"] = "unbiased";
  if (!rotary && !llama) {
    model.erase("rope_base");
    model.erase("rope_factor");
  }
  const Json factor = model.value("rope_factor", Json());
  if (factor.is_number() && factor != 1) model["rope_scaling"] = "llama3";
  if (!llama) return;
  model["activation"] = nullptr;
  model["separate_qkv"] = nullptr;
}

}  // namespace

void modernise(const std::filesystem::path& path, Json& config) {
  if (!config.contains("model")) return;
  try {
    modernise_decoder(config["model"]);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace tapegrad::run
