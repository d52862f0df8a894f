#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// How a router makes scores of its logits: shares of 1 among the experts of a token, or each by
// itself (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.1.2).
enum class RouterScores { softmax, sigmoid };
inline constexpr std::array<std::string_view, 2> kRouterScoresNames = {"softmax", "sigmoid"};
inline std::span<const std::string_view> names_of(RouterScores) { return kRouterScoresNames; }

// The options of mixtures of experts, a part of DecoderConfig's.
struct ExpertsConfig {
  std::int64_t experts = 0;  // in each block that has some; 0: all feed-forwards are dense
  std::int64_t top_k = 2;    // experts of a token
  std::optional<std::int64_t> inner = {};  // width of an expert [that of a dense feed-forward]
  // Which blocks have experts, as a row of letters that is repeated over the blocks: E has them, D
  // (dense) has not. Empty: all have them.
  std::string pattern = {};
  RouterScores scores = RouterScores::softmax;
  bool router_bias = false;  // of the logits
  // Each expert has a number that is added to its scores where experts are chosen, and nowhere
  // else (section 2.1.2 there; Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for
  // Mixture-of-Experts", 2024, section 3).
  bool selection_bias = false;
  bool normalize = true;          // scores of a token's experts are divided by their sum
  double scale = 1;               // and multiplied by this
  std::int64_t shared_inner = 0;  // width of the feed-forward that all tokens have; 0: none
  bool shared_gate = false;       // its output is multiplied by the sigmoid of a product with x
  double balance_loss = 0.01, z_loss = 0;  // factors: see RouterLosses
  double bias_rate = 0.001;                // see Experts::balance

  bool exist() const { return experts > 0; }
  bool operator==(const ExpertsConfig&) const = default;

  // The rows of DecoderConfig's table: see option_schema.h.
  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    constexpr double most = 1 << 16, wide = 1 << 22;
    t("moe_experts", c.experts,
      "a mixture of N experts in place of the feed-forward layer; 0: one for all tokens",
      {.least = 0, .most = most, .newer = true});
    t("moe_top_k", c.top_k, "experts that each token goes to, those of the highest scores",
      {.least = 1, .most = most, .newer = true});
    t("moe_inner", c.inner, "channels inside an expert [--n-inner]",
      {.least = 1, .most = wide, .newer = true});
    t("moe_pattern", c.pattern,
      "which blocks have experts, repeated over the blocks: DE leaves every other one dense [all]",
      {.newer = true});
    t("moe_scores", c.scores,
      "scores of experts: softmax, whose sum over all is 1, or sigmoid, each by itself",
      {.newer = true});
    t("moe_router_bias", c.router_bias, "a bias in the routers' linear layers, as in gpt-oss",
      {.newer = true});
    t("moe_selection_bias", c.selection_bias,
      "a number for each expert that is added to its scores where experts are chosen, as LFM2's",
      {.newer = true});
    t("moe_normalize", c.normalize, "divide the scores of a token's experts by their sum",
      {.newer = true});
    t("moe_scale", c.scale, "multiply the outputs of experts by X",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("moe_shared_inner", c.shared_inner,
      "channels inside a feed-forward layer beside the experts that all tokens go to; 0: none",
      {.least = 0, .most = wide, .newer = true});
    t("moe_shared_gate", c.shared_gate,
      "multiply its output by a sigmoid that is learned, as Qwen2-MoE", {.newer = true});
    t("moe_balance_loss", c.balance_loss,
      "add X times the loss of load balance, which is lowest where all experts get as many tokens",
      {.least = 0, .most = 1e6, .lasting = Lasting::run, .newer = true});
    t("moe_bias_rate", c.bias_rate,
      "after each step, add X to the bias of experts that got fewer tokens than the mean, and "
      "subtract it where they got more; 0: biases stay",
      {.least = 0, .most = 1e6, .lasting = Lasting::run, .newer = true});
    t("moe_z_loss", c.z_loss, "add X times the mean square of the routers' log-sum-exp",
      {.least = 0, .most = 1e6, .lasting = Lasting::run, .newer = true});
  }
};

// What the routers of a forward pass did, for the losses that keep all experts in use; and these
// losses, means over blocks and tokens.
struct RouterLosses {
  // Of each block with experts (2E + 2): the share of tokens that each expert gets, whose sum is
  // top_k, which has no gradient; the mean of each expert's score as a share of 1; the mean square
  // of log Σe^logit; the number of tokens.
  std::vector<Tensor> blocks;
  Tensor balance, z;  // scalars; undefined without experts
  Tensor added;       // their weighted sum; undefined if there is nothing to add

  // E·Σ share·score, of the means over blocks (Fedus et al., "Switch Transformers", 2021, section
  // 2.2; transformers' load_balancing_loss_func), and the mean of the last numbers (Zoph et al.,
  // "ST-MoE", 2022, section 2.2). Does nothing without blocks.
  void sum_up(const ExpertsConfig& config);
  // The number of tokens that each expert of such a block got.
  std::vector<std::int64_t> tokens_of(std::size_t block) const;
  // loss + added.
  Tensor with(const Tensor& loss) const { return added.defined() ? loss + added : loss; }
};

// The names of the parts of a mixture of experts.
struct ExpertNames {
  const char *router = "router", *selection_bias = "expert_bias", *experts = "experts",
             *shared = "shared", *shared_gate = "shared_gate";
};

// Which experts each of N tokens goes to. Pairs of a token and an expert are sorted by expert, and
// those of one expert by token.
struct Routes {
  Tensor weights;  // (N, K): of the outputs of a token's experts
  Tensor tokens;   // (N·K) i32: the token of each pair
  Tensor experts;  // (N·K) i32: its expert
  Tensor ends;     // (E) i32: where the pairs of each expert end
  Tensor places;   // (N, K) i32: the pairs of each token
};

// The linear layers of one kind of all experts: pairs (N·K, in) → (N·K, out).
struct ExpertLinear {
  StackedWeight weight;  // (E, out, in)
  Tensor bias;           // (E, out) or undefined
  ExpertLinear() = default;
  ExpertLinear(const Params& p, std::int64_t experts, std::int64_t in, std::int64_t out,
               bool with_bias);
  Tensor operator()(const Tensor& x, const Routes& routes) const;
};

// A mixture of experts (Shazeer et al., "Outrageously Large Neural Networks", 2017; Jiang et al.,
// "Mixtral of Experts", 2024, section 2.1): C → C. A router scores all experts for a token, the
// token goes to the top_k of them, and their outputs are summed, multiplied by the scores. With a
// selection bias, these are the top_k of scores plus bias. Each expert is a FeedForward of the
// given config. The result for a token does not depend on other tokens, but for rounding: while a
// BatchInvariant lives, on none.
struct Experts {
  ExpertsConfig options;
  FeedForwardConfig config;
  Linear router;          // (E, C), never quantised and without an adapter; its bias may be absent
  Tensor selection_bias;  // (E), 0 at first: a buffer, saved and not trained; absent
  ExpertLinear c_gate;    // absent unless gated, and if joined
  ExpertLinear c_fc, c_proj;
  FeedForward shared;  // absent unless shared_inner
  Linear shared_gate;  // (1, C); absent
  Experts() = default;
  Experts(const Params& p, std::int64_t channels, const ExpertsConfig& options,
          const FeedForwardConfig& expert, const ExpertNames& names);
  bool exists() const { return router.weight.exists(); }
  // x (…, C). With `routers`, notes what its router did there.
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, RouterLosses* routers = nullptr) const;
  // Of logits (N, E).
  Routes routes_of(const Tensor& logits) const;
  // True if training moves the bias: there is one, it has a rate, and the router is trained.
  bool balances() const;
  // Adds the rate to the bias of each expert that got fewer of the `tokens` (E) than the mean of
  // all, and subtracts it where one got more (Wang et al., 2024, section 3). Changes the buffer,
  // which all copies of the layer share.
  void balance(std::span<const std::int64_t> tokens) const;

 private:
  Tensor of_experts(const Tensor& pairs, const Routes& routes, Rng* rng) const;
};

}  // namespace tapegrad::nn
