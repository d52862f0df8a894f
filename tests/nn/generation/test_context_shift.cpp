// Texts that go on beyond block_size by Context::shift.

#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::Tokens;

namespace {

nn::DecoderConfig config_of(nn::Positions positions, int layers) {
  nn::DecoderConfig config = tiny_config();
  config.block_size = 20;
  config.n_layer = layers;
  config.n_embd = 24;
  config.positions = positions;
  return config;
}

struct Model {
  explicit Model(const nn::DecoderConfig& config, DType dtype = DType::f32)
      : params(rng, dtype), gpt(params, config) {
    randomize(params.parameters(), rng, 0.3);
  }
  Rng rng{17};
  nn::Params params;
  nn::Decoder gpt;

  Tokens text(std::int64_t n) {
    Tokens tokens;
    for (std::int64_t i = 0; i < n; ++i) tokens.push_back(std::int32_t(rng.randint(11)));
    return tokens;
  }
};

Tensor row(const Tokens& tokens) { return Tensor::from(tokens, {1, std::ssize(tokens)}); }

// The logprobs of a text of the model that goes on by shifting.
std::vector<nn::NewToken> shifted(const nn::Decoder& gpt, const Tokens& prompt, std::int64_t count,
                                  std::int64_t lookup = 0) {
  Generation generation(gpt);
  const auto id = generation.add(prompt,
                                 {.max_new_tokens = count,
                                  .temperature = 0.7,
                                  .logprobs = true,
                                  .lookup = lookup,
                                  .context = nn::Context::shift},
                                 Rng(4));
  while (generation.step()) {
  }
  return generation.take(id).tokens;
}

// What the model sees of a text by the rule of Context::shift.
Tokens seen(const Tokens& text, std::int64_t block) {
  Tokens result = text;
  const std::int64_t half = (block - nn::kSinks + 1) / 2;
  while (std::ssize(result) > block) {
    result.erase(result.begin() + nn::kSinks, result.begin() + nn::kSinks + half);
  }
  return result;
}

void check_same(const std::vector<nn::NewToken>& a, const std::vector<nn::NewToken>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logprob == b[i].logprob);
  }
}

}  // namespace

TEST_CASE("keys that move are those that are computed anew at the new positions", "[shift]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  nn::DecoderConfig config = config_of(nn::Positions::rotary, 1);
  config.block_size = 300;
  const int kind = GENERATE(0, 1, 2, 3, 4);
  if (kind == 1) config.n_kv_head = 1, config.qk_norm = true;
  if (kind == 2) config.rope_scaling = nn::RopeScalingKind::linear, config.rope_factor = 3;
  if (kind >= 3) {
    config.rope_scaling = kind == 3 ? nn::RopeScalingKind::llama3 : nn::RopeScalingKind::yarn;
    config.rope_factor = 8;
    config.rope_original_positions = 64;
  }
  Model model(config, dtype);
  const Tokens text = model.text(300);
  Tokens rest(text.begin(), text.begin() + 5);
  rest.insert(rest.end(), text.begin() + 160, text.end());
  nn::KVCache moved, anew;
  model.gpt.last_logits(row(text), moved);
  model.gpt.drop(moved, 5, 160);
  CHECK(moved.length() == 145);
  model.gpt.last_logits(row(rest), anew);
  const auto keys = [](nn::KVCache& cache) {
    const CachedPage& page = *cache.pages()[0];
    Tensor keys = Tensor::empty({145, page.channels()}, page.dtype()), values = keys.clone();
    page.load(0, 145, keys, values, 0);
    return keys;
  };
  const double tolerance = dtype == DType::f32 ? 2e-5 : 1e-12;
  CHECK(difference(keys(moved), keys(anew), 0, tolerance) == "");
  CHECK(difference(model.gpt.last_logits(row({3}), moved), model.gpt.last_logits(row({3}), anew), 0,
                   5 * tolerance) == "");
  CHECK_THROWS_WITH(model.gpt.drop(moved, 5, 160), ContainsSubstring("146 positions have none"));
}

TEST_CASE("a shifted text of one layer, or of learned positions, is that of what the model sees",
          "[shift]") {
  const auto [positions, layers] =
      GENERATE(std::pair(nn::Positions::rotary, 1), std::pair(nn::Positions::none, 1),
               std::pair(nn::Positions::learned, 3));
  Model model(config_of(positions, layers), DType::f64);
  for (const std::int64_t length : {1, 19, 20, 21, 50}) {
    INFO(length << " tokens of a prompt");
    Tokens text = model.text(length);
    for (const nn::NewToken& t : shifted(model.gpt, text, 60)) {
      const Tensor logits = model.gpt.last_logits(row(seen(text, 20)));
      CHECK(nn::LogProbabilities(logits.to(DType::f32).values<float>())[t.token] ==
            Approx(t.logprob).margin(1e-5));
      text.push_back(t.token);
    }
  }
}

TEST_CASE("a shifted text does not depend on threads, on others, and on lookup", "[shift]") {
  const auto positions = GENERATE(nn::Positions::rotary, nn::Positions::learned);
  nn::DecoderConfig config = config_of(positions, 3);
  config.ngrams = 3;
  config.mixer_pattern = positions == nn::Positions::rotary ? "ACA" : "ADA";
  Model model(config);
  const Tokens prompt = model.text(7);
  const auto alone = shifted(model.gpt, prompt, 150);
  CHECK(alone.size() == 150);
  check_same(shifted(model.gpt, prompt, 150, 8), alone);
  const Threads threads(3);
  check_same(shifted(model.gpt, prompt, 150), alone);
  Generation generation(model.gpt);
  const GenerateOptions options{.max_new_tokens = 150,
                                .temperature = 0.7,
                                .logprobs = true,
                                .lookup = 5,
                                .context = nn::Context::shift};
  generation.add(model.text(3), options, Rng(1));
  for (int i = 0; i < 11; ++i) generation.step();
  const auto id = generation.add(prompt, options, Rng(4));
  generation.add(model.text(70), options, Rng(2));
  GenerateOptions exact = options;
  exact.context = nn::Context::exact;
  generation.add(model.text(18), exact, Rng(3));
  const std::int64_t each = nn::cached_positions(20, model.gpt.config);
  while (generation.step()) CHECK(generation.positions() == 4 * each);  // whatever their lengths
  check_same(generation.take(id).tokens, alone);
}

TEST_CASE("a shifted prompt may be read in pieces", "[shift]") {
  Model model(config_of(nn::Positions::learned, 2), DType::f64);
  const Tokens prompt = model.text(50);
  const GenerateOptions options{
      .max_new_tokens = 40, .greedy = true, .context = nn::Context::shift};
  const Tokens whole = nn::stream(model.gpt, prompt, options, 1).tokens();
  Generation generation(model.gpt, {.prompt_chunk = 3});
  const auto id = generation.add(prompt, options, Rng(1));
  Tokens text;
  while (generation.step()) {
    for (const nn::NewToken& t : generation.take(id).tokens) text.push_back(t.token);
  }
  for (const nn::NewToken& t : generation.take(id).tokens) text.push_back(t.token);
  CHECK(text == whole);
}

TEST_CASE("what cannot be shifted is an error", "[shift]") {
  nn::DecoderConfig config = config_of(nn::Positions::learned, 1);
  config.block_size = 5;
  const Model model(config);
  const GenerateOptions shift{.max_new_tokens = 3, .context = nn::Context::shift};
  CHECK_THROWS_WITH(nn::generate(model.gpt, {{1}}, shift),
                    "context shift keeps the first 4 tokens and half of the others, for which a "
                    "block_size of 5 is too small");
  GenerateOptions uncached = shift;
  uncached.kv_cache = false;
  CHECK_THROWS_WITH(uncached.validate(), "context shift needs the KV cache");
  nn::KVCache cache;
  model.gpt.last_logits(row({1, 2, 3}), cache);
  CHECK_THROWS_WITH(model.gpt.drop(cache, 0, 1), ContainsSubstring("learned positions"));
}
