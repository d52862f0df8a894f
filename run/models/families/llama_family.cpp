#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;
using Exchanged = GgufTensorName::Exchanged;

std::vector<FamilyKey> hf_keys() {
  return {{"vocab_size", "vocab_size"},
          {"tie_word_embeddings", "tied"},
          {"hidden_size", "n_embd"},
          {"intermediate_size", "n_inner"},
          {"num_hidden_layers", "n_layer"},
          {"num_attention_heads", "n_head"},
          {"num_key_value_heads", "n_kv_head"},
          {"head_dim", "head_size"},
          {"max_position_embeddings", "block_size"},
          {.key = "hidden_act", .only = std::string("silu")},
          {"rms_norm_eps", "norm_eps"},
          {.key = "attention_dropout", .option = "dropout", .direction = Direction::out},
          {"rope_parameters", kRotation},
          {"attention_bias", "bias"},  // of all four projections
          {"mlp_bias", "mlp_bias"},
          {.key = "rope_interleaved", .only = false, .direction = Direction::in},
          {.key = "partial_rotary_factor", .only = 1.0, .direction = Direction::in}};
}

constexpr std::string_view kLlama3Steps =
    R"(Split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)";

std::vector<FamilyKey> gguf_keys() {
  return {{.key = "context_length", .option = "block_size", .needed = true},
          {.key = "embedding_length", .option = "n_embd", .needed = true},
          {.key = "block_count", .option = "n_layer", .needed = true},
          {.key = "feed_forward_length", .option = "n_inner", .needed = true},
          {.key = "attention.head_count", .option = "n_head", .needed = true},
          {"attention.head_count_kv", "n_kv_head"},
          {"attention.key_length", "head_size"},
          {.key = "attention.value_length", .option = "head_size", .direction = Direction::same},
          {.key = "rope.dimension_count", .option = "head_size", .direction = Direction::same},
          {.key = "attention.layer_norm_rms_epsilon", .option = "norm_eps", .needed = true},
          {"rope.freq_base", "rope_base"},
          {.key = "rope.scaling.type", .direction = Direction::ignored},  // the format reads these
          {.key = "rope.scaling.factor", .direction = Direction::ignored},
          {.key = "rope.scaling.original_context_length", .direction = Direction::ignored},
          {.key = "rope.scaling.attn_factor", .direction = Direction::ignored},
          {.key = "rope.scaling.finetuned", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_log_multiplier", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_ext_factor", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_attn_factor", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_beta_fast", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_beta_slow", .direction = Direction::ignored},
          {.key = "rope.scaling.yarn_truncate", .direction = Direction::ignored},
          {.key = "attention.sliding_window", .option = "window", .direction = Direction::in},
          {.key = "expert_count", .only = std::int64_t{0}, .direction = Direction::in},
          {.key = "expert_used_count", .only = std::int64_t{0}, .direction = Direction::in},
          {.key = "attention.causal", .only = true, .direction = Direction::in},
          // No key: the tensors tell these.
          {.key = "", .option = "bias", .direction = Direction::ignored},
          {.key = "", .option = "mlp_bias", .direction = Direction::ignored},
          {.key = "vocab_size", .option = "vocab_size", .direction = Direction::out}};
}

std::vector<GgufTensorName> gguf_tensors() {
  const std::string_view bias = "qkv_bias", norm = "qk_norm", mlp = "mlp_bias";
  return {{"embed_tokens.weight", "token_embd.weight"},
          {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
          // Before those of Q, K and V, which follow it where nothing else is said.
          {"layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", Exchanged::no, "bias", true},
          {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Exchanged::queries},
          // llama.cpp takes biases of Q, K and V with any of Llama's kin.
          {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Exchanged::queries, bias, true},
          {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Exchanged::keys},
          {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Exchanged::keys, bias},
          {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
          {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", Exchanged::no, bias},
          {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", Exchanged::no, norm},
          {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", Exchanged::no, norm},
          {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
          {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
          {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
          {"layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", Exchanged::no, mlp, true},
          {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
          {"layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", Exchanged::no, mlp},
          {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
          {"layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", Exchanged::no, mlp},
          {"norm.weight", "output_norm.weight"}};
}

std::vector<TensorToMake> tensors_of(const nn::Params& params, const nn::DecoderConfig&) {
  std::vector<TensorToMake> tensors;
  for (const auto& [name, t] : params.tensors()) {
    tensors.push_back({name, t.shape(), [t = t] { return t; }});
  }
  return tensors;
}

}  // namespace

// Llama 1 to 3 without experts, and what has their shape, as SmolLM.
Family llama_family() {
  nn::DecoderConfig model;
  model.arch = nn::Architecture::llama;
  model.block_size = 2048;
  model.norm_eps = 1e-6;
  model.tied = false;
  model.mlp_bias = false;
  Family f = {
      .name = "llama",
      .model = model,
      .hf = {.model_class = "LlamaForCausalLM",
             .base_class = "LlamaModel",
             .keys = hf_keys(),
             .prefix = "model.",
             .embedding = "embed_tokens.weight",
             .left_out = {"inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached"}},
      .gguf = {.architecture = "llama",
               .keys = gguf_keys(),
               .tensors = gguf_tensors(),
               .reasons = {{"window", "llama.cpp sees all positions with this architecture"}},
               .may_scale_rotation = true},
      .tensors = tensors_of,
      .pre_tokenizers = {{"smollm", "SmolLM", "Digits ByteLevel+regex"},
                         {.name = "llama-bpe",
                          .title = "Llama 3",
                          .steps = kLlama3Steps,
                          .ignores_merges = true,
                          .begins = true},
                         // The same steps as in the rows above, under other names.
                         {"refact", "Granite 3", "Digits ByteLevel+regex"},
                         {"dbrx", "OLMo 2", kLlama3Steps},
                         {"smaug-bpe", "SmolLM3", kLlama3Steps},
                         {.name = "lfm2",
                          .title = "LFM2",
                          .steps = kLlama3Steps,
                          .ignores_merges = true,
                          .begins = true},
                         {.name = "falcon-h1",
                          .title = "Falcon-H1",
                          .steps = kLlama3Steps,
                          .ignores_merges = true,
                          .begins = true}}};
  f.hf.set_absent({{"vocab_size", 32000},
                   {"hidden_size", 4096},
                   {"intermediate_size", 11008},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32}});
  return f;
}

}  // namespace tapegrad::run
