#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

void take_hf(HfFamily& f) {
  f.model_class = "Lfm2MoeForCausalLM";
  f.base_class = "Lfm2MoeModel";
  // The width of dense blocks is the file's own number.
  std::erase_if(f.keys, [](const FamilyKey& key) {
    return key.key == "block_ff_dim" || key.option == kAdjustedInner;
  });
  f.take_experts("num_experts");
  // The class adds no loss.
  std::erase_if(f.keys, [](const FamilyKey& key) { return key.option == "moe_balance_loss"; });
  const std::vector<FamilyKey> own = {{"num_dense_layers", kLeadingDense},
                                      {"moe_intermediate_size", "moe_inner"},
                                      {"use_expert_bias", "moe_selection_bias"},
                                      {"norm_topk_prob", "moe_normalize"},
                                      {"routed_scaling_factor", "moe_scale"}};
  f.keys.insert(f.keys.end(), own.begin(), own.end());
  f.set_absent({{"hidden_size", 2048}, {"intermediate_size", 7168}});
  f.names.insert(
      f.names.end(),
      {{"layers.#.mlp.gate.weight", "layers.#.feed_forward.gate.weight"},
       {"layers.#.mlp.expert_bias", "layers.#.feed_forward.expert_bias"},
       {"layers.#.mlp.experts.gate_proj.weight", "layers.#.feed_forward.experts.@.w1.weight"},
       {"layers.#.mlp.experts.down_proj.weight", "layers.#.feed_forward.experts.@.w2.weight"},
       {"layers.#.mlp.experts.up_proj.weight", "layers.#.feed_forward.experts.@.w3.weight"}});
  f.exact = {"expert_bias"};
}

void take_gguf(GgufFamily& f) {
  f.architecture = "lfm2moe";
  std::vector<GgufTensorName> dense;
  for (const GgufTensorName& name : f.tensors) {
    if (name.ours.find(".mlp.") != std::string::npos) dense.push_back(name);
  }
  f.take_experts();
  f.tensors.insert(f.tensors.end(), dense.begin(), dense.end());
  f.tensors.push_back({"layers.#.mlp.expert_bias", "blk.#.exp_probs_b.bias"});
  f.keys.push_back({.key = "expert_feed_forward_length", .option = "moe_inner", .needed = true});
  f.keys.push_back({.key = "leading_dense_block_count",
                    .option = kLeadingDense,
                    .direction = Direction::ignored});  // the format reads and writes it
  f.keys.push_back({.key = "expert_gating_func", .only = std::int64_t{2}});  // sigmoid
  const std::pair<std::string_view, std::string_view> reasons[] = {
      {"moe_selection_bias", "llama.cpp wants the tensor"},
      {"moe_normalize", "llama.cpp divides scores by their sum"},
      {"moe_scale", "llama.cpp reads no key of it"}};
  f.reasons.insert(f.reasons.end(), std::begin(reasons), std::end(reasons));
}

}  // namespace

// LFM2 with experts in all blocks but the first ones, which a bias balances (Liquid AI, "LFM2
// Technical Report", 2025, section 2).
Family lfm2_moe_family() {
  Family f = lfm2_family();
  f.name = "lfm2_moe";
  f.model.moe = {.experts = 32,
                 .top_k = 4,
                 .inner = 1792,
                 .scores = nn::RouterScores::sigmoid,
                 .selection_bias = true,
                 .balance_loss = 0};
  take_hf(f.hf);
  take_gguf(f.gguf);
  return f;
}

}  // namespace tapegrad::run
