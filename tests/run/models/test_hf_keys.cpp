// Keys of Hugging Face's config.json that change the result.

#include <tuple>
#include <utility>

#include "tapegrad/base/json/internal/python_json.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/tests/run/models/hf_golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

TEST_CASE("a config that changes the result in a way unknown here is refused by name",
          "[hf_keys]") {
  const std::vector<std::pair<std::string, json>> faults = {
      {"model_type", "bloom"},
      {"quantization_config", {{"bits", 4}}},
      {"architectures", json::array({"GPT2ForSequenceClassification"})},
      {"activation_function", "silu"},
      {"scale_attn_by_inverse_layer_idx", true},
      {"scale_attn_weights", false},
      {"add_cross_attention", true},
      {"n_head", 3},
      {"n_layer", -1},
      {"n_layer", 1'000'000'000'000},
      {"n_embd", "16"},
      {"vocab_size", 3},
      {"tie_word_embeddings", "yes"}};
  for (const auto& [key, value] : faults) {
    const GoldenFolder folder;
    folder.write(folder.tensors);
    folder.configure(key, value);
    INFO(key << " " << value);
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(key));
  }
  // Not tied, but without a head: transformers would draw one.
  const GoldenFolder folder;
  folder.write(folder.tensors);
  folder.configure("tie_word_embeddings", false);
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("lm_head.weight"));
}

TEST_CASE("keys of Llama's family that change the result are honoured or refused by name",
          "[hf_keys]") {
  const json other = {{"rope_type", "proportional"}, {"factor", 2.0}};
  const std::vector<std::tuple<std::string, json, std::string>> faults = {
      {"hidden_act", "gelu", "hidden_act"},
      {"attention_bias", true, "bias"},  // there are none
      {"mlp_bias", true, "bias"},
      {"mlp_bias", "yes", "mlp_bias"},
      {"rope_interleaved", true, "rope_interleaved"},
      {"rope_parameters", other, "rope_type 'proportional'"},
      {"rope_parameters", {{"rope_type", "linear"}}, "factor"},
      {"rope_parameters", 3, "rope_parameters"},
      {"num_key_value_heads", 3, "n_kv_head"},
      {"num_attention_heads", 0, "n_head"},
      {"head_dim", 5, "channels per head"},
      {"head_dim", 4611686018427387908, "head_size"},
      {"hidden_size", nullptr, "hidden_size"},
      {"intermediate_size", -1, "n_inner"},
      {"rms_norm_eps", "small", "rms_norm_eps"},
      {"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}, "factor"}};
  for (const auto& [key, value, message] : faults) {
    const GoldenFolder folder("hf_llama");
    folder.write(folder.tensors);
    folder.configure(key, value);
    INFO(key << " " << value);
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  }
  // The spelling of transformers 4.
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  json scaling = golden_json("hf_llama/config.json").at("rope_parameters");
  scaling.erase("rope_theta");
  folder.configure("rope_parameters", nullptr);
  folder.configure("rope_theta", 1000);
  folder.configure("rope_scaling", scaling);
  check_is_golden(run::load(folder.path()), "hf_llama");
}

namespace {

// scores.safetensors has the logits of the first row.
void check_scores(const std::filesystem::path& folder, const std::string& golden,
                  const std::string& name) {
  INFO(name);
  static const SafeTensors file = load_safetensors(golden_file("scores.safetensors").string());
  run::TextModel model = run::load(folder);
  model.gpt.rule_out({});  // transformers counts rows that stand for no token
  const Tensor ids = expected_of(golden).at("input_ids").rows(0, 1);
  const Tensor& expected = file.at("model/" + name);
  CHECK(difference(model.gpt(ids), expected, 1e-5, 2e-5) == "");
  nn::KVCache cache;
  for (std::int64_t t = 0; t < ids.dim(1); ++t) {
    const Tensor next = model.gpt.last_logits(columns(ids, t, t + 1), cache);
    CHECK(difference(next, select(expected, 1, t), 1e-5, 2e-5) == "");
  }
}

}  // namespace

TEST_CASE("where attention slides, logits are transformers' beyond the window", "[hf_keys]") {
  const GoldenFolder mistral("hf_llama");
  mistral.write(mistral.tensors);
  mistral.configure("model_type", "mistral");
  mistral.configure("architectures", json::array({"MistralForCausalLM"}));
  // The default window is 4,096, which hides nothing of 24 positions.
  check_is_golden(run::load(mistral.path()), "hf_llama");
  CHECK(run::load(mistral.path()).gpt.config.window == 0);
  mistral.configure("max_position_embeddings", 8192);
  CHECK(run::load(mistral.path()).gpt.config.window == 4096);
  mistral.configure("sliding_window", nullptr);
  CHECK(run::load(mistral.path()).gpt.config.window == 0);
  mistral.configure("max_position_embeddings", 24);
  mistral.configure("sliding_window", 5);
  CHECK(run::load(mistral.path()).gpt.config.window == 5);
  CHECK(run::load(mistral.path()).gpt.config.block_size == 24);
  check_scores(mistral.path(), "hf_llama", "mistral");
  mistral.configure("sliding_window", nullptr);
  check_is_golden(run::load(mistral.path()), "hf_llama");
  mistral.configure("sliding_window", 0);
  CHECK_THROWS_WITH(run::load(mistral.path()), ContainsSubstring("sliding_window 0"));

  const GoldenFolder qwen2("hf_qwen2");
  qwen2.write(qwen2.tensors);
  qwen2.configure("sliding_window", 4);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // use_sliding_window is false
  qwen2.configure("use_sliding_window", true);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // its layer_types are full
  qwen2.configure("layer_types", nullptr);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // max_window_layers is 28
  qwen2.configure("max_window_layers", 1);
  CHECK(run::load(qwen2.path()).gpt.config.window_pattern == "LS");
  check_scores(qwen2.path(), "hf_qwen2", "qwen2");
  qwen2.configure("layer_types", {"sliding_attention", "full_attention"});
  check_scores(qwen2.path(), "hf_qwen2", "qwen2_types");
  qwen2.configure("max_window_layers", 0);
  qwen2.configure("layer_types", nullptr);
  CHECK(run::load(qwen2.path()).gpt.config.window_pattern.empty());
  CHECK(run::load(qwen2.path()).gpt.config.window == 4);
  qwen2.configure("layer_types", {"full_attention"});
  CHECK_THROWS_WITH(run::load(qwen2.path()), ContainsSubstring("layer_types names 1 layers of 2"));
  qwen2.configure("layer_types", {"full_attention", "chunked_attention"});
  CHECK_THROWS_WITH(run::load(qwen2.path()), ContainsSubstring("'chunked_attention'"));
}

TEST_CASE("a config with 0 experts is that of a dense model, whatever it says of experts",
          "[hf_keys]") {
  const GoldenFolder folder("hf_qwen3");
  folder.write(folder.tensors);
  const nn::DecoderConfig dense = run::load(folder.path()).gpt.config;
  folder.configure("model_type", "qwen3_moe");
  folder.configure("architectures", json::array({"Qwen3MoeForCausalLM"}));
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    folder.configure(key, 0);
  }
  check_is_golden(run::load(folder.path()), "hf_qwen3");
  CHECK(run::load(folder.path()).gpt.config == dense);
  folder.configure("num_experts", 2);
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("num_experts_per_tok"));
}

TEST_CASE("Python's names of infinities and NaN become strings, but for those within strings",
          "[hf_keys]") {
  CHECK(with_constants_quoted(R"([Infinity,-Infinity, NaN,-1])") ==
        R"(["Infinity","-Infinity", "NaN",-1])");
  const std::string plain = R"({"NaN":"a Infinity \" NaN","b\\":"\\","Infinity":null})";
  CHECK(with_constants_quoted(plain) == plain);
  CHECK(with_constants_quoted(R"("\)") == R"("\)");
}

TEST_CASE("a changed object of Python's keeps its infinities and NaN", "[hf_keys]") {
  CHECK(with_python_member("file", R"({"a": Infinity,"b":[-Infinity,NaN],"c":"NaN","d":"a \"NaN"})",
                           "e", 3) ==
        "{\n  \"a\": Infinity,\n  \"b\": [\n    -Infinity,\n    NaN\n  ],\n  \"c\": \"NaN\",\n"
        "  \"d\": \"a \\\"NaN\",\n  \"e\": 3\n}\n");
}

TEST_CASE("a config.json with Python's Infinity is read, and its value is no number", "[hf_keys]") {
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  const std::string config = TempFolder::get(folder.temp / "config.json");
  const auto with = [&](const std::string& more) {
    folder.temp.put("config.json", "{" + more + ", " + config.substr(config.find('{') + 1));
    return run::read_hf_config(folder.path()).config;
  };
  CHECK(with(R"("time_step_limit": [0.0, Infinity, -Infinity, NaN])").rope_base == 1000);
  CHECK(run::load(folder.path()).gpt.config.rope_base == 1000);  // others read the file, too
  CHECK_THROWS_WITH(with(R"("rope_theta": NaN)"),
                    ContainsSubstring("'rope_theta' must be a number"));
  folder.temp.put("config.json", R"({"time_step_limit": [0.0, Infinity], "model_type": "mamba2"})");
  CHECK_THROWS_WITH(run::load(folder.path()),
                    ContainsSubstring("model_type 'mamba2' is not supported"));
}

TEST_CASE("linear rotary positions have transformers' logits, in both spellings", "[hf_keys]") {
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  folder.configure("rope_parameters",
                   {{"rope_type", "linear"}, {"rope_theta", 1000.0}, {"factor", 2.5}});
  check_scores(folder.path(), "hf_llama", "linear");
  folder.configure("rope_parameters", nullptr);
  folder.configure("rope_theta", 1000);
  folder.configure("rope_scaling", {{"type", "linear"}, {"factor", 2.5}});
  check_scores(folder.path(), "hf_llama", "linear");
}

TEST_CASE("dynamic rotary positions are the default ones, as far as texts go", "[hf_keys]") {
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  const auto logits_of = [&](const char* type) {
    folder.configure("rope_parameters",
                     {{"rope_type", type}, {"rope_theta", 1000.0}, {"factor", 2.0}});
    return run::load(folder.path()).gpt(expected_of("hf_llama").at("input_ids"));
  };
  CHECK(difference(logits_of("dynamic"), logits_of("default"), 0, 0) == "");
}

TEST_CASE("YaRN's keys mean what they mean to transformers", "[hf_keys]") {
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  const auto config = [&](json keys) {
    keys.update({{"rope_type", "yarn"}, {"rope_theta", 1000.0}});
    if (!keys.contains("factor")) keys["factor"] = 4.0;
    folder.configure("rope_parameters", keys);
    return run::load(folder.path()).gpt.config;
  };
  const nn::DecoderConfig plain = config(json::object());
  CHECK((plain.rope_scaling == nn::RopeScalingKind::yarn && plain.rope_factor == 4));
  CHECK((plain.rope_original_positions == 24 && plain.rope_attention_factor == 0));
  CHECK((plain.rope_beta_fast == 32 && plain.rope_beta_slow == 1 && plain.rope_truncate));
  CHECK(plain.scaling()->attention_factor == Approx(1.138629436111989).epsilon(1e-14));
  // 0 and null are absent, but null of `truncate`.
  CHECK(config({{"beta_fast", 0}, {"beta_slow", nullptr}, {"attention_factor", nullptr}}) == plain);
  CHECK(config({{"mscale", 1.0}, {"mscale_all_dim", 0}}) == plain);
  CHECK_FALSE(config({{"truncate", nullptr}}).rope_truncate);
  CHECK(config({{"factor", nullptr}, {"original_max_position_embeddings", 8}}).rope_factor == 3);
  // (0.1 ln 4 + 1) / (0.05 ln 4 + 1), unless the factor is there.
  const json scales = {{"mscale", 1}, {"mscale_all_dim", 0.5}};
  CHECK(config(scales).rope_attention_factor == Approx(1.0648216254).epsilon(1e-9));
  json both = scales;
  both["attention_factor"] = 1.5;
  CHECK(config(both).rope_attention_factor == 1.5);

  const auto refused = [&](const json& keys, const std::string& message) {
    CHECK_THROWS_WITH(config(keys), ContainsSubstring(message));
  };
  refused({{"attention_factor", 0}}, "attention_factor 0 must be above 0");
  refused({{"mscale", -20}, {"mscale_all_dim", 1}}, "mscale -20 and mscale_all_dim 1 make");
  refused({{"beta_fast", 0.5}}, "rope_beta_slow 1 must not be above rope_beta_fast 0.5");
  refused({{"original_max_position_embeddings", 4}}, "rope_original_positions 4");
  refused({{"factor", "four"}}, "factor");
}

TEST_CASE("of two spellings of rotary positions, the one that transformers takes counts",
          "[hf_keys]") {
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  const json golden = golden_json("hf_llama/config.json").at("rope_parameters");
  const auto refused = [&](const std::string& message) {
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  };
  // Users put what a model card says beside what an export has written.
  folder.configure("rope_theta", golden.at("rope_theta"));
  folder.configure("rope_scaling", {{"rope_type", "proportional"}, {"factor", 4.0}});
  refused(
      "rope_type 'proportional' are not supported, only default, dynamic, linear, llama3, "
      "longrope and yarn");
  folder.configure("rope_scaling", {{"type", "linear"}, {"factor", 2.5}});
  check_scores(folder.path(), "hf_llama", "linear");
  folder.configure("rope_theta", 500);
  refused("rope_theta of 500, but rope_parameters have 1000");
  folder.configure("rope_scaling", {{"type", "linear"}, {"factor", 2.5}, {"rope_theta", 1000.0}});
  check_scores(folder.path(), "hf_llama", "linear");
  folder.configure("rope_scaling", json::object());
  check_is_golden(run::load(folder.path()), "hf_llama");

  // At the top of the file it wins; where nobody says it, it is the longest text.
  const auto positions = [&] {
    return run::load(folder.path()).gpt.config.rope_original_positions;
  };
  folder.configure("original_max_position_embeddings", 7);
  CHECK(positions() == 7);
  json without = golden;
  without.erase("original_max_position_embeddings");
  folder.configure("rope_parameters", without);
  CHECK(positions() == 7);
  folder.configure("original_max_position_embeddings", nullptr);
  CHECK(positions() == run::load(folder.path()).gpt.config.block_size);
  folder.configure("rope_parameters", {{"full_attention", golden}});
  refused("'full_attention'");
}
