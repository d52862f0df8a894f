#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/internal/gpt_oss_experts.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;
using Exchanged = GgufTensorName::Exchanged;

constexpr std::string_view kO200kSteps =
    R"(Split:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)";

// transformers' positions for a file that says nothing of them.
void set_own_rotation(nn::DecoderConfig& c) {
  c.rope_scaling = nn::RopeScalingKind::yarn;
  c.rope_factor = 32, c.rope_original_positions = 4096;
  c.rope_truncate = false;
}

// llama.cpp cannot leave the window out.
Value needed(const Value& window) {
  check(number_of(window) > 0, "GGUF's gpt-oss needs a window that is shorter than the text");
  return window;
}

void take_hf(HfFamily& f) {
  f.model_class = "GptOssForCausalLM";
  f.base_class = "GptOssModel";
  f.own_rotation = set_own_rotation;
  f.window = HfFamily::Window::by_layer;
  f.quantised_by = "mxfp4";
  f.apart = gpt_oss_experts_apart;
  f.joined = gpt_oss_experts_joined;
  // There are biases in all of a block's linear layers, or none in those of attention.
  std::erase_if(f.keys, [](const FamilyKey& key) { return key.key == "mlp_bias"; });
  f.take_experts("num_local_experts");
  f.keys.push_back({"sliding_window", kWindows});
  f.keys.push_back({.key = "swiglu_limit", .only = 7.0});
  f.keys.push_back({.key = "swiglu_alpha", .only = 1.702, .direction = Direction::in});
  // transformers' own number may be beyond the tokens.
  f.keys.push_back({.key = "pad_token_id", .direction = Direction::out});
  f.set_absent({{"vocab_size", 201088},
                {"hidden_size", 2880},
                {"intermediate_size", 2880},
                {"num_hidden_layers", 36},
                {"num_attention_heads", 64},
                {"num_key_value_heads", 8},
                {"head_dim", 64}});
  f.names = {{"layers.#.mlp.gate.weight", "layers.#.mlp.router.weight"},
             {"layers.#.mlp.gate.bias", "layers.#.mlp.router.bias"}};
}

void take_gguf(GgufFamily& f) {
  f.architecture = "gpt-oss";
  f.may_scale_rotation = false;
  f.takes_either_head = false;
  f.take_experts();
  std::erase_if(f.keys, [](const FamilyKey& key) {
    return key.option == "window" || key.option == "mlp_bias" || key.option == "bias";
  });
  f.keys.push_back(
      {.key = "attention.sliding_window", .option = "window", .needed = true, .theirs = needed});
  f.keys.push_back({.key = "expert_feed_forward_length", .option = "moe_inner", .needed = true});
  f.keys.push_back({.key = "attention.sliding_window_pattern",
                    .only = std::int64_t{2},
                    .direction = Direction::in});
  for (GgufTensorName& name : f.tensors) {
    name.exchanged = Exchanged::no;
    if (name.with == "bias" || name.with == "qkv_bias") name.with = {}, name.tells = false;
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.post_attention_norm.weight";
  }
  const std::string ours = "layers.#.mlp.", theirs = "blk.#.ffn_";
  f.tensors.push_back({"layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"});
  f.tensors.push_back({ours + "gate.bias", theirs + "gate_inp.bias"});
  for (const std::string layer : {"gate", "up", "down"}) {
    f.tensors.push_back({ours + "experts." + layer + "_proj.bias", theirs + layer + "_exps.bias"});
  }
  f.reasons = {
      {"tied", "llama.cpp wants a head of its own: --no-tied"},
      {"bias", "llama.cpp wants biases in attention"},
      {"window_pattern", "llama.cpp wants a window in each second block, the first among them"}};
}

}  // namespace

// Llama with biases, a sink for each head of attention, a window in each second block, and experts
// whose gate and what it multiplies are limited (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card",
// 2025, section 2).
Family gpt_oss_family() {
  Family f = llama_family();
  f.name = "gpt_oss";
  f.model.block_size = 131072;
  f.model.norm_eps = 1e-5;
  f.model.rope_base = 150000;
  f.model.bias = f.model.mlp_bias = true;
  f.model.attention_sinks = true;
  f.model.activation = nn::Activation::clamped_swiglu;
  f.model.window = 128, f.model.window_pattern = "SL";
  f.model.moe = {.experts = 128, .top_k = 4, .router_bias = true, .balance_loss = 0.001};
  take_hf(f.hf);
  take_gguf(f.gguf);
  f.pre_tokenizers = {{"gpt-4o", "gpt-oss", kO200kSteps}};
  return f;
}

}  // namespace tapegrad::run
