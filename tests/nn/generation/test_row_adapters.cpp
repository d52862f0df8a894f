// Texts with different adapters in one batch: each is what it is alone, in a model that has its
// adapter and no other.

#include <cmath>
#include <map>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/nn/lora/row_adapters.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::Tokens;
using Choice = nn::RowAdapters::Choice;

namespace {

constexpr std::int64_t kVocabulary = 60;

nn::DecoderConfig config_of_model() {
  nn::DecoderConfig config = tiny_config();
  config.vocab_size = kVocabulary;
  config.block_size = 200;
  config.n_embd = 64;
  config.n_head = 4;
  config.n_kv_head = 2;
  config.positions = nn::Positions::rotary;
  config.activation = nn::Activation::silu;
  config.gated = true;
  return config;
}

// A quantised model that offers two adapters, of other ranks and for other layers.
struct Offering {
  explicit Offering(std::string_view type) {
    params.quantize(&stored_type(type));
    first.adapt({.rank = 3, .alpha = 6, .targets = {"*"}});
    second.adapt({.rank = 2, .alpha = 2, .targets = {"*attn*"}});
    params.offer(first);
    params.offer(second);
    gpt.emplace(params, config_of_model());
    randomize(params.parameters(), rng, 0.25);
    for (const nn::Params& adapters : {first, second}) {
      randomize(adapters.parameters(), rng, 0.25);
    }
  }
  // The model with one of its adapters as its own, as with_adapter() opens it.
  nn::Decoder with(Choice choice) const {
    nn::Decoder own = *gpt;
    for (nn::Block& block : own.h) {
      nn::MultiHeadAttention& a = block.attn;
      nn::FeedForward& m = block.mlp;
      for (nn::Linear* layer : {&a.c_attn, &a.W_query, &a.W_key, &a.W_value, &a.c_proj, &m.c_gate,
                                &m.c_fc, &m.c_proj}) {
        if (choice && !layer->offered.empty()) {
          layer->adapter = layer->offered[static_cast<std::size_t>(*choice)];
        }
        layer->offered.clear();
      }
    }
    own.adapters = 0;
    return own;
  }

  Rng rng{21};
  nn::Params params{rng}, first{rng}, second{rng};
  std::optional<nn::Decoder> gpt;
};

Tokens random_prompt(Rng& rng, std::int64_t count) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(rng.randint(kVocabulary)));
  }
  return tokens;
}

struct AdaptedText {
  Tokens prompt;
  GenerateOptions options;
  std::uint64_t seed;
  std::int64_t arrives, leaves;  // steps
  std::vector<NewToken> made = {};
};

std::vector<NewToken> made_alone(const Offering& model, const AdaptedText& text) {
  const Threads one(1);
  const nn::Decoder own = model.with(text.options.adapter);
  Generation generation(own, {.prompt_chunk = 10'000});
  GenerateOptions options = text.options;
  options.adapter.reset();
  options.lookup = 0;
  const auto id = generation.add(text.prompt, options, Rng(text.seed));
  while (generation.step()) {
  }
  return generation.take(id).tokens;
}

}  // namespace

TEST_CASE(
    "texts with different adapters are to the bit what they are alone, however they come and "
    "go",
    "[row_adapters]") {
  const std::string type = GENERATE("f32", "q8_0");
  const Offering model(type);
  REQUIRE(model.gpt->all_quantized());
  REQUIRE(model.gpt->adapters == 2);
  Rng rng(5);
  const std::vector<Tokens> stems = {random_prompt(rng, 20), random_prompt(rng, 150)};
  std::vector<AdaptedText> texts;
  for (std::uint64_t i = 0; i < 40; ++i) {
    AdaptedText text{.prompt = stems[rng.randint(2)],
                     .options = {.max_new_tokens = 1 + rng.randint(30)},
                     .seed = 50 + i,
                     .arrives = rng.randint(40),
                     .leaves = 0};
    const Tokens tail = random_prompt(rng, rng.randint(10));
    text.prompt.insert(text.prompt.end(), tail.begin(), tail.end());
    text.leaves = text.arrives + 5 + rng.randint(60);
    const std::int64_t choice = rng.randint(3);
    if (choice < 2) text.options.adapter = choice;
    text.options.logprobs = true;
    if (rng.randint(3) == 0) text.options.lookup = 4;
    if (rng.randint(6) == 0) {
      text.options.kv_cache = false;
      text.options.lookup = 0;
    }
    texts.push_back(std::move(text));
  }
  const Threads threads(GENERATE(1, 3));
  Generation generation(*model.gpt, {.max_sequences = 40, .kept_positions = 1000});
  std::map<Generation::Id, AdaptedText*> running;
  for (std::int64_t step = 0; step < 40 || !running.empty(); ++step) {
    for (AdaptedText& t : texts) {
      if (t.arrives == step) running[generation.add(t.prompt, t.options, Rng(t.seed))] = &t;
    }
    generation.step();
    std::erase_if(running, [&](const auto& entry) {
      AdaptedText& t = *entry.second;
      const Generation::Taken taken = generation.take(entry.first);
      t.made.insert(t.made.end(), taken.tokens.begin(), taken.tokens.end());
      const bool leaves = taken.end || t.leaves == step;
      if (leaves) generation.remove(entry.first);
      return leaves;
    });
  }
  CHECK(generation.cost().reused_tokens > 100);
  for (const AdaptedText& t : texts) {
    INFO("weights " << type << ", text " << t.seed << ", adapter "
                    << t.options.adapter.value_or(-1));
    const std::vector<NewToken> whole = made_alone(model, t);
    REQUIRE(t.made.size() <= whole.size());
    for (std::size_t i = 0; i < t.made.size(); ++i) {
      CHECK(t.made[i].token == whole[i].token);
      CHECK(t.made[i].logprob == whole[i].logprob);  // to the bit
    }
  }
}

TEST_CASE("beginnings are shared by texts of one adapter alone", "[row_adapters]") {
  const Offering model("q8_0");
  Rng rng(3);
  const Tokens stem = random_prompt(rng, 100);
  Generation generation(*model.gpt, {.max_sequences = 4});
  const auto options = [](Choice choice) {
    return GenerateOptions{.max_new_tokens = 2, .adapter = choice};
  };
  std::vector<Generation::Id> ids;
  for (const Choice choice : {Choice(), Choice(0), Choice(1), Choice(0)}) {
    ids.push_back(generation.add(stem, options(choice), Rng(1)));
  }
  while (generation.step()) {
  }
  CHECK(generation.cost().reused_tokens == 99);  // by the second text with adapter 0
  for (const auto id : ids) generation.remove(id);
  for (const Choice choice : {Choice(1), Choice(0), Choice()}) {  // each finds its own
    const std::int64_t before = generation.cost().reused_tokens;
    const auto id = generation.add(stem, options(choice), Rng(1));
    CHECK(generation.cost().reused_tokens == before + 99);
    while (generation.step()) {
    }
    generation.remove(id);
  }
  generation.forget_kept();
  CHECK(generation.used_positions() == 0);
}

TEST_CASE("weights that give no numbers end the text that has them, and no other",
          "[row_adapters]") {
  const Offering model("f32");
  Tensor broken = model.gpt->h[0].attn.c_proj.offered[0].B;
  broken.mutable_data<float>()[0] = NAN;
  Generation generation(*model.gpt);
  const auto breaks = generation.add({1, 2}, {.max_new_tokens = 5, .adapter = 0}, Rng(1));
  const auto goes_on = generation.add({1, 2}, {.max_new_tokens = 5, .adapter = 1}, Rng(1));
  const auto scored =
      generation.add({1, 2, 3}, {.max_new_tokens = 5, .prompt_logprobs = 0, .adapter = 0}, Rng(1));
  while (generation.step()) {
  }
  CHECK(generation.take(goes_on).tokens.size() == 5);
  CHECK_THROWS_AS(generation.take(breaks), nn::BrokenLogits);
  CHECK_THROWS_AS(generation.take(scored), nn::BrokenLogits);
}

TEST_CASE("adapters that are not there are errors", "[row_adapters]") {
  const Offering model("f32");
  Generation generation(*model.gpt);
  CHECK_THROWS_WITH(generation.add({1}, {.adapter = 2}, Rng(1)),
                    ContainsSubstring("there is no adapter 2: the model offers 2"));
  CHECK_THROWS_WITH(generation.add({1}, {.adapter = -1}, Rng(1)), ContainsSubstring("-1"));
  const nn::RowAdapters two({0, 1});
  CHECK_THROWS_WITH((*model.gpt)(random_ids(const_cast<Rng&>(model.rng), {3, 4}, kVocabulary)),
                    ContainsSubstring("2 rows choose adapters, and x is (3, 4, 64)"));
}

TEST_CASE("adapters on offer that do not fit a model are errors that name the tensor",
          "[row_adapters]") {
  Rng rng(1);
  const auto made = [&](const std::string& layer, const Shape& a) {
    const nn::Params adapters(memory_source({{layer + ".lora_A.weight", Tensor::zeros(a)},
                                             {layer + ".lora_B.weight", Tensor::zeros({64, a[0]})}},
                                            "some.file"));
    adapters.adapt({.rank = a[0], .alpha = 1, .targets = {layer}});
    nn::Params params(rng);
    params.offer(adapters);
    return nn::Decoder(params, config_of_model());
  };
  const nn::Decoder fits = made("h.0.attn.c_proj", {2, 64});
  CHECK(fits.adapters == 1);
  CHECK_THROWS_WITH(made("h.0.attn.c_proj", {2, 63}),
                    ContainsSubstring("some.file") && ContainsSubstring("h.0.attn.c_proj.lora_A"));
  CHECK_THROWS_WITH(made("h.7.attn.c_proj", {2, 64}),
                    ContainsSubstring("'h.7.attn.c_proj' names no linear layer"));
}
