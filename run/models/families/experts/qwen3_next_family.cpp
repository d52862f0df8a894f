#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

// in_proj_qkvz has, for each head of keys, its rows of q and of k, and those of v and of the gate z
// of all heads of values that share it; in_proj_ba has those of b and of a likewise.
struct Layout {
  explicit Layout(const nn::DecoderConfig& c)
      : s(c.delta_sizes()), group(s.heads / s.key_heads), values(group * s.value_size) {}
  nn::DeltaSizes s;
  std::int64_t group, values;  // heads, and channels, of values for one of keys

  std::int64_t keys() const { return s.key_heads * s.key_size; }
  std::int64_t all_values() const { return s.heads * s.value_size; }
  // Row i of parts of `size` rows for each head of keys, which begin at `at` of `stride` rows.
  static std::int64_t row(std::int64_t i, std::int64_t size, std::int64_t stride, std::int64_t at) {
    return i / size * stride + at + i % size;
  }
  std::int64_t stride() const { return 2 * (s.key_size + values); }
  std::int64_t qkv(std::int64_t i) const {
    if (i < keys()) return row(i, s.key_size, stride(), 0);
    if (i < 2 * keys()) return row(i - keys(), s.key_size, stride(), s.key_size);
    return row(i - 2 * keys(), values, stride(), 2 * s.key_size);
  }
  std::int64_t z(std::int64_t i) const { return row(i, values, stride(), 2 * s.key_size + values); }
};
using Config = nn::DecoderConfig;

std::int64_t heads(const Config& c) { return c.delta_sizes().heads; }
std::int64_t row_of_b(const Config& c, std::int64_t i) {
  const std::int64_t group = Layout(c).group;
  return Layout::row(i, group, 2 * group, 0);
}
std::int64_t row_of_a(const Config& c, std::int64_t i) {
  const std::int64_t group = Layout(c).group;
  return Layout::row(i, group, 2 * group, group);
}

std::vector<HfRows> rows_of_projections() {
  return {{"layers.#.linear_attn.in_proj_qkv.weight", "layers.#.linear_attn.in_proj_qkvz.weight",
           [](const Config& c) { return 2 * Layout(c).keys() + Layout(c).all_values(); },
           [](const Config& c, std::int64_t i) { return Layout(c).qkv(i); }},
          {"layers.#.linear_attn.in_proj_z.weight", "layers.#.linear_attn.in_proj_qkvz.weight",
           [](const Config& c) { return Layout(c).all_values(); },
           [](const Config& c, std::int64_t i) { return Layout(c).z(i); }},
          {"layers.#.linear_attn.in_proj_b.weight", "layers.#.linear_attn.in_proj_ba.weight", heads,
           row_of_b},
          {"layers.#.linear_attn.in_proj_a.weight", "layers.#.linear_attn.in_proj_ba.weight", heads,
           row_of_a}};
}

// The convolution sees q, k and v as ours does; b and a stand as in Hugging Face's files.
void take_gguf(GgufFamily& f) {
  take_gated_delta_gguf(f);
  f.architecture = "qwen3next";
  f.keys.push_back({"expert_shared_feed_forward_length", "moe_shared_inner"});
  for (const auto& [part, place] : {std::pair("b", &row_of_b), std::pair("a", &row_of_a)}) {
    add_name(f, {.ours = fmt::format("layers.#.linear_attn.in_proj_{}.weight", part),
                 .theirs = "blk.#.ssm_ba.weight",
                 .count = heads,
                 .place = place});
  }
  const std::string mlp = "layers.#.mlp.shared_expert", ffn = "blk.#.ffn_";
  add_name(f, {.ours = mlp + "_gate.weight",
               .theirs = ffn + "gate_inp_shexp.weight",
               .form = GgufTensorName::Form::row});
  for (const std::string layer : {"gate", "up", "down"}) {
    add_name(f, {mlp + "." + layer + "_proj.weight", ffn + layer + "_shexp.weight"});
  }
}

}  // namespace

// Gated delta nets in three of four blocks, gated attention, and many experts beside one that all
// tokens share (Qwen team, "Qwen3-Next", 2025).
Family qwen3_next_family() {
  Family f = qwen3_moe_family();
  f.name = "qwen3_next";
  take_gated_delta_nets(f);
  take_gguf(f.gguf);
  f.model.moe = {.experts = 512,
                 .top_k = 10,
                 .inner = 512,
                 .shared_inner = 512,
                 .shared_gate = true,
                 .balance_loss = 0.001};
  f.hf.model_class = "Qwen3NextForCausalLM";
  f.hf.base_class = "Qwen3NextModel";
  f.hf.key("norm_topk_prob").absent = {};
  f.hf.keys.push_back({"shared_expert_intermediate_size", "moe_shared_inner"});
  f.hf.set_absent({{"intermediate_size", 5632},
                   {"num_hidden_layers", 48},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 2}});
  f.hf.rows = rows_of_projections();
  return f;
}

}  // namespace tapegrad::run
