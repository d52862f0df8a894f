#include "tapegrad/run/folder/older_config.h"

#include <optional>

#include "tapegrad/base/error.h"
#include "tapegrad/run/folder/config_json.h"

namespace tapegrad::run {
namespace {

// Takes a switch out of the section.
bool taken(Json& model, const char* name) {
  const Json value = model.value(name, Json(false));
  check(value.is_boolean(), "'{}' must be true or false", name);
  model.erase(name);
  return value.get<bool>();
}

// A number of the section; nothing if it has none.
std::optional<double> number_in(const Json& model, const char* name) {
  const Json value = model.value(name, Json());
  check(value.is_null() || value.is_number(), "'{}' must be a number", name);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// A decoder had switches in place of `positions` and `norm`. One of Llama's had to have the values
// of GPT-2's other parts, and meant its own. Options of positions that are not rotary, or not
// scaled, said nothing.
void modernise_decoder(Json& model) {
  if (!model.is_object() || !model.contains("rope")) return;
  const bool llama = model.value("arch", Json()) == "llama";
  const bool rope = taken(model, "rope");
  if (rope) model["positions"] = "rotary";
  if (taken(model, "unbiased_norm")) model["norm"] = "unbiased";
  const bool rotary = rope || llama;
  const bool scaled = number_in(model, "rope_factor").value_or(1) != 1 && rotary;
  if (scaled) model["rope_scaling"] = "llama3";
  const auto drop = [&](const char* name) {
    static_cast<void>(number_in(model, name));  // a broken value is an Error all the same
    model.erase(name);
  };
  if (!rotary) drop("rope_base");
  if (!scaled) {
    for (const char* name : {"rope_factor", "rope_low_freq_factor", "rope_high_freq_factor",
                             "rope_original_positions"}) {
      drop(name);
    }
  }
  if (!llama) return;
  model["activation"] = nullptr;
  model["separate_qkv"] = nullptr;
}

// A GPT was trained on sequences of all the tokens that it sees.
void add_training_length(Json& config) {
  if (config.value("format", Json()) != "tapegrad-gpt" || !config.contains("data")) return;
  Json &model = config["model"], &data = config["data"];
  if (!model.is_object() || !model.contains("block_size") || !data.is_object()) return;
  if (!data.contains("block_size")) data["block_size"] = model["block_size"];
}

// One folder of tokens was a text, and an empty one none.
void list_data(Json& config) {
  if (!config.contains("data") || !config["data"].is_object()) return;
  Json& text = config["data"];
  if (!text.contains("data") || !is_text(text["data"])) return;
  const bool none = text_of_json(text["data"]).empty();
  text["data"] = none ? Json::array() : Json::array({text["data"]});
}

}  // namespace

void modernise(const std::filesystem::path& path, Json& config) {
  if (!config.contains("model")) return;
  try {
    modernise_decoder(config["model"]);
    add_training_length(config);
    list_data(config);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace tapegrad::run
