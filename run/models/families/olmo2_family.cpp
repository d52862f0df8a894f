#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

// llama.cpp gives three of four blocks the window of a file, if it has one, and scales positions in
// the others alone.
void window_of_most_blocks(nn::DecoderConfig& c) {
  if (c.window == 0) return;
  c.window_pattern = "SSSL";
  c.rope_window_base = c.rope_base;
}

// Files of llama.cpp's converter have a list of all blocks.
Value known_pattern(const Value& theirs) {
  const auto* const blocks = std::get_if<std::vector<std::string>>(&theirs);
  check(blocks != nullptr, "it must be a list of true and false");
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    check((*blocks)[i] == (i % 4 == 3 ? "0" : "1"),
          "block {} is {}: llama.cpp computes with a window in all but each fourth", i,
          (*blocks)[i]);
  }
  return std::string("SSSL");
}

}  // namespace

// Llama with norms behind each sublayer alone, and norms of queries and keys over all heads (OLMo
// Team, "2 OLMo 2 Furious", 2024, section 2.1).
Family olmo2_family() {
  Family f = llama_family();
  f.name = "olmo2";
  f.model.norm_place = nn::NormPlace::after;
  f.model.qk_norm = f.model.qk_norm_whole = true;
  f.model.norm_eps = 1e-5;
  f.hf.model_class = "Olmo2ForCausalLM";
  f.hf.base_class = "Olmo2Model";
  f.hf.set_absent({{"vocab_size", 50304}});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.never("mlp_bias");
  f.gguf.architecture = "olmo2";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  f.gguf.takes_either_head = false;
  // llama.cpp's matrices of heads are as wide as the residual stream.
  for (FamilyKey& key : f.gguf.keys) {
    if (key.option == "head_size") key.direction = FamilyKey::Direction::in;
  }
  f.gguf.follow = window_of_most_blocks;
  f.gguf.scales_windows = false;
  std::erase_if(f.gguf.keys,
                [](const FamilyKey& key) { return key.key == "attention.sliding_window"; });
  f.gguf.keys.push_back({"attention.sliding_window", "window"});
  f.gguf.keys.push_back({.key = "attention.sliding_window_pattern",
                         .option = "window_pattern",
                         .direction = FamilyKey::Direction::in,
                         .ours = known_pattern});
  f.gguf.reasons = {{"window_pattern", "llama.cpp gives all but each fourth block the window"}};
  f.gguf.reasons.push_back({"tied", "llama.cpp wants a head of its own: --no-tied"});
  std::erase_if(f.gguf.tensors, [](const GgufTensorName& name) {
    return name.ours.ends_with(".bias") || name.ours.ends_with("input_layernorm.weight");
  });
  for (GgufTensorName& name : f.gguf.tensors) {
    name.exchanged = GgufTensorName::Exchanged::no;
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.post_attention_norm.weight";
  }
  f.gguf.tensors.push_back(
      {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"});
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
