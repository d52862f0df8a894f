#include "tapegrad/nn/generate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Tokens = std::vector<std::int32_t>;

nn::DecoderConfig wider_config(bool rope, bool separate_qkv) {
  nn::DecoderConfig config = tiny_config();
  config.vocab_size = 50;
  config.block_size = 70;  // more than one tile of the attention kernel
  config.n_layer = 3;
  config.n_embd = 64;
  config.n_head = 4;
  if (rope) config.positions = nn::Positions::rotary;
  config.separate_qkv = separate_qkv;
  return config;
}

struct Model {
  explicit Model(const nn::DecoderConfig& config, DType dtype = DType::f32)
      : params(rng, dtype), gpt(params, config) {
    randomize(params.parameters(), rng, 0.15);
  }
  Rng rng{12};
  nn::Params params;
  nn::GPT gpt;

  Tokens random_tokens(std::int64_t n) {
    Tokens tokens;
    for (std::int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<std::int32_t>(rng.randint(gpt.config.vocab_size)));
    }
    return tokens;
  }
  Tokens run(const Tokens& prompt, bool kv_cache, std::int64_t n) const {
    Rng draws(3);
    return nn::generate(gpt, prompt, {.max_new_tokens = n, .kv_cache = kv_cache}, draws);
  }
};

Tensor row(const Tokens& tokens) {
  return Tensor::from(tokens, {1, static_cast<std::int64_t>(tokens.size())});
}

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : list(t)) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace

TEST_CASE("logits with a KV cache are those without one", "[kv_cache]") {
  const bool rope = GENERATE(false, true), separate = GENERATE(false, true);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  Model model(wider_config(rope, separate), dtype);
  const Tokens tokens = model.random_tokens(70);
  const double tolerance = dtype == DType::f32 ? 5e-6 : 1e-14;
  const std::ptrdiff_t prompt = GENERATE(1, 3, 66, 70);
  INFO("rope " << rope << ", separate " << separate << ", prompt " << prompt);
  nn::KVCache cache;
  Tensor logits = model.gpt.last_logits(row({tokens.begin(), tokens.begin() + prompt}), cache);
  for (std::ptrdiff_t n = prompt; n <= 70; ++n) {
    INFO("after " << n);
    if (n > prompt)
      logits = model.gpt.last_logits(row({tokens[static_cast<std::size_t>(n - 1)]}), cache);
    CHECK(cache.length() == n);
    const Tensor expected = model.gpt.last_logits(row({tokens.begin(), tokens.begin() + n}));
    CHECK(difference(logits, expected, 0, tolerance * largest(expected)) == "");
  }
}

TEST_CASE("a KV cache has sequences side by side, of which some go on", "[kv_cache]") {
  const bool rope = GENERATE(false, true);
  Model model(wider_config(rope, rope), DType::f64);
  const std::vector<Tokens> texts = {model.random_tokens(40), model.random_tokens(40),
                                     model.random_tokens(40)};
  const auto beginning = [&](std::size_t text, std::ptrdiff_t end) {
    return row({texts[text].begin(), texts[text].begin() + end});
  };
  nn::KVCache cache;
  Tokens together;
  for (const Tokens& text : texts) together.insert(together.end(), text.begin(), text.begin() + 5);
  model.gpt.last_logits(Tensor::from(together, {3, 5}), cache);
  // Twice the last, then the first.
  cache.select({2, 2, 0});
  const std::size_t source[] = {2, 2, 0};
  for (std::ptrdiff_t t = 5; t < 40; ++t) {
    Tokens next;
    for (const std::size_t text : source) next.push_back(texts[text][static_cast<std::size_t>(t)]);
    const Tensor logits = model.gpt.last_logits(Tensor::from(next, {3, 1}), cache);
    for (std::size_t i = 0; i < 3; ++i) {
      INFO("rope " << rope << ", position " << t << ", row " << i);
      const auto at = static_cast<std::int64_t>(i);
      const Tensor expected = model.gpt.last_logits(beginning(source[i], t + 1));
      CHECK(difference(logits.rows(at, at + 1), expected, 0, 1e-13 * largest(expected)) == "");
    }
  }
  CHECK(cache.length() == 40);
  CHECK_THROWS_WITH(cache.select({0, 3, 1}), "[kv_cache] there is no sequence 3 among 3");
}

TEST_CASE("texts with a KV cache are those without one, beyond the block size, too", "[kv_cache]") {
  const bool rope = GENERATE(false, true);
  Model model(wider_config(rope, rope));
  for (const std::int64_t prompt : {1, 60, 70, 71, 200}) {
    INFO("rope " << rope << ", prompt " << prompt);
    const Tokens tokens = model.random_tokens(prompt);
    const Tokens text = model.run(tokens, true, 90);
    CHECK(text.size() == 90);
    CHECK(text == model.run(tokens, false, 90));
  }
}

TEST_CASE("what does not fit a KV cache is an error, and leaves it as it was", "[kv_cache]") {
  const Model model(tiny_config());
  nn::KVCache cache;
  CHECK_THROWS_WITH(model.gpt.last_logits(Tensor::zeros({1, 7}, DType::i32), cache),
                    ContainsSubstring("7 tokens is longer than block_size 6"));
  CHECK(cache.length() == 0);
  model.gpt.last_logits(row({1, 2, 3}), cache);
  CHECK_THROWS_WITH(model.gpt.last_logits(row({4, 5}), cache), ContainsSubstring("(1, 2, 8)"));
  CHECK_THROWS_WITH(model.gpt.last_logits(Tensor::zeros({2, 1}, DType::i32), cache),
                    ContainsSubstring("(2, 1, 8) cannot go on after 3 positions of 1 sequences"));
  CHECK(cache.length() == 3);
  const Tensor after = model.gpt.last_logits(row({4}), cache);
  CHECK(difference(after, model.gpt.last_logits(row({1, 2, 3, 4})), 1e-5, 1e-6) == "");
  model.gpt.last_logits(row({4}), cache);
  model.gpt.last_logits(row({4}), cache);
  CHECK_THROWS_WITH(model.gpt.last_logits(row({4}), cache), ContainsSubstring("7 tokens"));
}

TEST_CASE("no tape records what goes through a KV cache", "[kv_cache]") {
  const Model model(tiny_config());
  const Tape tape;
  nn::KVCache cache;
  const Tensor logits = model.gpt.last_logits(row({1, 2}), cache);
  CHECK(tape.size() == 0);
  CHECK_FALSE(tape.tracks(logits));
}
