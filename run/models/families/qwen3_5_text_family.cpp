#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Config = nn::DecoderConfig;

// Qwen2's, but that marks belong to the letters before them.
constexpr std::string_view kSteps =
    R"(Split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)";

// llama.cpp has the heads of values in turns, the first ones of all heads of keys before the second
// ones, where ours have those of one head of keys side by side: where channel i of all is there,
// of heads of so many channels.
std::int64_t in_turns(const Config& c, std::int64_t i, std::int64_t size) {
  const nn::DeltaSizes s = c.delta_sizes();
  const std::int64_t of_key = s.heads / s.key_heads, head = i / size;
  return (head % of_key * s.key_heads + head / of_key) * size + i % size;
}
std::int64_t values(const Config& c) { return c.delta_sizes().heads * c.delta_sizes().value_size; }
std::int64_t place_of_value(const Config& c, std::int64_t i) {
  return in_turns(c, i, c.delta_sizes().value_size);
}
std::int64_t heads(const Config& c) { return c.delta_sizes().heads; }
std::int64_t place_of_head(const Config& c, std::int64_t i) { return in_turns(c, i, 1); }
// Of q, k and v side by side, v alone.
std::int64_t queries_and_keys(const Config& c) {
  return 2 * c.delta_sizes().key_heads * c.delta_sizes().key_size;
}
std::int64_t mixed(const Config& c) { return queries_and_keys(c) + values(c); }
std::int64_t place_of_mixed(const Config& c, std::int64_t i) {
  const std::int64_t first = queries_and_keys(c);
  return i < first ? i : first + place_of_value(c, i - first);
}

void move_heads(GgufTensorName& name) {
  const auto is = [&](std::string_view end) { return name.ours.ends_with(end); };
  if (is("in_proj_qkv.weight") || is("conv1d.weight")) {
    name.count = mixed, name.place = place_of_mixed;
  } else if (is("in_proj_z.weight") || is("linear_attn.out_proj.weight")) {
    name.count = values, name.place = place_of_value;
    if (is("out_proj.weight")) {
      name.head_of_columns = [](const Config& c) { return c.delta_sizes().value_size; };
    }
  } else if (is("in_proj_b.weight") || is("in_proj_a.weight") || is("dt_bias") || is("A_log")) {
    name.count = heads, name.place = place_of_head;
  }
}

void take_gguf(GgufFamily& f) {
  take_gated_delta_gguf(f);
  f.architecture = "qwen35";
  // Of text, all parts of a position are one number: the format sees that no part is left out.
  f.keys.push_back({.key = "rope.dimension_sections", .direction = FamilyKey::Direction::ignored});
  f.keys.push_back({.key = "nextn_predict_layers",
                    .only = std::int64_t{0},
                    .direction = FamilyKey::Direction::in});
  add_name(f, {"layers.#.linear_attn.in_proj_b.weight", "blk.#.ssm_beta.weight"});
  add_name(f, {"layers.#.linear_attn.in_proj_a.weight", "blk.#.ssm_alpha.weight"});
  for (GgufTensorName& name : f.tensors) move_heads(name);
}

}  // namespace

// The text model of Qwen 3.5's dense models: gated delta nets in three of four blocks, and gated
// attention (Qwen team, "Qwen3.5", 2026).
Family qwen3_5_text_family() {
  Family f = qwen3_family();
  f.name = "qwen3_5_text";
  take_gated_delta_nets(f);
  take_gguf(f.gguf);
  f.hf.model_class = "Qwen3_5ForCausalLM";
  f.hf.base_class = "Qwen3_5TextModel";
  f.hf.wrapper = "qwen3_5";
  f.hf.wrapper_class = "Qwen3_5ForConditionalGeneration";
  f.hf.wrapper_prefix = "model.language_model.";
  f.hf.parts_left_out.push_back("model.visual.");
  f.hf.set_absent({{"vocab_size", 248320},
                   {"hidden_size", 4096},
                   {"intermediate_size", 12288},
                   {"num_key_value_heads", 4},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 16}});
  f.hf.own_pre_tokenizer = f.hf.own_pre_tokenizer_only = {};  // the files' own
  f.pre_tokenizers = {{.name = "qwen35", .title = "Qwen 3.5", .steps = kSteps, .nfc = true}};
  return f;
}

}  // namespace tapegrad::run
