#include "tapegrad/run/models/formats/gguf_names.h"

#include <cmath>
#include <numbers>

namespace tapegrad::run {
namespace {

void add_gpt2(std::vector<GgufName>& names, const nn::GPTConfig& c) {
  const auto add = [&](const std::string& ours, const std::string& theirs) {
    for (const char* kind : {".weight", ".bias"}) names.push_back({ours + kind, theirs + kind});
  };
  names.push_back({"wte.weight", kTokenTable});
  names.push_back({"wpe.weight", "position_embd.weight"});
  for (int i = 0; i < c.n_layer; ++i) {
    const std::string ours = fmt::format("h.{}.", i), theirs = fmt::format("blk.{}.", i);
    add(ours + "ln_1", theirs + "attn_norm");
    add(ours + "attn.c_attn", theirs + "attn_qkv");
    add(ours + "attn.c_proj", theirs + "attn_output");
    add(ours + "ln_2", theirs + "ffn_norm");
    add(ours + "mlp.c_fc", theirs + "ffn_up");
    add(ours + "mlp.c_proj", theirs + "ffn_down");
  }
  add("ln_f", "output_norm");
}

void add_llama(std::vector<GgufName>& names, const nn::GPTConfig& c, bool exchanged) {
  names.push_back({"embed_tokens.weight", kTokenTable});
  for (int i = 0; i < c.n_layer; ++i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("blk.{}.", i);
    const auto add = [&](const std::string& name, const std::string& their_name,
                         std::int64_t heads = 0) {
      names.push_back({ours + name, theirs + their_name, exchanged ? heads : 0});
    };
    const auto add_projection = [&](char which, std::int64_t heads) {
      const auto name = fmt::format("self_attn.{}_proj", which);
      const auto their_name = fmt::format("attn_{}", which);
      add(name + ".weight", their_name + ".weight", heads);
      if (c.with_qkv_bias()) add(name + ".bias", their_name + ".bias", heads);
    };
    add("input_layernorm.weight", "attn_norm.weight");
    add_projection('q', c.n_head);
    add_projection('k', c.kv_heads());
    add_projection('v', 0);
    if (c.qk_norm) {
      add("self_attn.q_norm.weight", "attn_q_norm.weight");
      add("self_attn.k_norm.weight", "attn_k_norm.weight");
    }
    add("self_attn.o_proj.weight", "attn_output.weight");
    add("post_attention_layernorm.weight", "ffn_norm.weight");
    add("mlp.gate_proj.weight", "ffn_gate.weight");
    add("mlp.up_proj.weight", "ffn_up.weight");
    add("mlp.down_proj.weight", "ffn_down.weight");
  }
  names.push_back({"norm.weight", "output_norm.weight"});
}

}  // namespace

std::string gguf_architecture(const nn::GPTConfig& c) {
  if (!c.is_llama()) return "gpt2";
  if (c.qk_norm) return "qwen3";
  return c.with_qkv_bias() ? "qwen2" : "llama";
}

std::vector<GgufName> gguf_names(const nn::GPTConfig& config, const std::string& architecture) {
  std::vector<GgufName> names;
  if (architecture == "gpt2") {
    add_gpt2(names, config);
  } else {
    add_llama(names, config, architecture == "llama");
  }
  if (!config.tied) names.push_back({"lm_head.weight", kHeadTable});
  return names;
}

std::vector<float> rope_divisors(const nn::GPTConfig& c) {
  const auto size = static_cast<double>(c.channels_per_head());
  const auto positions = static_cast<double>(c.rope_original_positions);
  std::vector<float> divisors;
  for (std::int64_t i = 0; i < c.channels_per_head() / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(c.rope_base, 2 * static_cast<double>(i) / size);
    const double smooth = (positions / wavelength - c.rope_low_freq_factor) /
                          (c.rope_high_freq_factor - c.rope_low_freq_factor);
    const double share = std::min(1.0, std::max(0.0, smooth));
    divisors.push_back(static_cast<float>(1 / ((1 - share) / c.rope_factor + share)));
  }
  return divisors;
}

}  // namespace tapegrad::run
