#include <memory>

#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/families/internal/gpt2_weights.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

std::vector<FamilyKey> hf_keys() {
  return {{"vocab_size", "vocab_size"},
          {"tie_word_embeddings", "tied"},
          {"n_positions", "block_size"},
          {"n_ctx", "block_size"},  // for llama.cpp's converter
          {"n_embd", "n_embd"},
          {"n_layer", "n_layer"},
          {"n_head", "n_head"},
          {.key = "n_inner", .option = "n_inner", .or_null = true},
          {.key = "activation_function",
           .option = "activation",
           .words = {{"gelu_new", "gelu"},
                     {"gelu_pytorch_tanh", "gelu"},
                     {"gelu", "gelu-erf"},
                     {"relu", "relu"},
                     {"relu2", "relu2"}}},
          {"layer_norm_epsilon", "norm_eps"},
          {.key = "scale_attn_weights", .only = true},
          {.key = "scale_attn_by_inverse_layer_idx", .only = false},
          {.key = "add_cross_attention", .only = false, .direction = Direction::in},
          {.key = "embd_pdrop", .option = "dropout", .direction = Direction::out},
          {.key = "attn_pdrop", .option = "dropout", .direction = Direction::out},
          {.key = "resid_pdrop", .option = "dropout", .direction = Direction::out}};
}

std::vector<FamilyKey> gguf_keys() {
  return {{.key = "context_length", .option = "block_size", .needed = true},
          {.key = "embedding_length", .option = "n_embd", .needed = true},
          {.key = "block_count", .option = "n_layer", .needed = true},
          {.key = "feed_forward_length", .option = "n_inner", .needed = true},
          {.key = "attention.head_count", .option = "n_head", .needed = true},
          {.key = "attention.layer_norm_epsilon", .option = "norm_eps", .needed = true},
          {.key = "attention.causal", .only = true, .direction = Direction::in},
          {.key = "vocab_size", .direction = Direction::ignored}};
}

std::vector<GgufTensorName> gguf_tensors() {
  std::vector<GgufTensorName> names = {{"wte.weight", "token_embd.weight"},
                                       {"wpe.weight", "position_embd.weight"}};
  const std::pair<std::string, std::string> layers[] = {{"h.#.ln_1", "blk.#.attn_norm"},
                                                        {"h.#.attn.c_attn", "blk.#.attn_qkv"},
                                                        {"h.#.attn.c_proj", "blk.#.attn_output"},
                                                        {"h.#.ln_2", "blk.#.ffn_norm"},
                                                        {"h.#.mlp.c_fc", "blk.#.ffn_up"},
                                                        {"h.#.mlp.c_proj", "blk.#.ffn_down"},
                                                        {"ln_f", "output_norm"}};
  for (const auto& [ours, theirs] : layers) {
    for (const char* kind : {".weight", ".bias"}) names.push_back({ours + kind, theirs + kind});
  }
  return names;
}

std::vector<TensorToMake> tensors_of(const nn::Params& params, const nn::DecoderConfig& config) {
  const auto weights = std::make_shared<const GPT2Weights>(params, config);
  std::vector<TensorToMake> tensors;
  for (const auto& [name, shape] : weights->entries()) {
    tensors.push_back({name, shape, [weights, name = name] { return (*weights)(name); }});
  }
  return tensors;
}

}  // namespace

// Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
Family gpt2_family() {
  return {
      .name = "gpt2",
      .model = {},
      .hf = {.model_class = "GPT2LMHeadModel",
             .base_class = "GPT2Model",
             .keys = hf_keys(),
             .prefix = "transformer.",
             .embedding = "wte.weight",
             .transposed = {".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight",
                            ".mlp.c_proj.weight"},
             .left_out = {".attn.bias", ".attn.masked_bias"}},  // the causal mask, in old files
      .gguf = {.architecture = "gpt2",
               .keys = gguf_keys(),
               .tensors = gguf_tensors(),
               .reasons = {{"activation", "llama.cpp computes GELU by tanh for all of GPT-2's"}}},
      .inner_by_default = true,
      .same_tensors = {"bias", "qkv_bias", "separate_qkv"},
      .tensors = tensors_of,
      .pre_tokenizers = {{"gpt-2", "GPT-2", "ByteLevel+regex"}}};
}

}  // namespace tapegrad::run
