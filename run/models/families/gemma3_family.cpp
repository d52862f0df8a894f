#include <cmath>

#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

// Files have s where scores are multiplied by 1/√s. transformers takes whole numbers alone.
Value scale_of(const Value& theirs) {
  const double s = number_of(theirs);
  check(s > 0, "{} must be above 0", s);
  return 1 / std::sqrt(s);
}
Value scalar_of(const Value& scale) {
  const double s = std::pow(number_of(scale), -2), whole = std::round(s);
  check(whole >= 1 && whole < 1e9 && std::abs(s - whole) <= 1e-9 * s,
        "attention_scale {} is not 1 / sqrt(query_pre_attn_scalar) of a whole number",
        number_of(scale));
  return static_cast<std::int64_t>(whole);
}

// GGUF has every how many-th block sees all; 0: none.
Value pattern_of(const Value& theirs) {
  const std::int64_t size = whole_number_of(theirs);
  check(size >= 0 && size <= 4096, "{} must be 0 to 4096", size);
  return size == 0 ? std::string() : pattern_with_last('S', 'L', size);
}
Value pattern_size(const Value& ours) {
  const auto pattern = std::get<std::string>(ours);
  const auto size = std::ssize(pattern);
  check(pattern.empty() || pattern == pattern_with_last('S', 'L', size),
        "GGUF cannot express window_pattern {}, only rows of S and one L at the end", pattern);
  return size;
}

std::vector<GgufTensorName> gguf_tensors() {
  std::vector<GgufTensorName> names = {{"embed_tokens.weight", "token_embd.weight"}};
  const auto norm = [&](const std::string& ours, const std::string& theirs,
                        std::string_view with = {}) {
    GgufTensorName name{ours + ".weight", theirs + ".weight"};
    name.with = with;
    name.plus = 1;
    names.push_back(name);
  };
  const auto matrix = [&](const std::string& ours, const std::string& theirs) {
    names.push_back({"layers.#." + ours + "_proj.weight", "blk.#." + theirs + ".weight"});
  };
  norm("layers.#.input_layernorm", "blk.#.attn_norm");
  matrix("self_attn.q", "attn_q");
  matrix("self_attn.k", "attn_k");
  matrix("self_attn.v", "attn_v");
  matrix("self_attn.o", "attn_output");
  norm("layers.#.self_attn.q_norm", "blk.#.attn_q_norm", "qk_norm");
  norm("layers.#.self_attn.k_norm", "blk.#.attn_k_norm", "qk_norm");
  norm("layers.#.post_attention_layernorm", "blk.#.post_attention_norm");
  norm("layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm");
  matrix("mlp.gate", "ffn_gate");
  matrix("mlp.up", "ffn_up");
  matrix("mlp.down", "ffn_down");
  norm("layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm");
  norm("norm", "output_norm");
  return names;
}

}  // namespace

// Gemma with norms behind each sublayer, too, norms of queries and keys, and five blocks with a
// window to each that sees all, by another base (Gemma Team, "Gemma 3 Technical Report", 2025,
// section 2.1).
Family gemma3_family() {
  Family f = gemma_family();
  f.name = "gemma3_text";
  f.model.norm_place = nn::NormPlace::both;
  f.model.qk_norm = true;
  f.model.block_size = 131072;
  f.model.rope_base = 1e6, f.model.rope_window_base = 1e4;
  f.model.window = 4096, f.model.window_pattern = "SSSSSL";
  f.hf.model_class = "Gemma3ForCausalLM";
  f.hf.base_class = "Gemma3TextModel";
  f.hf.window = HfFamily::Window::by_layer;
  f.hf.key("hidden_act") = {.key = "hidden_activation", .only = std::string("gelu_pytorch_tanh")};
  for (const FamilyKey& key : std::initializer_list<FamilyKey>{
           {.key = "query_pre_attn_scalar",
            .option = "attention_scale",
            .ours = scale_of,
            .theirs = scalar_of},
           {"sliding_window", kWindows},
           {.key = "attn_logit_softcapping", .only = 0.0, .null = 0.0},
           {.key = "final_logit_softcapping", .option = "logit_softcap", .null = 0.0}}) {
    f.hf.keys.push_back(key);
  }
  f.hf.set_absent({{"vocab_size", 262208},
                   {"hidden_size", 2304},
                   {"intermediate_size", 9216},
                   {"num_hidden_layers", 26},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 4},
                   {"query_pre_attn_scalar", 256}});
  f.gguf = {.architecture = "gemma3",
            .keys = f.gguf.keys,
            .tensors = gguf_tensors(),
            .reasons = {{"attention_scale", "llama.cpp decides it by the model's sizes"}},
            .takes_either_head = false,
            .follow = scale_by_width<62>};
  std::erase_if(f.gguf.keys,
                [](const FamilyKey& key) { return key.key == "attention.sliding_window"; });
  for (const FamilyKey& key : std::initializer_list<FamilyKey>{
           {.key = "attention.sliding_window", .option = "window", .needed = true},
           {.key = "attention.sliding_window_pattern",
           .option = "window_pattern",
           .ours = pattern_of,
           .theirs = pattern_size},
           {"rope.freq_base_swa", "rope_window_base"},
           {"final_logit_softcapping", "logit_softcap"}}) {
    f.gguf.keys.push_back(key);
  }
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
