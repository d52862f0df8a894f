#include <map>

#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::TextEnd;

namespace {

using Tokens = std::vector<std::int32_t>;

nn::DecoderConfig config_of(bool rope) {
  nn::DecoderConfig config = tiny_config();
  config.vocab_size = 50;
  config.block_size = 24;
  config.n_embd = 60;  // no multiple of a register's width
  config.n_head = 3;
  if (rope) config.positions = nn::Positions::rotary, config.ngrams = 3;
  if (rope) config.n_layer = 3, config.mixer_pattern = "CAD";
  return config;
}

struct Model {
  explicit Model(const nn::DecoderConfig& config) : params(rng), gpt(params, config) {
    randomize(params.parameters(), rng, 0.25);
  }
  Rng rng{11};
  nn::Params params;
  nn::Decoder gpt;

  // What a prompt becomes without others.
  Tokens alone(const Tokens& prompt, const GenerateOptions& options, std::uint64_t seed) const {
    return nn::stream(gpt, prompt, options, seed).tokens();
  }
};

Tokens tokens_of(const std::vector<NewToken>& list) {
  Tokens tokens;
  for (const NewToken& t : list) tokens.push_back(t.token);
  return tokens;
}

// One of many texts, and what became of it.
struct Text {
  Tokens prompt;
  GenerateOptions options;
  std::uint64_t seed;
  std::int64_t arrives, leaves;  // steps
  Tokens made = {};
  std::optional<TextEnd> end = {};
};

Text random_text(Rng& rng, std::uint64_t seed) {
  Text text{.prompt = {}, .options = {}, .seed = seed, .arrives = rng.randint(30), .leaves = 0};
  const std::int64_t length = 1 + rng.randint(30);  // beyond block_size at times
  for (std::int64_t i = 0; i < length; ++i) {
    text.prompt.push_back(static_cast<std::int32_t>(rng.randint(50)));
  }
  text.leaves = text.arrives + 1 + rng.randint(40);
  text.options.max_new_tokens = rng.randint(35);
  text.options.greedy = rng.randint(4) == 0;
  text.options.temperature = 0.5 + rng.uniform_double();
  if (rng.randint(2) == 0) text.options.top_k = 1 + rng.randint(20);
  if (rng.randint(3) == 0) text.options.top_p = 0.8;
  if (rng.randint(3) == 0) text.options.repetition_penalty = 1.3;
  if (rng.randint(3) == 0) text.options.stop_tokens = {7, 9, 13, 21, 30, 42};
  if (rng.randint(3) == 0) text.options.presence_penalty = 0.7;
  if (rng.randint(3) == 0) text.options.frequency_penalty = 0.4;
  if (rng.randint(3) == 0) text.options.typical_p = 0.7;
  text.options.min_tokens = std::min(rng.randint(6), text.options.max_new_tokens);
  text.options.kv_cache = rng.randint(5) != 0;
  return text;
}

}  // namespace

TEST_CASE("texts that come and go at random become what they become alone", "[generation]") {
  const bool rope = GENERATE(false, true);
  const Model model(config_of(rope));
  const Threads threads(GENERATE(1, 3));
  Rng rng(5);
  std::vector<Text> texts;
  for (std::uint64_t i = 0; i < 24; ++i) texts.push_back(random_text(rng, 100 + i));
  Generation generation(model.gpt, {.max_sequences = 24});
  std::map<Generation::Id, Text*> running;
  std::int64_t most = 0;
  for (std::int64_t step = 0; step < 75; ++step) {
    for (Text& t : texts) {
      if (t.arrives == step) running[generation.add(t.prompt, t.options, Rng(t.seed))] = &t;
    }
    most = std::max(most, generation.sequences());
    generation.step();
    for (auto at = running.begin(); at != running.end();) {
      Text& t = *at->second;
      const Generation::Taken taken = generation.take(at->first);
      const Tokens fresh = tokens_of(taken.tokens);
      t.made.insert(t.made.end(), fresh.begin(), fresh.end());
      t.end = taken.end;
      const bool leaves = taken.end || t.leaves == step;
      if (leaves) generation.remove(at->first);
      at = leaves ? running.erase(at) : std::next(at);
    }
  }
  CHECK(most > 8);
  CHECK(generation.sequences() == 0);
  CHECK(generation.positions() == 0);
  int stopped = 0;
  for (const Text& t : texts) {
    INFO("rope " << rope << ", seed " << t.seed);
    GenerateOptions options = t.options;
    if (!t.end) options.max_new_tokens = std::ssize(t.made);  // it was removed
    options.min_tokens = std::min(options.min_tokens, options.max_new_tokens);
    CHECK(t.made == model.alone(t.prompt, options, t.seed));
    for (const std::int32_t stop : options.stop_tokens) {
      CHECK(std::find(t.made.begin(), t.made.end(), stop) == t.made.end());
    }
    if (t.end == TextEnd::length) CHECK(std::ssize(t.made) == t.options.max_new_tokens);
    stopped += t.end == TextEnd::stop_token ? 1 : 0;
  }
  CHECK(stopped > 0);
}

TEST_CASE("a prompt is read in pieces while others go on", "[generation]") {
  const Model model(config_of(true));
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const GenerateOptions options{.max_new_tokens = 6, .greedy = true};
  Generation generation(model.gpt, {.prompt_chunk = 4});
  const auto other = generation.add({3}, options, Rng(1));
  const auto id = generation.add(prompt, options, Rng(1));
  std::vector<std::size_t> counts;  // of new tokens of the prompt's text in each step
  Tokens text;
  while (generation.step()) {
    const Tokens fresh = tokens_of(generation.take(id).tokens);
    counts.push_back(fresh.size());
    text.insert(text.end(), fresh.begin(), fresh.end());
  }
  CHECK(std::vector(counts.begin(), counts.begin() + 4) == std::vector<std::size_t>{0, 0, 1, 1});
  const Tokens last = tokens_of(generation.take(id).tokens);
  text.insert(text.end(), last.begin(), last.end());
  CHECK(text == model.alone(prompt, options, 1));
  CHECK(tokens_of(generation.take(other).tokens) == model.alone({3}, options, 1));
}

TEST_CASE("a text beyond the block is read in pieces while others go on", "[generation]") {
  const Model model(config_of(GENERATE(false, true)));
  const Tokens prompt(23, 5);
  const GenerateOptions options{.max_new_tokens = 6, .greedy = true};
  Generation generation(model.gpt, {.prompt_chunk = 8});
  const auto id = generation.add(prompt, options, Rng(1));
  const std::int64_t each = nn::cached_positions(24, model.gpt.config);
  CHECK(generation.positions() == each);
  const auto beyond = generation.add(Tokens(40, 6), options, Rng(1));
  CHECK(generation.positions() == 2 * each);
  const auto other = generation.add({3}, {.max_new_tokens = 24, .greedy = true}, Rng(1));
  Tokens text, second;
  std::vector<std::int64_t> steps;  // with a token of the first text
  std::int64_t step = 0;
  while (generation.step()) {
    CHECK(generation.take(other).tokens.size() == (step < 24 ? 1 : 0));  // in each step
    for (const NewToken& t : generation.take(id).tokens) {
      text.push_back(t.token);
      steps.push_back(step);
    }
    const Tokens fresh = tokens_of(generation.take(beyond).tokens);
    second.insert(second.end(), fresh.begin(), fresh.end());
    ++step;
  }
  // 23 tokens in three pieces, by turns with the other text that reads; the 24th beside that of the
  // text that goes on; then windows of three pieces each, again by turns.
  CHECK(steps == std::vector<std::int64_t>{4, 5, 10, 16, 22, 28});
  CHECK(text == model.alone(prompt, options, 1));
  const Tokens last = tokens_of(generation.take(beyond).tokens);
  second.insert(second.end(), last.begin(), last.end());
  CHECK(second == model.alone(Tokens(40, 6), options, 1));
}

TEST_CASE("places and positions are limited, and free again when a sequence is removed",
          "[generation]") {
  const Model model(config_of(false));
  Generation generation(model.gpt, {.max_sequences = 2, .max_positions = 30});
  const auto first = generation.add({1, 2, 3, 4, 5}, {.max_new_tokens = 100}, Rng(1));
  CHECK(generation.positions() == 24);  // of block_size
  CHECK_FALSE(generation.has_room(4, {.max_new_tokens = 4}));
  CHECK_THROWS_WITH(generation.add({1, 2, 3, 4}, {.max_new_tokens = 4}, Rng(1)),
                    "[generation] 4 tokens and 4 new ones need 7 positions in the cache, of which "
                    "6 of 30 are free");
  CHECK(generation.has_room(4, {.max_new_tokens = 3}));
  const auto second = generation.add({1, 2, 3, 4}, {.max_new_tokens = 3}, Rng(1));
  CHECK_THROWS_WITH(generation.add({1}, {.max_new_tokens = 1}, Rng(1)),
                    "[generation] 2 sequences are running, which is max_sequences");
  generation.step();
  generation.remove(first);
  CHECK(generation.positions() == 6);
  CHECK_THROWS_WITH(generation.take(first), "[generation] there is no sequence 1");
  const auto third = generation.add({1, 2, 3, 4, 5}, {.max_new_tokens = 100}, Rng(1));
  CHECK(third != first);
  generation.remove(second);
  generation.remove(third);
  CHECK(generation.positions() == 0);
  CHECK_FALSE(generation.step());
}

TEST_CASE("prompts and limits that make no sense are errors", "[generation]") {
  const Model model(config_of(false));
  Generation generation(model.gpt);
  CHECK_THROWS_WITH(generation.add({}, {}, Rng(1)), ContainsSubstring("at least one token"));
  CHECK_THROWS_WITH(generation.add({1, 50}, {}, Rng(1)), ContainsSubstring("token 50"));
  CHECK_THROWS_WITH(generation.add({1}, {.temperature = 0}, Rng(1)),
                    ContainsSubstring("temperature"));
  CHECK(generation.sequences() == 0);
  CHECK_THROWS_WITH(Generation(model.gpt, {.max_sequences = 0}),
                    ContainsSubstring("max_sequences"));
  CHECK_THROWS_WITH(Generation(model.gpt, {.prompt_chunk = 0}), ContainsSubstring("prompt_chunk"));
}

TEST_CASE("more prompts than places follow each other", "[generation]") {
  const Model model(config_of(false));
  std::vector<Tokens> prompts;
  for (std::int32_t i = 0; i < 40; ++i) {
    prompts.push_back(Tokens(static_cast<std::size_t>(1 + i % 7), i));
  }
  const GenerateOptions options{.max_new_tokens = 5};
  const auto texts = nn::generate(model.gpt, prompts, options, 0);
  for (std::size_t i = 0; i < 40; ++i) CHECK(texts[i] == model.alone(prompts[i], options, i));
}

TEST_CASE("rows that stand for no token are not drawn, and no probability counts them",
          "[generation]") {
  Model model(config_of(false));
  const Tokens prompt{1, 2, 3};
  const GenerateOptions options{.max_new_tokens = 40, .temperature = 5, .top_k = 50};
  const auto scored = [&](Generation& generation, GenerateOptions how) {
    how.logprobs = true;
    how.top_logprobs = 50;
    const auto id = generation.add(prompt, how, Rng(3));
    std::vector<NewToken> all;
    for (bool ended = false; !ended;) {
      generation.step();
      auto taken = generation.take(id);
      ended = taken.end.has_value();
      all.insert(all.end(), taken.tokens.begin(), taken.tokens.end());
    }
    return all;
  };
  const auto ids = [&] { return model.alone(prompt, options, 3); };
  const Tokens before = ids();
  REQUIRE(std::any_of(before.begin(), before.end(), [](std::int32_t t) { return t >= 5; }));
  std::vector<std::int32_t> padding;
  for (std::int32_t t = 5; t < 50; ++t) padding.push_back(t);
  model.gpt.rule_out(padding);
  for (const std::int32_t t : ids()) CHECK(t < 5);
  Generation generation(model.gpt);
  for (const NewToken& t : scored(generation, options)) {
    CHECK(t.top.size() == 5);
    double sum = 0;
    for (const nn::TokenLogprob& one : t.top) sum += std::exp(one.logprob);
    CHECK(sum == Approx(1).epsilon(1e-6));
  }
  // A draft proposes none of them either, and losses count all rows, as in training.
  GenerateOptions guessed = options;
  guessed.draft = &model.gpt;
  CHECK(model.alone(prompt, guessed, 3) == ids());
  const Tensor logits = model.gpt(Tensor::from(Tokens{1, 2}, {1, 2}));
  CHECK(std::isfinite(logits.at(49)));
  CHECK_THROWS_WITH(model.gpt.rule_out(std::vector<std::int32_t>{50}),
                    ContainsSubstring("[rule_out] token 50 is not one of the 50"));
  padding = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (std::int32_t t = 10; t < 50; ++t) padding.push_back(t);
  CHECK_THROWS_WITH(model.gpt.rule_out(padding), ContainsSubstring("no token is left of 50"));
}
