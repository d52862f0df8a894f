#include "tapegrad/nn/generation/generate.h"
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
  if (rope) config.positions = nn::Positions::rotary, config.mixer_pattern = "CAA";
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
    return nn::stream(gpt, prompt, {.max_new_tokens = n, .kv_cache = kv_cache}, 3).tokens();
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

TEST_CASE("sequences of any lengths go on side by side, several positions at a time",
          "[kv_cache]") {
  const bool rope = GENERATE(false, true);
  const std::ptrdiff_t at_once = GENERATE(1, 3);
  Model model(wider_config(rope, rope), DType::f64);
  const std::vector<Tokens> texts = {model.random_tokens(40), model.random_tokens(40),
                                     model.random_tokens(40)};
  const auto part = [&](std::size_t text, std::ptrdiff_t begin, std::ptrdiff_t end) {
    return row({texts[text].begin() + begin, texts[text].begin() + end});
  };
  std::vector<nn::KVCache> caches(3);
  const std::ptrdiff_t lengths[] = {5, 1, 22};
  for (std::size_t i = 0; i < 3; ++i) model.gpt.last_logits(part(i, 0, lengths[i]), caches[i]);
  // Twice the last, then the first.
  select(caches, {2, 2, 0});
  const std::size_t source[] = {2, 2, 0};
  for (std::ptrdiff_t t = 0; t < 18; t += at_once) {
    Tokens next;
    for (const std::size_t text : source) {
      const auto begin = texts[text].begin() + lengths[text] + t;
      next.insert(next.end(), begin, begin + at_once);
    }
    const Tensor logits =
        model.gpt.last_logits(Tensor::from(next, {3, at_once}), nn::pointers_to(caches));
    for (std::size_t i = 0; i < 3; ++i) {
      INFO("rope " << rope << ", position " << t << ", row " << i);
      const auto at = static_cast<std::int64_t>(i);
      const Tensor expected =
          model.gpt.last_logits(part(source[i], 0, lengths[source[i]] + t + at_once));
      CHECK(difference(logits.rows(at, at + 1), expected, 0, 1e-13 * largest(expected)) == "");
    }
  }
  CHECK(nn::lengths_of(nn::pointers_to(caches)) == std::vector<std::int64_t>{40, 40, 23});
  CHECK_THROWS_WITH(select(caches, {0, 3, 1}), "[kv_cache] there is no sequence 3 among 3");
}

TEST_CASE("a sequence has the same logits, to the bit, whatever others run beside it",
          "[kv_cache]") {
  const bool rope = GENERATE(false, true);
  nn::DecoderConfig config = wider_config(rope, rope);
  config.n_embd = 72;  // no multiple of a register's width
  Model model(config);
  const Tokens text = model.random_tokens(30), other = model.random_tokens(30);
  nn::KVCache alone;
  std::vector<nn::KVCache> beside(4);
  const auto first = [](const Tokens& tokens, std::ptrdiff_t n) {
    return row({tokens.begin(), tokens.begin() + n});
  };
  CHECK(same_bits(model.gpt.last_logits(first(text, 9), alone),
                  model.gpt.last_logits(first(text, 9), beside[2])));
  for (const std::size_t i : {0, 1, 3}) {
    model.gpt.last_logits(first(other, static_cast<std::ptrdiff_t>(i) + 2), beside[i]);
  }
  for (std::size_t t = 9; t < 30; ++t) {
    const Tensor expected = model.gpt.last_logits(row({text[t]}), alone);
    const Tensor logits =
        model.gpt.last_logits(Tensor::from(Tokens{other[t], other[t], text[t], other[t]}, {4, 1}),
                              nn::pointers_to(beside));
    CHECK(same_bits(logits.rows(2, 3), expected));
  }
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
  CHECK_THROWS_WITH(model.gpt.last_logits(Tensor::zeros({2, 1}, DType::i32), cache),
                    ContainsSubstring("(2, 1) are not those of 1 sequences"));
  CHECK_THROWS_WITH(model.gpt.last_logits(row({1, 2, 3, 4}), cache), ContainsSubstring("7 tokens"));
  CHECK(cache.length() == 3);
  const Tensor after = model.gpt.last_logits(row({4, 5}), cache);
  CHECK(difference(after, model.gpt.last_logits(row({1, 2, 3, 4, 5})), 1e-5, 1e-6) == "");
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
