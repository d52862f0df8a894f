#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

// Logits whose softmax is proportional to the weights.
std::vector<float> logits_of(const std::vector<double>& weights) {
  std::vector<float> logits;
  for (const double w : weights) logits.push_back(static_cast<float>(std::log(w)) + 3);
  return logits;
}

// The tokens that come out in many draws.
std::map<std::int32_t, int> drawn(const std::vector<float>& logits,
                                  const nn::GenerateOptions& options,
                                  const std::vector<std::int32_t>& text = {}) {
  Rng rng(5);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 2000; ++i) ++counts[nn::pick_token(logits, options, rng, text)];
  return counts;
}

std::vector<std::int32_t> tokens_of(const std::map<std::int32_t, int>& counts) {
  std::vector<std::int32_t> tokens;
  for (const auto& [token, count] : counts) tokens.push_back(token);
  return tokens;
}

using Ids = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("top_p leaves the likeliest tokens that have the probability together", "[pick_token]") {
  const auto logits = logits_of({0.05, 0.4, 0.15, 0.3, 0.1});
  CHECK(tokens_of(drawn(logits, {})) == Ids{0, 1, 2, 3, 4});
  CHECK(tokens_of(drawn(logits, {.top_p = 0.94})) == Ids{1, 2, 3, 4});
  CHECK(tokens_of(drawn(logits, {.top_p = 0.8})) == Ids{1, 2, 3});
  CHECK(tokens_of(drawn(logits, {.top_p = 0.6})) == Ids{1, 3});
  CHECK(tokens_of(drawn(logits, {.top_p = 1e-9})) == Ids{1});
  // After top_k, of what that has left: of 0.4 and 0.3, the first has 0.57.
  CHECK(tokens_of(drawn(logits, {.top_k = 2, .top_p = 0.56})) == Ids{1});
  // After the temperature, which makes the distribution flat.
  CHECK(tokens_of(drawn(logits, {.temperature = 100, .top_p = 0.75})) == Ids{1, 2, 3, 4});
  // What is left keeps its proportions.
  const auto counts = drawn(logits, {.top_p = 0.6});
  CHECK(std::abs(counts.at(1) - 2000 * 4 / 7) < 80);
}

TEST_CASE("of many tokens, top_p leaves those that sorting leaves", "[pick_token]") {
  const double p = GENERATE(0.3, 0.9, 0.999), spread = GENERATE(0.0, 0.01, 2.0, 9.0);
  Rng rng(4);
  std::vector<float> logits(2000);
  rng.normal(std::span(logits), 0, spread);
  for (std::size_t i = 0; i < 500; ++i) logits[4 * i] = logits[i];  // some are equal
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] < logits[b]; });
  const auto weight = [&](std::size_t i) { return std::exp(static_cast<double>(logits[i])); };
  double total = 0, sum = 0;
  for (const std::size_t i : order) total += weight(i);
  std::vector<float> left = logits;
  for (const std::size_t i : order) {
    sum += weight(i);
    if (sum > (1 - p) * total) break;
    left[i] = -std::numeric_limits<float>::infinity();
  }
  Rng one(1), other(1);
  for (int i = 0; i < 100; ++i) {
    CHECK(nn::pick_token(logits, {.top_p = p}, one, {}) == nn::pick_token(left, {}, other, {}));
  }
}

TEST_CASE("top_k leaves as many tokens, few or many", "[pick_token]") {
  const std::int64_t k = GENERATE(1, 3, 124, 125, 1999);
  Rng rng(4);
  std::vector<float> logits(2000);
  rng.normal(std::span(logits), 0, 1);
  std::vector<float> sorted = logits, left = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (float& logit : left) {
    if (logit < sorted[static_cast<std::size_t>(k - 1)])
      logit = -std::numeric_limits<float>::infinity();
  }
  Rng one(1), other(1);
  for (int i = 0; i < 100; ++i) {
    CHECK(nn::pick_token(logits, {.top_k = k}, one, {}) == nn::pick_token(left, {}, other, {}));
  }
}

TEST_CASE("of equal tokens at the edge of top_p, those of higher ids stay", "[pick_token]") {
  CHECK(tokens_of(drawn({1, 1, 1, 1}, {.top_p = 0.5})) == Ids{2, 3});
  CHECK(tokens_of(drawn({1, 1, 1, 1}, {.top_p = 0.6})) == Ids{1, 2, 3});
  CHECK(tokens_of(drawn(logits_of({0.4, 0.2, 0.2, 0.2}), {.top_p = 0.5})) == Ids{0, 3});
}

TEST_CASE("min_p leaves the tokens that are likely enough beside the likeliest", "[pick_token]") {
  const auto logits = logits_of({0.05, 0.4, 0.15, 0.3, 0.1});
  CHECK(tokens_of(drawn(logits, {.min_p = 0.2})) == Ids{1, 2, 3, 4});
  CHECK(tokens_of(drawn(logits, {.min_p = 0.3})) == Ids{1, 2, 3});
  CHECK(tokens_of(drawn(logits, {.min_p = 1})) == Ids{1});
}

TEST_CASE("a repetition penalty makes what the text has less likely, once", "[pick_token]") {
  const std::vector<float> logits = {2, 1.5F, -1, -1.5F};
  const auto likeliest = [&](double penalty, const Ids& text) {
    Rng rng(1);
    return nn::pick_token(logits, {.greedy = true, .repetition_penalty = penalty}, rng, text);
  };
  CHECK(likeliest(1, {0, 0, 0}) == 0);
  CHECK(likeliest(1.3, {0, 0, 0}) == 0);  // 2 / 1.3 is above 1.5, and 2 / 1.3³ is not
  CHECK(likeliest(1.5, {0}) == 1);
  CHECK(likeliest(3, {0, 1}) == 0);
  // A negative logit becomes more so: with 2, −1 of token 2 falls below −1.5 of token 3.
  Rng rng(1);
  const Ids text = {2};
  CHECK(nn::pick_token({-1, -1.5F}, {.greedy = true, .repetition_penalty = 2}, rng, Ids{0}) == 1);
}

TEST_CASE("presence and frequency penalties are taken from what stands behind the prompt",
          "[pick_token]") {
  const std::vector<float> logits = {3, 2, 1};
  const auto likeliest = [&](double presence, double frequency, const Ids& text,
                             std::int64_t prompt_tokens) {
    Rng rng(1);
    const nn::GenerateOptions options{
        .greedy = true, .presence_penalty = presence, .frequency_penalty = frequency};
    return nn::pick_token(logits, options, rng, text, prompt_tokens);
  };
  CHECK(likeliest(1.5, 0, {0, 0, 0}, 3) == 0);  // the prompt's alone
  CHECK(likeliest(1.5, 0, {0, 0, 0}, 2) == 1);
  CHECK(likeliest(0.9, 0, {0, 0, 0}, 0) == 0);  // once: 3 − 0.9
  CHECK(likeliest(0, 0.4, {0, 0}, 0) == 0);     // 3 − 2 · 0.4
  CHECK(likeliest(0, 0.4, {0, 0, 0}, 0) == 1);
  CHECK(likeliest(0.5, 0.3, {0, 0}, 0) == 1);  // 3 − 0.5 − 2 · 0.3
  CHECK(likeliest(-1.5, 0, {1}, 0) == 1);      // below 0, it is likelier
  CHECK(likeliest(0, -0.5, {2, 2, 2, 2, 2}, 0) == 2);
}

TEST_CASE("typical_p leaves the tokens whose surprise is nearest to its mean", "[pick_token]") {
  // The mean surprise is 1.28 nats; those of the tokens are 0.69, 1.39, 2.08 and 2.08.
  const auto logits = logits_of({0.5, 0.25, 0.125, 0.125});
  CHECK(tokens_of(drawn(logits, {.typical_p = 0.2})) == Ids{1});
  CHECK(tokens_of(drawn(logits, {.typical_p = 0.3})) == Ids{0, 1});
  CHECK(tokens_of(drawn(logits, {.typical_p = 0.8})) == Ids{0, 1, 2, 3});     // equal ones stay
  CHECK(tokens_of(drawn(logits, {.top_k = 2, .typical_p = 0.3})) == Ids{0});  // of what is left
}

TEST_CASE("typical_p holds beside a token whose probability is 0 in f64", "[pick_token]") {
  // The mean surprise is 1.32 nats; those of the first four are 1.21 and 2.21.
  const std::vector<float> logits = {0, 0, 0, -0.1F, -74.5F};
  CHECK(tokens_of(drawn(logits, {.temperature = 0.1, .typical_p = 0.2})) == Ids{0, 1, 2});
}

TEST_CASE("the smallest and largest penalties give weights that can be drawn", "[pick_token]") {
  Rng rng(1);
  const auto draw = [&](double penalty) {
    const nn::GenerateOptions options = {.top_p = 0.9, .repetition_penalty = penalty};
    options.validate();
    return nn::pick_token({1e38F, 2e38F, -3e38F}, options, rng, Ids{0, 1, 2});
  };
  CHECK(draw(nn::kLeastPenalty) <= 1);
  CHECK(draw(nn::kMostPenalty) <= 1);
}

TEST_CASE("the largest biases give weights that can be drawn", "[pick_token]") {
  Rng rng(1);
  const double most = std::numeric_limits<float>::max();
  CHECK(nn::pick_token({1e38F, 2, 3}, {.logit_bias = {{0, most}, {1, most}, {2, -most}}}, rng) <=
        1);
}

TEST_CASE("options of sampling that have no meaning are Errors", "[pick_token]") {
  const auto message = [](const nn::GenerateOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({.top_p = 0}) == "top_p must be above 0 and at most 1, not 0");
  CHECK(message({.top_p = 1.1}) == "top_p must be above 0 and at most 1, not 1.1");
  CHECK(message({.min_p = -0.1}) == "min_p must be from 0 to 1, not -0.1");
  CHECK(message({.typical_p = 0}) == "typical_p must be above 0 and at most 1, not 0");
  CHECK(message({.presence_penalty = 1e39}) == "presence_penalty must be finite in f32, not 1e+39");
  CHECK(message({.min_tokens = -1}) == "min_tokens must not be negative, as -1 is");
  CHECK(message({.max_new_tokens = 4, .min_tokens = 4}) == "");
  CHECK(message({.max_new_tokens = 4, .min_tokens = 5}) ==
        "min_tokens must be at most max_new_tokens, 4, not 5");
  for (const double penalty : {0.0, 1e-40, 101.0, std::nan("")}) {
    CHECK_THAT(message({.repetition_penalty = penalty}),
               ContainsSubstring("repetition_penalty must be from 0.01 to 100, not "));
  }
  CHECK(message({.logit_bias = {{3, 1e300}}}) ==
        "the logit_bias of token 3 must be finite in f32, not 1e+300");
  CHECK(message({.top_p = std::nan("")}) == "top_p must be above 0 and at most 1, not nan");
}
