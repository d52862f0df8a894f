#include <algorithm>
#include <map>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/generation/speculative/lookup.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::Tokens;

namespace {

struct Model {
  Model(bool rope, DType dtype, const char* mixers = "")
      : params(rng, dtype), gpt(params, config_of(rope, mixers)) {
    randomize(params.parameters(), rng, 0.3);
  }
  static nn::DecoderConfig config_of(bool rope, const char* mixers) {
    nn::DecoderConfig config = tiny_config();
    config.block_size = 40;
    config.n_embd = 60;  // no multiple of a register's width
    config.n_head = 3;
    if (rope) config.positions = nn::Positions::rotary;
    if (rope) config.n_kv_head = 1, config.ngrams = 3;
    config.mixer_pattern = mixers;
    return config;
  }
  Rng rng{11};
  nn::Params params;
  nn::Decoder gpt;
};

// What became of a text.
struct Made {
  std::vector<NewToken> tokens = {};
  std::int64_t steps = 0;
  std::optional<nn::TextEnd> end = {};
};

void check_same(const Made& a, const Made& b) {
  REQUIRE(a.tokens.size() == b.tokens.size());
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    CHECK(a.tokens[i].token == b.tokens[i].token);
    CHECK(a.tokens[i].logprob == b.tokens[i].logprob);
  }
}

struct Text {
  Tokens prompt;
  GenerateOptions options;
  std::uint64_t seed;
  std::int64_t arrives, leaves;  // steps
};

constexpr std::int64_t kArrivals = 150;  // steps in which texts arrive

Text random_text(Rng& rng, std::uint64_t seed) {
  Text text{.prompt = {},
            .options = {.max_new_tokens = 1 + rng.randint(45), .logprobs = true},
            .seed = seed,
            .arrives = rng.randint(kArrivals),
            .leaves = 1000};
  const std::int64_t period = 1 + rng.randint(6), length = 1 + rng.randint(20);
  for (std::int64_t i = 0; i < length; ++i) {
    text.prompt.push_back(i < period ? static_cast<std::int32_t>(rng.randint(11))
                                     : text.prompt[static_cast<std::size_t>(i - period)]);
  }
  text.options.greedy = rng.randint(3) == 0;
  text.options.temperature = 0.1 + 0.3 * rng.uniform_double();
  if (rng.randint(3) == 0) text.options.repetition_penalty = 1.1;
  if (rng.randint(3) == 0) text.options.stop_tokens = {7};
  if (rng.randint(3) == 0) text.options.frequency_penalty = 0.1;
  if (rng.randint(3) == 0) {
    text.options.min_tokens = std::min<std::int64_t>(9, text.options.max_new_tokens);
  }
  if (rng.randint(3) == 0) text.leaves = text.arrives + 1 + rng.randint(15);
  text.options.lookup = rng.randint(4) == 0 ? 0 : 1 + rng.randint(12);
  return text;
}

// All texts side by side, each from its step on: mostly one to five at once, since more propose
// nothing.
std::vector<Made> made_together(const nn::Decoder& gpt, const std::vector<Text>& texts) {
  Generation generation(gpt, {.max_sequences = std::ssize(texts)});
  std::vector<Made> made(texts.size());
  std::map<std::size_t, Generation::Id> running;
  for (std::int64_t step = 0; step < kArrivals || !running.empty(); ++step) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].arrives != step) continue;
      running[i] = generation.add(texts[i].prompt, texts[i].options, Rng(texts[i].seed));
    }
    generation.step();
    std::erase_if(running, [&](const auto& entry) {
      Made& m = made[entry.first];
      const Generation::Taken taken = generation.take(entry.second);
      m.tokens.insert(m.tokens.end(), taken.tokens.begin(), taken.tokens.end());
      m.end = taken.end;
      m.steps += 1;
      const bool leaves = m.end || texts[entry.first].leaves <= step;
      if (leaves) generation.remove(entry.second);
      return leaves;
    });
  }
  CHECK(generation.positions() == 0);
  return made;
}

Made made_alone(const nn::Decoder& gpt, Text text, const Made& like) {
  text.options.lookup = 0;
  text.arrives = 0, text.leaves = 1000;
  nn::GenerateOptions& options = text.options;
  if (!like.end) options.max_new_tokens = std::ssize(like.tokens);  // it was removed
  options.min_tokens = std::min(options.min_tokens, options.max_new_tokens);
  return made_together(gpt, {text})[0];
}

}  // namespace

TEST_CASE("proposals are what followed the latest of the longest matches", "[lookup]") {
  const auto proposal = [](const Tokens& text, std::int64_t most) {
    return nn::Lookup().propose(text, most, Rng(1));
  };
  CHECK(proposal({1, 2, 3, 4, 9, 2, 3, 5, 7, 1, 2, 3}, 8) == Tokens{4, 9});
  CHECK(proposal({2, 3, 5, 2, 3, 7, 2, 3}, 8) == Tokens{7, 2});
  CHECK(proposal({2, 3, 5, 2, 3, 7, 2, 3}, 1) == Tokens{7});
  CHECK(proposal({2, 3, 5, 2, 3, 7, 2, 3}, 0).empty());
  CHECK(proposal({5, 1, 2, 1, 2}, 8) == Tokens{1, 2});  // a text that repeats itself goes on
  CHECK(proposal({5, 5, 5}, 8) == Tokens{5, 5});
  CHECK(proposal({1, 2, 3, 3}, 8).empty());  // one token is no match
  CHECK(proposal({1, 2}, 8).empty());
  CHECK(proposal({}, 8).empty());
}

TEST_CASE("proposals become longer while they are right, and rare while they are wrong",
          "[lookup]") {
  const Tokens text(20, 5);
  nn::Lookup lookup;
  for (const std::size_t size : {2, 4, 8, 16}) {
    CHECK(lookup.propose(text, 16, Rng(1)).size() == size);
    lookup.learn(std::int64_t(size), std::int64_t(size));
  }
  std::int64_t wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto guessed = std::ssize(lookup.propose(text, 16, Rng(1)));
    if (guessed > 0) lookup.learn(guessed, 0);
    wrong += guessed;
  }
  CHECK(wrong < 45);
  for (int i = 0; i < 200; ++i) {
    const auto guessed = std::ssize(lookup.propose(text, 16, Rng(1)));
    if (guessed > 0) lookup.learn(guessed, guessed);
  }
  CHECK(lookup.propose(text, 16, Rng(1)).size() == 16);
}

TEST_CASE("texts with lookup are those without it, to the bit, whoever runs beside them",
          "[lookup]") {
  const auto [rope, mixers] = GENERATE(std::pair(false, ""), std::pair(true, ""),
                                       std::pair(true, "AC"), std::pair(true, "AD"));
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const int threads = GENERATE(1, 2, 3);
  INFO("rope " << rope << ", mixers " << mixers << ", " << name_of(dtype) << ", threads "
               << threads);
  const Model model(rope, dtype, mixers);
  const Threads limit(threads);
  Rng rng(5);
  std::vector<Text> texts;
  for (std::uint64_t i = 0; i < 20; ++i) texts.push_back(random_text(rng, 100 + i));
  const std::vector<Made> together = made_together(model.gpt, texts);
  std::int64_t tokens = 0, steps = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INFO("text " << i);
    check_same(together[i], made_alone(model.gpt, texts[i], together[i]));
    tokens += texts[i].options.lookup > 0 ? std::ssize(together[i].tokens) : 0;
    steps += texts[i].options.lookup > 0 ? together[i].steps : 0;
  }
  if (*mixers == '\0') CHECK(steps + 10 < tokens);  // some proposals were right
}

TEST_CASE("several rows of one sequence have the bits that they have one after the other",
          "[lookup]") {
  const bool rope = GENERATE(false, true);
  const auto* const mixers = GENERATE("", "AC", "DA", "P", "NA");
  const Model model(rope, DType::f32, mixers);
  const Tokens text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, other = {2, 7, 1};
  const auto read = [&](const Tokens& tokens, const std::vector<nn::KVCache*>& caches) {
    return model.gpt.last_logits(Tensor::from(tokens, {std::ssize(tokens), 1}), caches);
  };
  nn::KVCache alone, rows, beside;
  std::vector<Tensor> expected;
  for (const std::int32_t token : text) expected.push_back(read({token}, {&alone}));
  read({3}, {&rows});
  read({2, 1}, {&beside, &rows});
  CHECK(nn::lengths_of(std::vector{&beside, &rows, &rows, &rows}) ==
        std::vector<std::int64_t>{1, 2, 3, 4});
  const Tensor three = read({7, 4, 1, 5}, {&beside, &rows, &rows, &rows});
  for (std::int64_t i = 0; i < 3; ++i) {
    CHECK(same_bits(three.rows(1 + i, 2 + i), expected[static_cast<std::size_t>(2 + i)]));
  }
  // What was guessed wrongly leaves no trace.
  read({0, 0, 8}, {&rows, &rows, &rows});
  rows.truncate(5);
  CHECK(rows.length() == 5);
  const Tensor two = read({9, 2}, {&rows, &rows});
  CHECK(same_bits(two.rows(0, 1), expected[5]));
  CHECK(same_bits(two.rows(1, 2), expected[6]));
  CHECK_THROWS_WITH(read({1, 1, 1}, {&rows, &beside, &rows}), ContainsSubstring("side by side"));
  CHECK_THROWS_WITH(model.gpt.last_logits(Tensor::zeros({2, 2}, DType::i32),
                                          std::vector<nn::KVCache*>{&rows, &rows}),
                    ContainsSubstring("there several times"));
}

TEST_CASE("lookup that makes no sense is an error", "[lookup]") {
  CHECK_THROWS_WITH((GenerateOptions{.lookup = -1}.validate()), ContainsSubstring("not -1"));
  CHECK_THROWS_WITH((GenerateOptions{.kv_cache = false, .lookup = 2}.validate()),
                    ContainsSubstring("lookup needs the KV cache"));
}
