#include <map>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"
#include "tapegrad/tests/sanitized.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::GenerationLimits;
using nn::NewToken;
using nn::Tokens;

namespace {

constexpr std::int64_t kVocabulary = 60, kBlockSize = 560;  // more than two pages

nn::DecoderConfig config_of(bool rope) {
  nn::DecoderConfig config = tiny_config();
  config.vocab_size = kVocabulary;
  config.block_size = kBlockSize;
  config.n_embd = 64;
  config.n_head = 4;
  config.n_kv_head = 2;
  if (rope) config.positions = nn::Positions::rotary, config.ngrams = 3;
  if (rope) config.n_layer = 3, config.mixer_pattern = "ACA";
  return config;
}

// A model whose matrices are packed as this type.
struct Model {
  Model(bool rope, std::string_view type, bool exact = false) {
    params.quantize(&stored_type(type), exact);
    gpt.emplace(params, config_of(rope));
    randomize(params.parameters(), rng, 0.25);
  }
  Rng rng{11};
  nn::Params params{rng};
  std::optional<nn::Decoder> gpt;
};

// Odd tokens only, or even ones, by turns.
class Parity : public nn::TokenMask {
 public:
  void allow(std::span<float> logits) override {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (i % 2 == parity_) logits[i] = -INFINITY;
    }
  }
  void accept(std::int32_t token) override {
    check(static_cast<std::size_t>(token) % 2 != parity_, "token {} was not allowed", token);
    parity_ = 1 - parity_;
  }
  std::unique_ptr<nn::TokenMask> clone() const override { return std::make_unique<Parity>(*this); }

 private:
  std::size_t parity_ = 0;
};

Tokens random_tokens(Rng& rng, std::int64_t count) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(rng.randint(kVocabulary)));
  }
  return tokens;
}

struct Text {
  Tokens prompt;
  GenerateOptions options;
  std::uint64_t seed;
  std::int64_t arrives, leaves;  // steps
  std::vector<NewToken> made = {};
};

// Begins as one of the stems, so far as chance will have it.
Text random_text(Rng& rng, const std::vector<Tokens>& stems, std::uint64_t seed) {
  Text text{.prompt = stems[rng.randint(std::ssize(stems))],
            .options = {},
            .seed = seed,
            .arrives = rng.randint(40),
            .leaves = 0};
  text.prompt.resize(static_cast<std::size_t>(1 + rng.randint(std::ssize(text.prompt))));
  const Tokens tail = random_tokens(rng, rng.randint(20));
  text.prompt.insert(text.prompt.end(), tail.begin(), tail.end());
  text.leaves = text.arrives + 5 + rng.randint(60);
  GenerateOptions& o = text.options;
  o.max_new_tokens = rng.randint(40);
  o.greedy = rng.randint(3) == 0;
  o.logprobs = true;
  o.kv_cache = rng.randint(8) != 0;
  if (o.kv_cache && rng.randint(2) == 0) o.lookup = 5;
  if (rng.randint(3) == 0) o.mask = std::make_shared<Parity>();
  if (rng.randint(3) == 0) o.logit_bias = {{3, 2.0}, {4, -1.0}};
  if (o.kv_cache && rng.randint(5) == 0) o.prompt_logprobs = 0;
  return text;
}

void check_same(const std::vector<NewToken>& a, const std::vector<NewToken>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logprob == b[i].logprob);  // to the bit
  }
}

// What the text is by itself, in one piece.
std::vector<NewToken> alone(const nn::Decoder& gpt, const Text& text, CacheType cache) {
  const Threads one(1);
  Generation generation(gpt, {.cache = cache, .prompt_chunk = 10'000});
  GenerateOptions options = text.options;
  options.lookup = 0;
  const auto id = generation.add(text.prompt, options, Rng(text.seed));
  while (generation.step()) {
  }
  return generation.take(id).tokens;
}

// Makes the texts, each from the step at which it arrives to the one at which it leaves.
void make_together(const nn::Decoder& gpt, std::vector<Text>& texts,
                   const GenerationLimits& limits) {
  Generation generation(gpt, limits);
  std::map<Generation::Id, Text*> running;
  for (std::int64_t step = 0; step < 40 || !running.empty(); ++step) {
    for (Text& t : texts) {
      if (t.arrives == step) running[generation.add(t.prompt, t.options, Rng(t.seed))] = &t;
    }
    generation.step();
    for (auto at = running.begin(); at != running.end();) {
      Text& t = *at->second;
      const Generation::Taken taken = generation.take(at->first);
      t.made.insert(t.made.end(), taken.tokens.begin(), taken.tokens.end());
      const bool leaves = taken.end || t.leaves == step;
      if (leaves) generation.remove(at->first);
      at = leaves ? running.erase(at) : std::next(at);
    }
    CHECK(generation.kept_positions() <= *limits.kept_positions);
  }
  CHECK(generation.cost().reused_tokens > 1000);
  CHECK(generation.positions() == 0);
  CHECK(generation.used_positions() == generation.kept_positions());
}

}  // namespace

TEST_CASE("texts that begin alike are to the bit what they are alone, however they come and go",
          "[shared_beginnings]") {
  const bool rope = GENERATE(false, true);
  const auto [type, exact, cache] = GENERATE(
      std::tuple("f32", false, CacheType::f32), std::tuple("q8_0", true, CacheType::f32),
      std::tuple("q8_0", false, CacheType::f16), std::tuple("q8_0", false, CacheType::q8_0));
  const Model model(rope, type, exact);
  REQUIRE(model.gpt->all_quantized());
  Rng rng(rope ? 5 : 6);
  const std::vector<Tokens> stems = {random_tokens(rng, 20), random_tokens(rng, 300),
                                     random_tokens(rng, 520)};
  std::vector<Text> texts;
  for (std::uint64_t i = 0; i < 30; ++i) texts.push_back(random_text(rng, stems, 100 + i));
  GenerationLimits limits{.max_sequences = 30, .cache = cache};
  if (rng.randint(2) == 0) limits.prompt_chunk = 1 + rng.randint(100);
  limits.kept_positions = rng.randint(2000);
  std::vector<std::vector<NewToken>> right;
  for (const Text& t : texts) right.push_back(alone(*model.gpt, t, cache));
  for (const int count : kSanitized ? std::vector{3} : std::vector{1, 2, 3, 5}) {
    const Threads threads(count);
    for (Text& t : texts) t.made.clear();
    make_together(*model.gpt, texts, limits);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO("rope " << rope << ", weights " << type << ", threads " << count << ", text " << i);
      // A text may have left before its end.
      const std::vector<NewToken>& made = texts[i].made;
      REQUIRE(made.size() <= right[i].size());
      check_same(made, {right[i].begin(), right[i].begin() + std::ssize(made)});
    }
  }
}

TEST_CASE("a beginning is read and stored once", "[shared_beginnings]") {
  const Model model(true, "q8_0");
  Rng rng(3);
  const Tokens stem = random_tokens(rng, 500);
  const auto with = [&](std::int32_t last) {
    Tokens prompt = stem;
    prompt.push_back(last);
    return prompt;
  };
  Generation generation(*model.gpt, {.max_sequences = 4});
  const GenerateOptions options{.max_new_tokens = 3};
  SECTION("by texts side by side, even if they come at once") {
    std::vector<Generation::Id> ids;
    for (const std::int32_t last : {1, 2, 3})
      ids.push_back(generation.add(with(last), options, Rng(1)));
    while (generation.step()) {
    }
    CHECK(generation.cost().prompt_tokens == 501 + 0);  // what is left of the others is one token
    CHECK(generation.cost().reused_tokens == 2 * 500);
    CHECK(generation.used_positions() == 256 + 3 * 256);  // the second page goes on differently
    for (const auto id : ids) CHECK(generation.take(id).tokens.size() == 3);
  }
  SECTION("by texts one after the other") {
    const auto first = generation.add(with(1), options, Rng(1));
    while (generation.step()) {
    }
    generation.remove(first);
    CHECK(generation.sequences() == 0);
    CHECK(generation.positions() == 0);
    CHECK(generation.kept_positions() >= 502);
    generation.add(with(2), options, Rng(1));
    CHECK(generation.cost().reused_tokens == 500);
    while (generation.step()) {
    }
    CHECK(generation.cost().prompt_tokens == 501);
  }
  SECTION("by the next turn of a chat, of which the answer is a part") {
    Tokens text = stem;
    const auto first = generation.add(text, {.max_new_tokens = 30}, Rng(1));
    while (generation.step()) {
    }
    for (const NewToken& t : generation.take(first).tokens) text.push_back(t.token);
    generation.remove(first);
    text.push_back(5);
    generation.add(text, options, Rng(1));
    CHECK(generation.cost().reused_tokens == 529);  // nobody has read the last token
  }
  SECTION("not by a prompt that is to be scored") {
    generation.add(with(1), options, Rng(1));
    generation.step();
    GenerateOptions scored = options;
    scored.prompt_logprobs = 0;
    generation.add(with(1), scored, Rng(1));
    while (generation.step()) {
    }
    CHECK(generation.cost().reused_tokens == 0);
  }
}

TEST_CASE("what is kept gives way to texts that run, the longest unused first",
          "[shared_beginnings]") {
  const Model model(false, "f32");
  Rng rng(4);
  const std::vector<Tokens> stems = {random_tokens(rng, 100), random_tokens(rng, 100),
                                     random_tokens(rng, 100)};
  Generation generation(*model.gpt, {.max_sequences = 2, .max_positions = 400});
  const auto run = [&](const Tokens& prompt) {
    const std::int64_t before = generation.cost().reused_tokens;
    const auto id = generation.add(prompt, {.max_new_tokens = 2}, Rng(1));
    while (generation.step()) {
    }
    generation.remove(id);
    return generation.cost().reused_tokens - before;
  };
  for (const Tokens& stem : stems) CHECK(run(stem) == 0);
  CHECK(run(stems[0]) == 99);
  // 112 positions are free beside the three; that of stems[1] has not been used for the longest.
  const auto long_one = generation.add(Tokens(160, 7), {.max_new_tokens = 1}, Rng(1));
  CHECK(generation.kept_positions() <= 240);
  generation.remove(long_one);
  CHECK(run(stems[0]) == 99);
  CHECK(run(stems[1]) == 0);
  // A text takes over what it begins with before room is made.
  Tokens longer = stems[0];
  longer.resize(390, 9);
  CHECK(run(longer) == 100);
}

TEST_CASE("what a short text takes over of a long one has room for no more than the short one",
          "[shared_beginnings]") {
  const Model model(true, "f32");
  Rng rng(5);
  const Tokens stem = random_tokens(rng, 250);
  Generation generation(*model.gpt, {.max_sequences = 4});
  const auto long_one = generation.add(stem, {.max_new_tokens = 2}, Rng(1));
  while (generation.step()) {
  }
  const std::int64_t before = generation.used_positions();
  for (int i = 0; i < 3; ++i) {
    generation.add(Tokens(stem.begin(), stem.begin() + 25), {.max_new_tokens = 4}, Rng(2));
  }
  CHECK(generation.cost().reused_tokens == 3 * 24);
  while (generation.step()) {
  }
  CHECK(generation.used_positions() == before + 3 * 32);  // 28, in whole panels
  generation.remove(long_one);
}

TEST_CASE("a q8_0 cache needs keys of whole blocks", "[shared_beginnings]") {
  nn::DecoderConfig config = config_of(true);
  config.n_embd = 48, config.n_layer = 2, config.mixer_pattern.clear();
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder gpt(params, config);
  CHECK_THROWS_WITH(Generation(gpt, {.cache = CacheType::q8_0}),
                    ContainsSubstring("multiple of 32 channels, not 24"));
  CHECK(nn::cache_bytes_per_position(config, CacheType::f16) == 2 * 2 * 24 * 2);
}
