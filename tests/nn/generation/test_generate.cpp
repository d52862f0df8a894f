#include <limits>

#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;

namespace {

using Tokens = std::vector<std::int32_t>;

struct Model {
  Model() { randomize(params.parameters(), rng, 0.6); }
  Rng rng{11};
  nn::Params params{rng};
  nn::GPT gpt{params, tiny_config()};

  Tokens run(const Tokens& prompt, const GenerateOptions& options, std::uint64_t seed = 1) const {
    return nn::stream(gpt, prompt, options, seed).tokens();
  }
};

// Pearson's statistic of how often each token was picked, against what was expected.
double chi_square(const std::vector<double>& probabilities, const std::vector<float>& logits,
                  const GenerateOptions& options) {
  const int draws = 20000;
  Rng rng(4);
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    ++counts[static_cast<std::size_t>(nn::pick_token(logits, options, rng))];
  double statistic = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    if (expected == 0) {
      CHECK(counts[i] == 0);
    } else {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return statistic;
}

std::vector<double> softmax_of(const std::vector<float>& logits, double temperature, double least) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) {
    p.push_back(static_cast<double>(x) >= least ? std::exp(static_cast<double>(x) / temperature)
                                                : 0);
    sum += p.back();
  }
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

TEST_CASE("greedy generation takes the token that is likeliest after the last block_size ones",
          "[generate]") {
  const Model model;
  Tokens text = {1, 2};
  while (text.size() < 20) {
    const auto T = std::min<std::ptrdiff_t>(6, static_cast<std::ptrdiff_t>(text.size()));
    const std::vector<double> all =
        list(model.gpt(Tensor::from(Tokens(text.end() - T, text.end()), {1, T})));
    const auto last = all.end() - 11;
    text.push_back(static_cast<std::int32_t>(std::max_element(last, all.end()) - last));
  }
  CHECK(model.run({1, 2}, {.max_new_tokens = 18, .greedy = true}) ==
        Tokens(text.begin() + 2, text.end()));
}

TEST_CASE("sampling among the one likeliest token is greedy generation", "[generate]") {
  const Model model;
  const Tokens greedy = model.run({3}, {.max_new_tokens = 30, .greedy = true});
  CHECK(greedy.size() == 30);
  CHECK(model.run({3}, {.max_new_tokens = 30, .temperature = 5, .top_k = 1}) == greedy);
  CHECK(model.run({3}, {.max_new_tokens = 30, .temperature = 1e-6}) == greedy);
  CHECK(model.run({3}, {.max_new_tokens = 30, .temperature = 5}) != greedy);
}

TEST_CASE("a seed decides the text", "[generate]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 30};
  CHECK(model.run({3}, options, 1) == model.run({3}, options, 1));
  CHECK(model.run({3}, options, 1) != model.run({3}, options, 2));
}

// 99.9 % of such statistics are below 20.5 for 6 tokens and below 13.8 for 3.
TEST_CASE("tokens are drawn as often as temperature and top-k say", "[generate]") {
  const std::vector<float> logits = {1.5F, -1, 0, 2, 0.5F, -3};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    CHECK(chi_square(softmax_of(logits, temperature, -10), logits, {.temperature = temperature}) <
          20.5);
    CHECK(chi_square(softmax_of(logits, temperature, 0.5), logits,
                     {.temperature = temperature, .top_k = 3}) < 13.8);
  }
  CHECK(chi_square(softmax_of(logits, 1.1, -10), logits, {.temperature = 1.0}) > 20.5);
}

TEST_CASE("a top-k of the whole vocabulary or more leaves every token in", "[generate]") {
  const Model model;
  const Tokens all = model.run({3}, {.max_new_tokens = 30});
  CHECK(model.run({3}, {.max_new_tokens = 30, .top_k = 11}) == all);
  CHECK(model.run({3}, {.max_new_tokens = 30, .top_k = 1000}) == all);
}

TEST_CASE("of a long text the model sees the last block_size tokens", "[generate]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 10};
  CHECK(model.run({9, 9, 9, 1, 2, 3, 4, 5, 6}, options) == model.run({1, 2, 3, 4, 5, 6}, options));
}

TEST_CASE("a stop token ends the text and is not part of it", "[generate]") {
  const Model model;
  const Tokens all = model.run({3}, {.max_new_tokens = 30});
  const std::int32_t stop = all[7];
  const auto first = std::find(all.begin(), all.end(), stop);
  CHECK(model.run({3}, {.max_new_tokens = 30, .stop_tokens = {stop}}) ==
        Tokens(all.begin(), first));
}

TEST_CASE("generation records nothing on a live tape", "[generate]") {
  const Model model;
  const Tape tape;
  CHECK(model.run({3}, {.max_new_tokens = 2}).size() == 2);
  CHECK(tape.size() == 0);
}

TEST_CASE("options that mean nothing are errors that name them", "[generate]") {
  const Model model;
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const double temperature : {0.0, -1.0, nan, infinity}) {
    CHECK_THROWS_WITH(model.run({3}, {.temperature = temperature}),
                      ContainsSubstring("temperature must be above 0"));
  }
  for (const std::int64_t top_k : {0, -3}) {
    CHECK_THROWS_WITH(model.run({3}, {.top_k = top_k}),
                      ContainsSubstring("top_k must be at least 1, not " + std::to_string(top_k)));
  }
  CHECK_THROWS_WITH(model.run({3}, {.max_new_tokens = -1}), ContainsSubstring("max_new_tokens"));
  CHECK_THROWS_WITH(model.run({}, {}), ContainsSubstring("at least one token"));
  CHECK_THROWS_WITH(model.run({11}, {}), ContainsSubstring("11"));
  CHECK_THROWS_WITH(model.run({-1}, {}), ContainsSubstring("-1"));
  CHECK(model.run({3}, {.max_new_tokens = 0}).empty());
}

TEST_CASE("logits without a largest finite one are an error", "[generate]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Rng rng(1);
  for (const bool greedy : {false, true}) {
    for (const double top_p : {0.9, 1.0}) {
      const nn::GenerateOptions options = {.greedy = greedy, .top_p = top_p};
      CHECK_THROWS_AS(nn::pick_token({infinity, 0}, options, rng), nn::BrokenLogits);
      CHECK_THROWS_AS(nn::pick_token({-infinity, -infinity}, options, rng), nn::BrokenLogits);
    }
  }
}

TEST_CASE("logits that are NaN are an error", "[generate]") {
  Rng rng(1);
  CHECK_THROWS_WITH(nn::pick_token({0, std::nanf(""), 1}, {.greedy = true}, rng),
                    ContainsSubstring("NaN"));
}

TEST_CASE("several texts become what each of them becomes alone", "[generate]") {
  const Model model;
  const bool kv_cache = GENERATE(true, false);
  const std::vector<Tokens> prompts = {{1, 2}, {3}, {4, 5}, {6, 7, 8, 9, 1, 2, 3}, {10, 0}, {3}};
  // Token 4 ends texts at different places; others outgrow the block size.
  for (const GenerateOptions& options :
       {GenerateOptions{.max_new_tokens = 12, .stop_tokens = {4}, .kv_cache = kv_cache},
        GenerateOptions{.max_new_tokens = 12, .greedy = true, .kv_cache = kv_cache}}) {
    const auto texts = nn::generate(model.gpt, prompts, options, 100);
    REQUIRE(texts.size() == prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      INFO("text " << i);
      CHECK(texts[i] == model.run(prompts[i], options, 100 + i));
    }
  }
}
