#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops/expert_ops.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/nn/layers/experts.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::FeedForwardConfig expert_config(bool gated = true) {
  return {.hidden = 6, .bias = !gated, .gated = gated, .activation = nn::Activation::silu};
}

nn::Experts make_mixture(const nn::Params& p, const nn::ExpertsConfig& options,
                         const nn::FeedForwardConfig& expert = expert_config()) {
  return {p, 4, options, expert, {}};
}

// The layer by its definition, one token after another.
Tensor by_token(const nn::Experts& layer, const Tensor& x) {
  const Tensor scores = softmax(layer.router(x), -1);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    const Tensor row = slice(x, 0, i, i + 1);
    const SortResult best = topk(select(scores, 0, i), layer.options.top_k);
    Tensor y = Tensor::zeros({1, x.dim(1)}, x.dtype());
    for (std::int64_t k = 0; k < layer.options.top_k; ++k) {
      const std::int64_t e = best.indices.values<std::int32_t>()[static_cast<std::size_t>(k)];
      const auto of = [&](const nn::ExpertLinear& linears, const Tensor& in) {
        const Tensor bias = linears.bias.defined() ? select(linears.bias, 0, e) : Tensor();
        return linear(in, select(linears.weight.tensor, 0, e), bias);
      };
      Tensor inner = of(layer.c_fc, row);
      inner = layer.config.gated
                  ? nn::activate_gated(of(layer.c_gate, row), inner, layer.config.activation)
                  : silu(inner);
      y = y + of(layer.c_proj, inner) * select(best.values, 0, k);
    }
    rows.push_back(layer.options.normalize ? y / sum(best.values) : y);
  }
  return concat(rows, 0) * layer.options.scale;
}

}  // namespace

TEST_CASE("a mixture of experts sums the outputs of the best, by their scores", "[experts]") {
  for (const bool gated : {true, false}) {
    for (const std::int64_t top_k : {1, 2, 5}) {
      for (const bool normalize : {true, false}) {
        Rng rng(7);
        const nn::Params p(rng, DType::f64);
        const nn::Experts layer =
            make_mixture(p, {.experts = 5, .top_k = top_k, .normalize = normalize, .scale = 1.5},
                         expert_config(gated));
        const Tensor x = Tensor::randn({9, 4}, rng, DType::f64);
        CHECK(difference(layer(x), by_token(layer, x), 1e-12, 1e-12) == "");
      }
    }
  }
}

TEST_CASE("a mixture of experts has the biases and the gate of gpt-oss", "[experts]") {
  Rng rng(7);
  const nn::Params p(rng, DType::f64);
  nn::FeedForwardConfig expert = expert_config();
  expert.bias = true, expert.activation = nn::Activation::clamped_swiglu;
  const nn::Experts layer =
      make_mixture(p, {.experts = 5, .top_k = 3, .router_bias = true}, expert);
  randomize(p.parameters(), rng, 3);
  CHECK(layer.router.bias.shape() == Shape{5});
  const Tensor x = Tensor::randn({9, 4}, rng, DType::f64);
  CHECK(difference(layer(x), by_token(layer, x), 1e-12, 1e-12) == "");
  // Scores are those of the chosen alone.
  const Tensor logits = layer.router(x), best = topk(logits, 3).values;
  CHECK(difference(layer.routes_of(logits).weights, softmax(best), 1e-12, 1e-12) == "");
}

TEST_CASE("scores that are all 0 give no NaN", "[experts]") {
  Rng rng(3);
  const nn::Params p(rng);
  const nn::Experts layer = make_mixture(p, {.experts = 3, .scores = nn::RouterScores::sigmoid});
  const nn::Routes routes = layer.routes_of(Tensor::full({1, 3}, -200));
  CHECK(difference(routes.weights, Tensor::zeros({1, 2}), 0, 0) == "");
}

TEST_CASE("a selection bias chooses experts, and weights are the scores without it", "[experts]") {
  Rng rng(3);
  const nn::Params p(rng, DType::f64);
  const nn::Experts layer = make_mixture(
      p, {.experts = 4, .scores = nn::RouterScores::sigmoid, .selection_bias = true, .scale = 1.5});
  CHECK(difference(layer.selection_bias, Tensor::zeros({4}, DType::f64), 0, 0) == "");
  Tensor bias = layer.selection_bias;
  bias += Tensor::from<double>({0.5, -0.25, 0, 0.125}, {4});
  // Sigmoids 0.25, 0.6, 0.7 and 0.5 are 0.75, 0.35, 0.7 and 0.625 with the bias.
  const auto logit = [](double s) { return std::log(s / (1 - s)); };
  const std::vector<double> scores = {0.25, 0.6, 0.7, 0.5};
  std::vector<double> logits;
  for (const double score : scores) logits.push_back(logit(score));
  const nn::Routes routes = layer.routes_of(Tensor::from(logits, {1, 4}));
  const Tensor expected = Tensor::from<double>({0.25, 0.7}, {1, 2}) * (1.5 / (0.95 + 1e-6));
  CHECK(difference(routes.weights, expected, 1e-12, 1e-12) == "");
  CHECK(difference(routes.experts, Tensor::from<std::int32_t>({0, 2}, {2}), 0, 0) == "");

  // The gradient is that of a layer whose choice is fixed.
  const Tensor x = Tensor::randn({6, 4}, rng, DType::f64);
  const Tensor &w = layer.router.weight, numbers = Tensor::randn({6, 2}, rng, DType::f64);
  const Tensor chosen = topk(sigmoid(linear(x, w)).detach() + bias, 2).indices;
  Tape tape;
  const Tensor picked = gather(sigmoid(linear(x, w)), chosen, 1);
  const Tensor by_hand = picked / (sum(picked, {-1}, true) + 1e-6) * 1.5;
  const Tensor own = layer.routes_of(layer.router(x)).weights;
  const auto gradients =
      tape.gradient(sum(own * numbers) - sum(by_hand * numbers), {layer.router.weight});
  CHECK(difference(own, by_hand, 1e-12, 1e-12) == "");
  CHECK(difference(gradients[0], Tensor::zeros(w.shape(), DType::f64), 0, 1e-12) == "");
}

TEST_CASE("the bias of an expert rises where it gets fewer tokens than the mean", "[experts]") {
  Rng rng(3);
  const nn::Params p(rng);
  const nn::ExpertsConfig options{.experts = 4, .selection_bias = true, .bias_rate = 0.25};
  const nn::Experts layer = make_mixture(p, options);
  layer.balance(std::vector<std::int64_t>{3, 9, 6, 6});  // their mean is 6
  CHECK(difference(layer.selection_bias, Tensor::from<float>({0.25, -0.25, 0, 0}, {4}), 0, 0) ==
        "");
  CHECK_THROWS_WITH(layer.balance(std::vector<std::int64_t>{1, 2}),
                    ContainsSubstring("2 numbers of tokens for 4 experts"));
  nn::RouterLosses routers;
  const Tensor x = Tensor::randn({23, 4}, rng);
  layer(x, nullptr, &routers);
  const Tensor ends = layer.routes_of(layer.router(x)).ends;
  std::vector<std::int64_t> expected;
  for (const std::int32_t end : ends.values<std::int32_t>()) expected.push_back(end);
  for (std::size_t e = 3; e > 0; --e) expected[e] -= expected[e - 1];
  CHECK(routers.tokens_of(0) == expected);
  CHECK(layer.balances());
  p.freeze({"router.weight"});
  CHECK(!layer.balances());
  CHECK(!make_mixture(nn::Params(rng), {.experts = 4}).balances());
}

TEST_CASE("experts for all tokens are added, by a gate if there is one", "[experts]") {
  for (const bool gate : {false, true}) {
    Rng rng(5);
    const nn::Params p(rng);
    nn::Experts layer = make_mixture(p, {.experts = 2, .shared_inner = 3, .shared_gate = gate});
    const Tensor x = Tensor::randn({7, 4}, rng);
    const Tensor whole = layer(x), shared = layer.shared(x);
    const Tensor added = gate ? shared * sigmoid(layer.shared_gate(x)) : shared;
    layer.shared = {};
    CHECK(difference(whole, layer(x) + added, 1e-6, 1e-6) == "");
  }
}

TEST_CASE("a token gets the bits that it gets alone, however many threads there are", "[experts]") {
  Rng rng(5);
  const nn::Params p(rng);
  const nn::Experts layer{p,
                          64,
                          {.experts = 6, .top_k = 3, .shared_inner = 40},
                          {.hidden = 96, .bias = false, .gated = true},
                          {}};
  const Tensor x = Tensor::randn({23, 64}, rng);
  const BatchInvariant apart;
  const Tensor together = layer(x);
  std::vector<Tensor> alone;
  for (std::int64_t i = 0; i < 23; ++i) alone.push_back(layer(slice(x, 0, i, i + 1)));
  CHECK(difference(together, concat(alone, 0), 0, 0) == "");
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = layer(x);
  set_num_threads(threads);
  CHECK(difference(one, together, 0, 0) == "");
}

TEST_CASE("quantised experts compute what their matrices say", "[experts]") {
  Rng rng(5);
  const nn::Params p(rng);
  const nn::ExpertsConfig options{.experts = 3, .shared_inner = 32};
  const nn::FeedForwardConfig expert{.hidden = 32, .bias = false, .gated = true};
  const nn::Experts exact(p, 32, options, expert, {});
  std::map<std::string, Tensor> tensors(p.tensors().begin(), p.tensors().end());
  const nn::Params short_ones(memory_source(tensors, "memory"));
  short_ones.quantize(&stored_type("q8_0"));
  const nn::Experts layer(short_ones, 32, options, expert, {});
  short_ones.check_all_used();
  CHECK(layer.c_fc.weight.quantized.size() == 3);
  CHECK(layer.router.weight.defined());
  CHECK(short_ones.total_count() == p.total_count());
  const Tensor x = Tensor::randn({2, 3, 32}, rng);
  CHECK(difference(layer(x), exact(x), 0, 0.02) == "");
}

TEST_CASE("routers' losses are those of Switch Transformers and ST-MoE", "[experts]") {
  Rng rng(5);
  const nn::Params p(rng, DType::f64);
  const nn::ExpertsConfig options{.experts = 4, .top_k = 2, .balance_loss = 3, .z_loss = 2};
  const nn::Experts layer = make_mixture(p, options);
  const Tensor x = Tensor::randn({10, 4}, rng, DType::f64);
  nn::RouterLosses losses;
  layer(x, nullptr, &losses);
  losses.sum_up(options);
  const Tensor logits = layer.router(x), probabilities = softmax(logits);
  const Tensor chosen = topk(probabilities, 2).indices;
  const Tensor shares = mean(sum(one_hot(chosen, 4, DType::f64), {1}), {0});
  const Tensor balance = sum(shares * mean(probabilities, {0})) * 4;
  const Tensor lse = log_sum_exp(logits);
  CHECK(difference(losses.balance, balance, 1e-12, 1e-12) == "");
  CHECK(difference(losses.z, mean(lse * lse), 1e-12, 1e-12) == "");
  CHECK(difference(losses.added, balance * 3 + losses.z * 2, 1e-12, 1e-12) == "");

  const auto gradient = [&](bool composed) {
    Tape tape;
    nn::RouterLosses noted;
    layer(x, nullptr, &noted);
    noted.sum_up(options);
    const Tensor of_router = layer.router(x), sums = log_sum_exp(of_router);
    const Tensor own = sum(shares * mean(softmax(of_router), {0})) * 12 + mean(sums * sums) * 2;
    return tape.gradient(composed ? own : noted.added, {layer.router.weight})[0];
  };
  CHECK(difference(gradient(false), gradient(true), 1e-12, 1e-12) == "");
}

TEST_CASE("grouped products refuse what does not fit", "[experts]") {
  const Tensor x = Tensor::zeros({3, 2}), w = Tensor::zeros({2, 4, 2});
  const auto refused = [&](const std::vector<std::int32_t>& ends, const std::string& why) {
    CHECK_THROWS_WITH(grouped_linear(x, w, Tensor::from(ends, {std::ssize(ends)})),
                      ContainsSubstring(why));
  };
  refused({2, 1},
          "[grouped_linear] ends must rise from 0 or more to 3, the rows of x: 1 follows 2");
  refused({1, 4}, "4 follows 1");
  refused({1, 2}, "the last end must be 3, the rows of x, not 2");
  refused({3}, "ends (1) do not fit weight (2, 4, 2)");
  CHECK_THROWS_WITH(grouped_linear(Tensor::zeros({3, 3}), w, x), ContainsSubstring("does not fit"));
}
