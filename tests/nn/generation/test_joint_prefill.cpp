// Prompts that are read in one pass with each other and with the newest tokens of texts.
#include "tapegrad/autograd/profile.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::Tokens;

namespace {

constexpr int kLayers = 2;

struct Model {
  explicit Model(bool quantized, const nn::DecoderConfig& like = tiny_config()) {
    nn::DecoderConfig config = like;
    config.vocab_size = 50;
    config.block_size = 1000;
    config.n_embd = 64;
    config.n_layer = kLayers;
    if (quantized) params.quantize(&stored_type("q8_0"), true);
    gpt.emplace(params, config);
    randomize(params.parameters(), rng, 0.25);
  }
  Rng rng{11};
  nn::Params params{rng};
  std::optional<nn::Decoder> gpt;
};

Tokens prompt_of(std::int32_t first, std::int64_t length) {
  Tokens prompt;
  for (std::int64_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<std::int32_t>((first + 7 * i) % 50));
  }
  return prompt;
}

// How often a step goes through the model.
std::int64_t passes_of_step(Generation& generation) {
  const Threads one(1);
  const Profile profile;
  generation.step();
  for (const Profile::Entry& entry : profile.entries()) {
    if (entry.name == "kv_cache") return entry.calls / kLayers;
  }
  return 0;
}

}  // namespace

TEST_CASE("short prompts share one pass with each other and with texts that go on",
          "[generation]") {
  const Model model(true);
  const GenerateOptions options{.max_new_tokens = 4, .greedy = true};
  Generation generation(*model.gpt);
  std::vector<Generation::Id> ids = {generation.add(prompt_of(1, 9), options, Rng(1))};
  CHECK(passes_of_step(generation) == 1);
  const nn::GenerationCost before = generation.cost();
  for (std::int32_t i = 2; i < 7; ++i) {
    ids.push_back(generation.add(prompt_of(i, 5 + i), options, Rng(1)));
  }
  CHECK(passes_of_step(generation) == 1);
  for (const auto id : ids) CHECK(generation.take(id).tokens.size() == (id == ids[0] ? 2 : 1));
  const nn::GenerationCost& cost = generation.cost();
  CHECK(cost.prompt_tokens - before.prompt_tokens == 7 + 8 + 9 + 10 + 11);
  CHECK(cost.tokens - before.tokens == 1);
  CHECK(cost.prefill_seconds > before.prefill_seconds);
  CHECK(cost.seconds > before.seconds);
  CHECK(cost.passes == 0);  // it was no pass over newest tokens alone
  CHECK(passes_of_step(generation) == 1);
  CHECK(cost.passes == 1);
}

TEST_CASE("a long prompt, and one that is scored, are read by themselves", "[generation]") {
  const Model model(true);
  GenerateOptions options{.max_new_tokens = 4, .greedy = true};
  Generation generation(*model.gpt, {.prompt_chunk = 512});
  generation.add(prompt_of(1, 9), options, Rng(1));
  generation.step();
  const bool long_one = GENERATE(true, false);
  if (!long_one) options.prompt_logprobs = 1;
  const auto id = generation.add(prompt_of(2, long_one ? 100 : 10), options, Rng(1));
  CHECK(passes_of_step(generation) == 2);
  CHECK(generation.take(id).tokens.size() == 1);
}

TEST_CASE("prompts of a model that is not quantised are read apart, as bits depend on the rows",
          "[generation]") {
  const Model model(false);
  Generation generation(*model.gpt);
  for (std::int32_t i = 1; i < 4; ++i) generation.add(prompt_of(i, 5), {}, Rng(1));
  CHECK(passes_of_step(generation) == 3);
}

TEST_CASE("prompts that share a pass become what they become alone", "[generation]") {
  nn::DecoderConfig config = tiny_config();
  config.positions = nn::Positions::rotary;
  config.mixer_pattern = GENERATE("", "CA", "DA", "MA", "PA", "NA");
  config.ngrams = 3;
  const Model model(true, config);
  const GenerateOptions options{.max_new_tokens = 20, .logprobs = true};
  const auto text_of = [](Generation& generation, Generation::Id id) {
    std::vector<std::pair<std::int32_t, double>> text;
    for (const NewToken& t : generation.take(id).tokens) text.emplace_back(t.token, t.logprob);
    return text;
  };
  const Threads threads(GENERATE(1, 3));
  Generation together(*model.gpt);
  std::vector<Generation::Id> ids;
  for (std::int32_t i = 0; i < 12; ++i) {
    ids.push_back(together.add(prompt_of(i, 1 + 9 * i), options, Rng(7)));
    if (i % 3 == 0) together.step();
  }
  while (together.step()) {
  }
  for (std::int32_t i = 0; i < 12; ++i) {
    Generation alone(*model.gpt, {.prompt_chunk = 1000});
    const auto id = alone.add(prompt_of(i, 1 + 9 * i), options, Rng(7));
    while (alone.step()) {
    }
    CHECK(text_of(together, ids[static_cast<std::size_t>(i)]) == text_of(alone, id));  // to the bit
  }
}

TEST_CASE("a short prompt behind many keys that it shares is read by itself", "[generation]") {
  const Model model(true);
  const bool deep = GENERATE(true, false);
  Tokens stem = prompt_of(3, deep ? 700 : 60);
  Generation generation(*model.gpt, {.prompt_chunk = 1000});
  const auto first = generation.add(stem, {.max_new_tokens = 1}, Rng(1));
  while (generation.step()) {
  }
  generation.remove(first);
  const Tokens tail = prompt_of(11, 20);
  stem.insert(stem.end(), tail.begin(), tail.end());
  for (std::int32_t i = 0; i < 2; ++i) {
    stem.back() = i;
    stem[stem.size() - 20] = 20 + i;
    generation.add(stem, {.max_new_tokens = 2}, Rng(1));
  }
  CHECK(passes_of_step(generation) == (deep ? 2 : 1));
}
