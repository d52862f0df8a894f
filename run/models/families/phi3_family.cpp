#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

}  // namespace

// Llama with one projection for Q, K and V, and one for the gate and what it multiplies; in later
// models not all channels of a head turn, or positions are scaled by LongRoPE (Microsoft, "Phi-3
// Technical Report", 2024, section 2; "Phi-4-Mini Technical Report", 2025, section 2).
Family phi3_family() {
  Family f = llama_family();
  f.name = "phi3";
  f.model.separate_qkv = false, f.model.joined_gate = true;
  f.model.block_size = 4096;
  f.model.norm_eps = 1e-5;
  f.hf.model_class = "Phi3ForCausalLM";
  f.hf.base_class = "Phi3Model";
  f.hf.set_absent({{"vocab_size", 32064}, {"hidden_size", 3072}, {"intermediate_size", 8192}});
  f.hf.turned_share = 1;
  f.hf.scalings = HfFamily::Scalings::longrope;
  f.hf.original_positions = 4096;
  f.hf.never("attention_bias");
  f.hf.never("mlp_bias");
  std::erase_if(f.hf.keys, [](auto& key) { return key.key == "partial_rotary_factor"; });
  for (const FamilyKey& key : std::initializer_list<FamilyKey>{
           {.key = "sliding_window",
            .option = "window",
            .null = std::int64_t{0},
            .ours = window_above_zero},
           {.key = "embd_pdrop", .option = "dropout", .direction = Direction::out},
           {.key = "resid_pdrop", .option = "dropout", .direction = Direction::out},
           // llama.cpp's converter asks for it.
           {.key = "original_max_position_embeddings",
           .option = "block_size",
           .direction = Direction::out},
           // transformers' own number may be beyond the tokens.
           {.key = "pad_token_id", .direction = Direction::out}}) {
    f.hf.keys.push_back(key);
  }
  f.gguf.architecture = "phi3";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  for (FamilyKey& key : f.gguf.keys) {
    // llama.cpp's matrices of heads are as wide as the residual stream.
    if (key.option == "head_size") key.direction = Direction::in;
    if (key.key == "rope.dimension_count") key = {key.key, "rope_channels"};
  }
  // Older versions of llama.cpp need it.
  f.gguf.keys.push_back(
      {.key = "attention.sliding_window", .only = std::int64_t{0}, .direction = Direction::out});
  f.gguf.keys.push_back({.key = "", .option = kLongRope, .direction = Direction::ignored});
  std::erase_if(f.gguf.tensors, [](const GgufTensorName& name) {
    return name.ours.find("self_attn.") != std::string::npos &&
           !name.ours.ends_with("o_proj.weight");
  });
  std::erase_if(f.gguf.tensors,
                [](const GgufTensorName& name) { return name.ours.ends_with("gate_proj.weight"); });
  for (GgufTensorName& name : f.gguf.tensors) {
    if (name.theirs == "blk.#.ffn_up.weight") name.ours = "layers.#.mlp.gate_up_proj.weight";
  }
  f.gguf.tensors.push_back({"layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight"});
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
