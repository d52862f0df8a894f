// Keys that a config.json of Hugging Face's leaves out, beside what transformers' own classes take:
// config_defaults.json has their configs of an empty file.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/tests/run/models/hf_golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

// Keys that an export does not have, or that say nothing of the model: dropout is the run's own.
const std::set<std::string> kOthers = {"_sliding_window_pattern",
                                       "add_cross_attention",
                                       "attention_dropout",
                                       "attn_pdrop",
                                       "embd_pdrop",
                                       "hidden_dropout",
                                       "no_rope_layer_interval",
                                       "output_router_logits",
                                       "pretraining_tp",
                                       "reorder_and_upcast_attn",
                                       "resid_pdrop"};

// What we make of a config.json with these keys, as we export it.
json reread(const TempFolder& folder, const json& config) {
  folder.put("config.json", config.dump());
  const run::HfModel model = run::read_hf_config(folder.path());
  Json out;
  run::set_hf_config(model.family, model.config, out);
  return json::parse(json_text(out));
}

// True if both say the same. Null and false are alike for keys that only say whether.
bool same(const json& ours, const json& theirs) {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& [key, value] : theirs.items()) {
      if (!ours.contains(key) || !same(ours.at(key), value)) return false;
    }
    return true;
  }
  return ours == theirs || (ours == json(false) && theirs.is_null());
}

}  // namespace

TEST_CASE("an empty config.json is the config that transformers makes of it", "[hf_defaults]") {
  const TempFolder folder;
  const json families = golden_json("config_defaults.json");
  for (const auto& [family, expected] : families.items()) {
    const json ours = reread(folder, {{"model_type", family}});
    // Where the window is not asked for, it is not written.
    const bool has_window = ours.contains("layer_types") || family == "mistral";
    for (const auto& [key, value] : expected.at("absent").items()) {
      INFO(family << " " << key << " " << value);
      const bool of_window =
          key == "sliding_window" || key == "layer_types" || key == "max_window_layers";
      if (kOthers.count(key) != 0 || (of_window && !has_window)) continue;
      // OLMo 3's window is longer than the positions are, and the YaRN of Ministral 3 and gpt-oss
      // is spelled out.
      const bool otherwise =
          (family == "olmo3" && of_window) ||
          ((family == "ministral3" || family == "gpt_oss") && key == "rope_parameters") ||
          (family == "qwen3_next" && key == "intermediate_size") ||  // no block has that width
          (family == "lfm2_moe" && key == "layer_types") ||  // transformers cannot do without
          (family == "falcon_h1" && key == "mamba_norm_before_gate") ||  // there is no norm
          // The width is written as it is.
          (family == "lfm2" && (key == "intermediate_size" || key == "block_auto_adjust_ff_dim"));
      if (otherwise) continue;
      REQUIRE(ours.contains(key));
      INFO(ours.at(key));
      CHECK(same(ours.at(key), value));
    }
  }
}

TEST_CASE("a Ministral 3 or gpt-oss without rope_parameters has those of its class",
          "[hf_defaults]") {
  const TempFolder folder;
  for (const char* name : {"ministral3", "gpt_oss"}) {
    INFO(name);
    const json ours = reread(folder, {{"model_type", name}}).at("rope_parameters");
    json theirs = golden_json("config_defaults.json").at(name).at("absent");
    theirs = theirs.at("rope_parameters");
    // These are the usual ones, or say nothing.
    for (const char* key : {"beta_fast", "beta_slow", "max_position_embeddings", "type"}) {
      theirs.erase(key);
    }
    CHECK(ours == theirs);
  }
}

TEST_CASE("null in a config.json is what transformers makes of it, or refused", "[hf_defaults]") {
  const TempFolder folder;
  const json families = golden_json("config_defaults.json");
  for (const auto& [family, expected] : families.items()) {
    for (const char* key : {"num_key_value_heads", "head_dim", "query_pre_attn_scalar",
                            "hidden_size", "intermediate_size", "vocab_size"}) {
      if (!expected.at("absent").contains(key)) continue;
      INFO(family << " " << key);
      const json config = {{"model_type", family}, {key, nullptr}};
      if (expected.at("null").contains(key)) {
        CHECK(reread(folder, config).at(key) == expected.at("null").at(key));
      } else if (family != "gpt2") {
        CHECK_THROWS_WITH(reread(folder, config),
                          ContainsSubstring(fmt::format("'{}' must be a number, not null", key)));
      }
    }
  }
}

TEST_CASE("models whose config.json leaves defaults out compute what transformers computes",
          "[hf_defaults]") {
  const json defaults = golden_json("config_defaults.json");
  for (const char* name : {"hf_qwen2", "hf_qwen3", "families/gemma", "families/gemma2",
                           "families/olmo2", "families/phi3", "families/smollm3"}) {
    INFO(name);
    const TempFolder folder;
    std::filesystem::copy_file(golden_file(name) / "model.safetensors",
                               folder / "model.safetensors");
    const bool is_family = std::string_view(name).starts_with("families/");
    std::filesystem::copy_file(golden_file(is_family ? "hf_gpt2" : name) / "tokenizer.json",
                               folder / "tokenizer.json");
    json config = golden_json(std::string(name) + "/config.json");
    const json absent = defaults.at(config.at("model_type")).at("absent");
    for (const auto& [key, value] : absent.items()) {
      if (config.contains(key) && config.at(key) == value) config.erase(key);
    }
    CHECK(!config.contains("rms_norm_eps"));
    folder.put("config.json", config.dump());
    check_computes(run::load(folder.path()), expected_of(name));
  }
}
