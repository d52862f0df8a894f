#include "tapegrad/nn/layers/experts.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "tapegrad/autograd/ops/expert_ops.h"

namespace tapegrad::nn {
namespace {

// The width of the feed-forward beside the experts, which is one of its own otherwise.
FeedForwardConfig shared_config(FeedForwardConfig config, std::int64_t inner) {
  config.hidden = inner;
  config.dropout = 0;  // of the sum of both
  return config;
}

Tensor scores_of(const Tensor& logits, RouterScores scores) {
  return scores == RouterScores::softmax ? softmax(logits) : sigmoid(logits);
}

// Sigmoids of logits that are far below 0 may all be nearly 0. The addend is transformers'
// (LFM2-MoE), and shows in what small scores make that a bias has chosen; shares of 1 do not need
// it.
Tensor shares_of_one(const Tensor& scores, RouterScores kind) {
  return scores / (sum(scores, {-1}, true) + (kind == RouterScores::sigmoid ? 1e-6 : 1e-20));
}

// Sorts the pairs of N tokens and their experts (N, K) by expert. See Routes.
void sort_by_expert(const Tensor& chosen, std::int64_t experts, Routes& routes) {
  const std::span<const std::int32_t> expert_of = chosen.values<std::int32_t>();
  const std::int64_t K = chosen.dim(1), pairs = chosen.numel();
  check(pairs <= std::numeric_limits<std::int32_t>::max(),
        "[experts] {} tokens with {} experts each are too many", chosen.dim(0), K);
  std::vector<std::int32_t> ends(static_cast<std::size_t>(experts));
  for (const std::int32_t expert : expert_of) ++ends[static_cast<std::size_t>(expert)];
  std::int32_t count = 0;
  for (std::int32_t& end : ends) end = std::exchange(count, count + end);  // where each begins
  const auto size = static_cast<std::size_t>(pairs);
  std::vector<std::int32_t> tokens(size), sorted(size), places(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t place = ends[static_cast<std::size_t>(expert_of[i])]++;
    tokens[static_cast<std::size_t>(place)] =
        static_cast<std::int32_t>(i / static_cast<std::size_t>(K));
    sorted[static_cast<std::size_t>(place)] = expert_of[i];
    places[i] = place;
  }
  routes.tokens = Tensor::from(tokens, {pairs});
  routes.experts = Tensor::from(sorted, {pairs});
  routes.ends = Tensor::from(ends, {experts});
  routes.places = Tensor::from(places, chosen.shape());
}

// Of one block: see RouterLosses::blocks.
Tensor statistics_of(const Tensor& logits, const Routes& routes, RouterScores scores) {
  const auto tokens = static_cast<double>(logits.dim(0));
  const auto ends = routes.ends.values<std::int32_t>();
  std::vector<double> shares;
  for (std::size_t e = 0; e < ends.size(); ++e) {
    shares.push_back(static_cast<double>(ends[e] - (e == 0 ? 0 : ends[e - 1])) / tokens);
  }
  Tensor of_one = scores_of(logits, scores);
  if (scores == RouterScores::sigmoid) of_one = shares_of_one(of_one, scores);
  const Tensor z = log_sum_exp(logits, -1);
  return concat({Tensor::from(shares, {std::ssize(shares)}).to(logits.dtype()), mean(of_one, {0}),
                 reshape(mean(z * z), {1}), Tensor::full({1}, tokens, logits.dtype())},
                0);
}

}  // namespace

void RouterLosses::sum_up(const ExpertsConfig& config) {
  if (blocks.empty()) return;
  const std::int64_t E = config.experts;
  const Tensor means = mean(stack(blocks), {0});
  balance = sum(slice(means, 0, 0, E) * slice(means, 0, E, 2 * E)) * static_cast<double>(E);
  z = reshape(slice(means, 0, 2 * E, 2 * E + 1), {});
  if (config.balance_loss != 0) added = balance * config.balance_loss;
  if (config.z_loss == 0) return;
  const Tensor weighted = z * config.z_loss;
  added = added.defined() ? added + weighted : weighted;
}

std::vector<std::int64_t> RouterLosses::tokens_of(std::size_t block) const {
  const Tensor all = blocks.at(block).detach().to(DType::f64);
  const std::span<const double> numbers = all.values<double>();
  std::vector<std::int64_t> tokens;
  for (const double share : numbers.first((numbers.size() - 2) / 2)) {
    tokens.push_back(std::llround(share * numbers.back()));
  }
  return tokens;
}

ExpertLinear::ExpertLinear(const Params& p, std::int64_t experts, std::int64_t in, std::int64_t out,
                           bool with_bias)
    : weight(p.stacked_weight("weight", {experts, out, in}, kaiming_uniform(in))) {
  if (with_bias) bias = p.parameter("bias", {experts, out}, kaiming_uniform(in));
  adapter = StackedLora(p.newly_adapted(), experts, in, out);
}

// Of quantised weights, those of experts without tokens are not read.
Tensor ExpertLinear::operator()(const Tensor& x, const Routes& routes) const {
  const auto of_each = [&] {
    std::vector<Tensor> parts;
    std::int64_t first = 0;
    const auto ends = routes.ends.values<std::int32_t>();
    for (std::size_t e = 0; e < ends.size(); first = ends[e++]) {
      if (ends[e] == first) continue;
      parts.push_back(linear(slice(x, 0, first, ends[e]), weight.quantized[e]));
    }
    return parts.size() == 1 ? parts[0] : concat(parts, 0);
  };
  Tensor y = weight.quantized.empty() ? grouped_linear(x, weight.tensor, routes.ends) : of_each();
  if (adapter.exists()) y = y + adapter(x, routes.ends);
  return bias.defined() ? y + gather_rows(bias, routes.experts) : y;
}

Experts::Experts(const Params& p, std::int64_t channels, const ExpertsConfig& o,
                 const FeedForwardConfig& expert, const ExpertNames& names)
    : options(o),
      config(expert),
      router(p.newly_adapted().unquantized() / names.router, channels, o.experts, o.router_bias) {
  // Near ties, rounding would choose other experts.
  router.weight.precision = router.adapter.precision = Precision::full;
  for (Lora& adapter : router.offered) adapter.precision = Precision::full;
  if (o.selection_bias) {
    selection_bias = p.buffer(names.selection_bias, {o.experts},
                              [&] { return Tensor::zeros({o.experts}, p.dtype()); });
  }
  const Params own = p / names.experts;
  const std::int64_t E = o.experts, hidden = expert.hidden;
  const bool joined = expert.gated && expert.joined_gate;
  if (expert.gated && !joined) {
    c_gate = ExpertLinear(own / expert.names.gate, E, channels, hidden, expert.bias);
  }
  c_fc = ExpertLinear(own / (joined ? expert.names.both : expert.names.in), E, channels,
                      joined ? 2 * hidden : hidden, expert.bias);
  c_proj = ExpertLinear(own / expert.names.out, E, hidden, channels, expert.bias);
  if (o.shared_inner == 0) return;
  shared = FeedForward(p / names.shared, channels, shared_config(expert, o.shared_inner));
  if (o.shared_gate) {
    shared_gate = Linear(p.unadapted().unquantized() / names.shared_gate, channels, 1, false);
  }
}

Routes Experts::routes_of(const Tensor& logits) const {
  const Tensor scores = scores_of(logits, options.scores);
  Tensor ranks = scores.detach();  // a choice has no gradient
  if (selection_bias.defined()) ranks = ranks + selection_bias;
  const Tensor chosen = topk(ranks, options.top_k).indices;
  Routes routes;
  routes.weights = gather(scores, chosen, 1);
  if (options.normalize) routes.weights = shares_of_one(routes.weights, options.scores);
  if (options.scale != 1) routes.weights = routes.weights * options.scale;
  sort_by_expert(chosen, options.experts, routes);
  return routes;
}

bool Experts::balances() const {
  return selection_bias.defined() && options.bias_rate > 0 && router.weight.requires_grad();
}

void Experts::balance(std::span<const std::int64_t> tokens) const {
  check(std::ssize(tokens) == options.experts, "[experts] {} numbers of tokens for {} experts",
        tokens.size(), options.experts);
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  std::vector<double> moves;
  for (const std::int64_t own : tokens) {
    const std::int64_t missing = all - own * options.experts;  // times the experts
    moves.push_back(missing == 0 ? 0 : missing > 0 ? options.bias_rate : -options.bias_rate);
  }
  Tensor bias = selection_bias;
  bias += Tensor::from(moves, {std::ssize(moves)}).to(bias.dtype());
}

Tensor Experts::of_experts(const Tensor& pairs, const Routes& routes, Rng* rng) const {
  const auto inner = [&] {
    const Tensor up = c_fc(pairs, routes);
    if (!config.gated) return activate(up, config.activation);
    const std::vector<Tensor> parts = config.joined_gate
                                          ? split(up, {config.hidden, config.hidden}, -1)
                                          : std::vector<Tensor>{c_gate(pairs, routes), up};
    return activate_gated(parts[0], parts[1], config.activation);
  };
  return c_proj(maybe_dropout(inner(), config.hidden_dropout, rng), routes);
}

Tensor Experts::operator()(const Tensor& x, Rng* rng, RouterLosses* routers) const {
  const std::int64_t N = x.shape().with(-1, 1).numel(), C = x.dim(-1), K = options.top_k;
  const Tensor logits = reshape(router(x), {N, options.experts});
  const Routes routes = routes_of(logits);
  if (routers != nullptr) {
    routers->blocks.push_back(statistics_of(logits, routes, options.scores));
  }
  const Tensor pairs = gather_rows(reshape(x, {N, C}), routes.tokens);
  const Tensor outputs = gather_rows(of_experts(pairs, routes, rng), routes.places);  // (N, K, C)
  Tensor y = reshape(sum(outputs * reshape(routes.weights, {N, K, 1}), {1}), x.shape());
  if (shared.exists()) {
    const Tensor beside = shared(x, rng);
    y = y + (shared_gate.weight.exists() ? beside * sigmoid(shared_gate(x)) : beside);
  }
  return maybe_dropout(y, config.dropout, rng);
}

}  // namespace tapegrad::nn
