#include <algorithm>
#include <cmath>
#include <limits>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::TextEnd;
using nn::Tokens;

namespace {

// Allows a token only if it is above the one before it, and at most `step` above.
class Rising : public nn::TokenMask {
 public:
  Rising(std::int32_t last, std::int32_t step) : last_(last), step_(step) {}
  void allow(std::span<float> logits) override {
    for (std::int32_t i = 0; i < std::ssize(logits); ++i) {
      if (i <= last_ || i > last_ + step_) {
        logits[static_cast<std::size_t>(i)] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  void accept(std::int32_t token) override { last_ = token; }
  std::unique_ptr<nn::TokenMask> clone() const override { return std::make_unique<Rising>(*this); }

 private:
  std::int32_t last_, step_;
};

// Allows some tokens, and then throws.
class Breaking : public nn::TokenMask {
 public:
  explicit Breaking(int most) : left_(most) {}
  void allow(std::span<float>) override { check(left_ > 0, "the mask breaks"); }
  void accept(std::int32_t) override { --left_; }
  std::unique_ptr<nn::TokenMask> clone() const override {
    return std::make_unique<Breaking>(*this);
  }

 private:
  int left_;
};

nn::DecoderConfig config() {
  nn::DecoderConfig c = tiny_config();
  c.vocab_size = 50;
  c.block_size = 24;
  return c;
}

struct Model {
  Model() : params(rng), gpt(params, config()) { randomize(params.parameters(), rng, 0.25); }
  Rng rng{11};
  nn::Params params;
  nn::Decoder gpt;

  std::vector<float> logits_after(Tokens text) const {
    const auto size = std::ssize(text);
    const Tensor logits = gpt.last_logits(Tensor::from(std::move(text), {1, size}));
    const auto values = logits.values<float>();
    return {values.begin(), values.end()};
  }
  Generation::Taken run(const Tokens& prompt, const GenerateOptions& options,
                        const nn::GenerationLimits& limits = {}) const {
    Generation generation(gpt, limits);
    const auto id = generation.add(prompt, options, Rng(1));
    while (generation.step()) {
    }
    return generation.take(id);
  }
};

Tokens tokens_of(const std::vector<NewToken>& list) {
  Tokens tokens;
  for (const NewToken& t : list) tokens.push_back(t.token);
  return tokens;
}

}  // namespace

TEST_CASE("a mask decides which tokens may come, and ends a text without any", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 60, .mask = std::make_shared<Rising>(20, 4)};
  options.logprobs = true;
  options.greedy = GENERATE(false, true);
  options.lookup = GENERATE(0, 6);
  const Generation::Taken taken = model.run({3, 4}, options);
  CHECK(taken.end == TextEnd::no_token);  // 49 has none above it
  Tokens text = {3, 4};
  std::int32_t last = 20;
  for (const NewToken& t : taken.tokens) {
    CHECK((t.token > last && t.token <= last + 4));
    if (text.size() < 24) {  // under the model alone
      const std::vector<float> logits = model.logits_after(text);
      CHECK(t.logprob == Approx(nn::LogProbabilities(logits)[t.token]).margin(1e-4));
    }
    last = t.token;
    text.push_back(last);
  }
  CHECK(last == 49);
  // Each text has a mask of its own, and lookup does not change what is chosen.
  options.lookup = 0;
  CHECK(tokens_of(model.run({3, 4}, options).tokens) == tokens_of(taken.tokens));
}

TEST_CASE("a mask is not told of the stop token", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 9, .greedy = true};
  options.mask = std::make_shared<Rising>(20, 1);
  options.stop_tokens = {23};
  const Generation::Taken taken = model.run({3}, options);
  CHECK(tokens_of(taken.tokens) == Tokens{21, 22});
  CHECK(taken.end == TextEnd::stop_token);
}

TEST_CASE("a presence penalty does not count the prompt", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 3, .greedy = true, .presence_penalty = 1000};
  options.logit_bias = {{5, 60}, {6, 30}};
  const Tokens made = tokens_of(model.run({3, 5, 6}, options).tokens);
  REQUIRE(made.size() == 3);
  CHECK(made[0] == 5);
  CHECK(made[1] == 6);
  CHECK(made[2] != 5);
}

TEST_CASE("no stop token ends a text before min_tokens", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 9, .greedy = true};
  for (std::int32_t token = 1; token < 50; ++token) options.stop_tokens.push_back(token);
  options.stop_tokens.push_back(1000);  // a tokenizer may have more tokens than its model
  options.logit_bias = {{0, -30}};
  CHECK(model.run({3}, options).tokens.empty());
  options.min_tokens = 4;
  const Generation::Taken taken = model.run({3}, options);
  CHECK(tokens_of(taken.tokens) == Tokens{0, 0, 0, 0});
  CHECK(taken.end == TextEnd::stop_token);
  options.stop_tokens.push_back(0);  // then no token is left
  CHECK(model.run({3}, options).end == TextEnd::no_token);
}

TEST_CASE("a mask does not hide that logits are broken", "[running_text]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  GenerateOptions options{.max_new_tokens = 1, .greedy = GENERATE(false, true)};
  options.mask = std::make_shared<Rising>(-1, 2);
  const auto choose = [&](const std::vector<float>& logits) {
    nn::RunningText text({0}, options, Rng(1));
    text.choose(logits, std::ssize(logits));
    return text.take_new();
  };
  CHECK(choose({1, 2, 3}).size() == 1);
  CHECK_THROWS_AS(choose({1, 2, NAN}), nn::BrokenLogits);
  CHECK_THROWS_AS(choose({1, 2, infinity}), nn::BrokenLogits);
  CHECK_THROWS_AS(choose({-infinity, -infinity, -infinity}), nn::BrokenLogits);
}

TEST_CASE("a bias is added to logits before penalties, and log probabilities do not know it",
          "[running_text]") {
  const Model model;
  const std::vector<float> logits = model.logits_after({5});
  const auto chosen = [&](double bias, double penalty) {
    GenerateOptions options{.max_new_tokens = 1, .greedy = true, .repetition_penalty = penalty};
    options.logit_bias = {{5, bias}};
    options.logprobs = true;
    return model.run({5}, options).tokens[0];
  };
  const NewToken token = chosen(1000, 1);
  CHECK(token.token == 5);
  CHECK(token.logprob == Approx(nn::LogProbabilities(logits)[5]).margin(1e-4));
  CHECK(chosen(-1000, 1).token != 5);
  CHECK(chosen(20, 1).token == 5);
  CHECK(chosen(20, 100).token != 5);  // 20 / 100; 20 added behind a penalty would win
  Generation generation(model.gpt);
  GenerateOptions wrong;
  wrong.logit_bias = {{50, 1}};
  CHECK_THROWS_WITH(generation.add({1}, wrong, Rng(1)), ContainsSubstring("token 50"));
  wrong.logit_bias = {{5, INFINITY}};
  CHECK_THROWS_WITH(generation.add({1}, wrong, Rng(1)), ContainsSubstring("finite"));
}

TEST_CASE("each token has its likeliest rivals", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 3, .top_logprobs = 4};
  Tokens text = {7, 8};
  for (const NewToken& t : model.run(text, options).tokens) {
    const std::vector<float> logits = model.logits_after(text);
    const nn::LogProbabilities logprobs(logits);
    CHECK(t.logprob == Approx(logprobs[t.token]).margin(1e-4));
    REQUIRE(t.top.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(t.top[i].logprob == Approx(logprobs[t.top[i].token]).margin(1e-4));
      if (i > 0) CHECK(t.top[i].logprob <= t.top[i - 1].logprob);
      const auto likelier = std::count_if(logits.begin(), logits.end(), [&](float logit) {
        return logit > logits[static_cast<std::size_t>(t.top[i].token)] + 1e-3F;
      });
      CHECK(likelier <= static_cast<std::ptrdiff_t>(i));
    }
    text.push_back(t.token);
  }
  options.top_logprobs = 100;
  CHECK(model.run(text, options).tokens[0].top.size() == 50);
}

TEST_CASE("a rank is a place in the order of the likeliest tokens", "[running_text]") {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1, 3, 3, kNever, 2, kNever};
  const nn::LogProbabilities logprobs(logits);
  std::int64_t rank = 0;
  for (const nn::TokenLogprob& t : logprobs.likeliest(6)) CHECK(logprobs.rank(t.token) == ++rank);
  CHECK(rank == 4);
  CHECK(logprobs.rank(3) == 5);
  CHECK(logprobs.rank(5) == 6);
}

TEST_CASE("the tokens of a prompt are scored, however it is cut", "[running_text]") {
  const Model model;
  const Tokens prompt = {4, 9, 1, 33, 20, 7, 7, 12, 3, 41, 2};
  GenerateOptions options{.prompt_logprobs = 2};
  options.max_new_tokens = GENERATE(0, 5);
  nn::GenerationLimits limits;
  limits.prompt_chunk = GENERATE(1, 3, 5, 100);
  const Generation::Taken taken = model.run(prompt, options, limits);
  CHECK(std::ssize(taken.tokens) == options.max_new_tokens);
  CHECK(taken.end == TextEnd::length);
  REQUIRE(taken.prompt.size() == prompt.size() - 1);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const std::vector<float> logits =
        model.logits_after({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i)});
    const NewToken& t = taken.prompt[i - 1];
    CHECK(t.token == prompt[i]);
    CHECK(t.logprob == Approx(nn::LogProbabilities(logits)[prompt[i]]).margin(1e-4));
    CHECK(t.top.size() == 2);
    const float own = logits[static_cast<std::size_t>(prompt[i])];
    const auto likelier = [&](float by) {
      return std::ranges::count_if(logits, [&](float logit) { return logit > own + by; });
    };
    CHECK((t.rank >= 1 + likelier(1e-3F) && t.rank <= 1 + likelier(-1e-3F)));
  }
  CHECK_THROWS_WITH(model.run(Tokens(25, 1), options), ContainsSubstring("at most 24 tokens"));
}

TEST_CASE("a mask that throws ends its own text, and no other", "[running_text]") {
  const Model model;
  const Tokens prompt = {4, 9, 1};
  const GenerateOptions whole{.max_new_tokens = 8};
  GenerateOptions broken = whole;
  broken.mask = std::make_shared<Breaking>(3);
  Generation generation(model.gpt);
  const auto a = generation.add(prompt, broken, Rng(2)), b = generation.add(prompt, whole, Rng(1));
  while (generation.step()) {
  }
  // What was made before it is no less right, and may be all that is wanted.
  const Generation::Taken before = generation.take(a);
  CHECK(before.tokens.size() == 3);
  CHECK(!before.end);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH(generation.take(a), ContainsSubstring("the mask breaks"));
  }
  CHECK(tokens_of(generation.take(b).tokens) == tokens_of(model.run(prompt, whole).tokens));
}

TEST_CASE("an error behind tokens of the same step does not take them", "[running_text]") {
  constexpr std::size_t kVocab = 8;
  GenerateOptions options{.max_new_tokens = 20, .greedy = true};
  options.mask = std::make_shared<Breaking>(2);
  options.lookup = 2;
  nn::RunningText text({5, 6, 7, 5, 6}, options, Rng(1));
  text.propose(2);
  REQUIRE(text.proposed() == Tokens{7, 5});
  std::vector<float> logits(3 * kVocab, 0);
  logits[7] = logits[kVocab + 5] = 9;
  CHECK(text.choose(logits, kVocab) == 2);
  CHECK(!text.end());  // only with the next step, which makes nothing
  CHECK(text.choose(logits, kVocab) == 0);
  CHECK(text.end());
  CHECK(tokens_of(text.take_new()) == Tokens{7, 5});
  CHECK_THROWS_WITH(text.take_new(), ContainsSubstring("the mask breaks"));
}

TEST_CASE("whoever takes after each step gets all tokens and then the error", "[running_text]") {
  const Model model;
  GenerateOptions options{.max_new_tokens = 12, .greedy = true};
  options.logit_bias = {{7, 1000}};  // so that all proposals are right
  options.lookup = 6;
  for (int most = 0; most < 10; ++most) {
    options.mask = std::make_shared<Breaking>(most);
    Generation generation(model.gpt);
    const auto id = generation.add({7, 7, 7, 7}, options, Rng(1));
    Tokens made;
    const auto make = [&] {
      while (generation.step()) {
        for (const NewToken& t : generation.take(id).tokens) made.push_back(t.token);
      }
    };
    CHECK_THROWS_WITH(make(), ContainsSubstring("the mask breaks"));
    CHECK(made == Tokens(static_cast<std::size_t>(most), 7));
    CHECK_FALSE(generation.step());
    // Steps that nobody takes from have an end, too.
    const auto other = generation.add({7, 7, 7, 7}, options, Rng(1));
    for (int i = 0; i < 20; ++i) generation.step();
    CHECK_FALSE(generation.step());
    CHECK((most == 0 || std::ssize(generation.take(other).tokens) == most));
    CHECK_THROWS_WITH(generation.take(other), ContainsSubstring("the mask breaks"));
  }
}
