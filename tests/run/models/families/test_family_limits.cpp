// What files of families may say, and what is refused.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/tests/run/models/families/golden_family.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("what families cannot have is refused by name", "[families]") {
  const auto refused = [](const std::string& name, const std::string& key, const json& value,
                          const std::string& why) {
    const GoldenFamily golden(name);
    golden.configure(key, value);
    CHECK_THROWS_WITH(golden.load(), ContainsSubstring(why));
  };
  refused("gemma3", "sliding_window", nullptr, "sliding_window null is not supported");
  refused("gemma3", "use_bidirectional_attention", true, "use_bidirectional_attention true");
  refused("gemma3", "attn_logit_softcapping", 50.0, "attn_logit_softcapping 50");
  refused("gemma3", "hidden_activation", "silu", "hidden_activation silu");
  refused("gemma3", "query_pre_attn_scalar", -1, "query_pre_attn_scalar: -1 must be above 0");
  refused("gemma3", "query_pre_attn_scalar", "many", "query_pre_attn_scalar: ");
  refused("gemma3", "rope_parameters", {{"rope_type", "default"}},
          "there is no 'sliding_attention'");
  refused("gemma3", "rope_parameters",
          {{"full_attention", {{"rope_type", "default"}}},
           {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}},
          "rope_type 'linear' in blocks with a window");
  refused("smollm3", "use_sliding_window", true, "use_sliding_window true");
  refused("smollm3", "no_rope_layers", {1, 0}, "no_rope_layers names 2 layers of 4");
  refused("smollm3", "no_rope_layers", {1, 0.5}, "must be a list of whole numbers");
  refused("granite", "logits_scaling", 0, "cannot be divided by 0");
  refused("olmo2", "mlp_bias", true, "mlp_bias true");
  refused("phi3", "attention_bias", true, "attention_bias true");
  refused("phi3", "sliding_window", 0, "sliding_window: 0 must be 1 or more, or null");
  refused("phi3", "rope_parameters", {{"rope_type", "longrope"}}, "there is no 'short_factor'");
  refused("phi3", "rope_parameters",
          {{"rope_type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2}}},
          "rope_short_factors must be 3 numbers, one for each pair of channels that turn, not 2");
  refused("phi3", "rope_parameters",
          {{"rope_type", "longrope"}, {"short_factor", {1, 0, 1}}, {"long_factor", {1, 1, 1}}},
          "rope_short_factors are from 1e-6 to 1e6, not 0");
  refused("phi3", "rope_parameters", {{"rope_type", "linear"}, {"factor", 2}},
          "rope_type 'linear' are not supported, only default and longrope");
  refused("ministral3", "rope_parameters", {{"rope_type", "default"}},
          "there is no 'llama_4_scaling_beta'");
  refused("nanochat", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 2}},
          "rope_type 'yarn' are not supported, only default");
  refused("nanochat", "hidden_act", "silu", "hidden_act silu");
  refused("phi3", "rope_parameters", {{"partial_rotary_factor", 1.5}},
          "partial_rotary_factor 1.5 is not supported, only above 0 and at most 1");
  refused("phi3", "rope_parameters", {{"partial_rotary_factor", 0.4}},
          "partial_rotary_factor 0.4 turns 3 channels of each head of 8");
  refused("stablelm", "use_parallel_residual", true, "use_parallel_residual true");
  refused("stablelm", "qk_layernorm", true, "qk_layernorm true");
  refused("stablelm", "hidden_act", "gelu", "hidden_act gelu");
  refused("lfm2", "layer_types", {"conv", "conv"}, "layer_types names 2 layers of 3");
  refused("lfm2", "layer_types", {"conv", "conv", "sliding_attention"},
          "layer_types: 'sliding_attention' is not supported, only conv and full_attention");
  refused("lfm2", "conv_L_cache", 0, "conv_L_cache");
  refused("lfm2", "block_multiple_of", 0, "block_multiple_of 0");
  refused("lfm2", "block_ffn_dim_multiplier", -1, "block_ffn_dim_multiplier -1");
  refused("lfm2", "block_ffn_dim_multiplier", 1e300, "block_ffn_dim_multiplier 1e+300");
  refused("granite", "partial_rotary_factor", 0.5, "partial_rotary_factor 0.5 is not supported");

  // What Hugging Face's layout can have, and GGUF cannot.
  const TempFolder out;
  const auto no_gguf = [&](const std::string& name, const std::string& key, const json& value,
                           const std::string& why) {
    const GoldenFamily golden(name);
    golden.configure(key, value);
    CHECK_THROWS_WITH(export_to("gguf", golden.load(), out / "no.gguf"), ContainsSubstring(why));
  };
  const GoldenFamily tied("olmo2");
  auto tensors = load_safetensors((tied.folder / "model.safetensors").string()).tensors;
  tensors.erase("lm_head.weight");
  save_safetensors((tied.folder / "model.safetensors").string(),
                   NamedTensors(tensors.begin(), tensors.end()));
  tied.configure("tie_word_embeddings", true);
  CHECK_THROWS_WITH(export_to("gguf", tied.load(), out / "no.gguf"),
                    ContainsSubstring("llama.cpp wants a head of its own: --no-tied"));
  no_gguf("gemma2", "attn_logit_softcapping", nullptr, "GGUF's gemma2 needs");
  no_gguf("gemma2", "query_pre_attn_scalar", 7, "llama.cpp decides it by the model's sizes");
  no_gguf("gemma2", "layer_types", {"full_attention", "sliding_attention"},
          "GGUF cannot express window_pattern LS");
  no_gguf("phi3", "sliding_window", 4, "llama.cpp sees all positions with this architecture");
  no_gguf("smollm3", "no_rope_layers", {0, 1, 1, 1}, "rope_pattern NRRR");
}

TEST_CASE("keys that older files have, or leave out, make the same model", "[families]") {
  const GoldenFamily gemma("gemma3");
  const nn::DecoderConfig c = gemma.load().gpt.config;
  CHECK((c.rope_base == 5000 && c.rope_window_base == 100 && c.window_pattern == "SL"));
  CHECK(c.embedding_scale == 4);
  gemma.configure("rope_parameters", nullptr);
  gemma.configure("rope_theta", 5000.0);
  gemma.configure("rope_local_base_freq", 100.0);
  gemma.configure("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}});
  gemma.configure("layer_types", nullptr);
  gemma.configure("sliding_window_pattern", 2);
  check_computes(gemma.load(), gemma.expected);
  gemma.configure("sliding_window_pattern", 0.5);
  CHECK_THROWS_WITH(gemma.load(), ContainsSubstring("sliding_window_pattern"));
  // Nothing: SSSSSL, of which three blocks all have the window.
  gemma.configure("sliding_window_pattern", nullptr);
  CHECK(gemma.load().gpt.config.window_pattern.empty());
  // No block has one, nor positions of its own.
  gemma.configure("layer_types", {"full_attention", "full_attention", "full_attention"});
  CHECK((gemma.load().gpt.config.window == 0 && gemma.load().gpt.config.rope_window_base == 0));

  const GoldenFamily gemma2("gemma2");
  gemma2.configure("final_logit_softcapping", nullptr);
  CHECK(gemma2.load().gpt.config.logit_softcap == 0);
  gemma2.configure("layer_types", nullptr);
  CHECK(gemma2.load().gpt.config.window_pattern == "SL");

  // Files of transformers 4 say the share of turned channels at the top.
  for (const char* name : {"phi3", "stablelm"}) {
    const GoldenFamily golden(name);
    golden.configure("rope_parameters", nullptr);
    check_computes(golden.load(), golden.expected);
    golden.configure("partial_rotary_factor", nullptr);
    const auto turned = golden.load().gpt.config.rope_channels;
    CHECK(turned ==
          (std::string_view(name) == "phi3" ? std::nullopt : std::optional<std::int64_t>(2)));
  }

  // Files of the first LFM2s.
  const GoldenFamily lfm2("lfm2");
  CHECK(lfm2.load().gpt.config.mixer_pattern == "CA");
  lfm2.configure("layer_types", nullptr);
  lfm2.configure("full_attn_idxs", {1});
  lfm2.configure("block_ff_dim", 24);
  lfm2.configure("intermediate_size", 1000);
  lfm2.configure("tie_embedding", true);
  check_computes(lfm2.load(), lfm2.expected);
  // int(2·24 / 3) = 16, times 1.2 is 19, and up to a multiple of 4.
  lfm2.configure("block_ffn_dim_multiplier", 1.2);
  CHECK(run::open_model(lfm2.path()).config.n_inner == 20);
  lfm2.configure("block_ffn_dim_multiplier", nullptr);
  CHECK(run::open_model(lfm2.path()).config.n_inner == 16);
  lfm2.configure("full_attn_idxs", nullptr);
  CHECK(run::open_model(lfm2.path()).config.mixer_pattern.empty());

  const GoldenFamily smol("smollm3");
  smol.configure("no_rope_layers", nullptr);
  check_computes(smol.load(), smol.expected);
  smol.configure("no_rope_layer_interval", 0);
  CHECK_THROWS_WITH(smol.load(), ContainsSubstring("no_rope_layer_interval 0"));
}
