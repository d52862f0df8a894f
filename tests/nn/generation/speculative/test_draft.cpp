#include <string>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/generation/speculative/draft.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::Tokens;

namespace {

struct DraftedModel {
  // Equal seeds give equal weights of equal configs.
  DraftedModel(std::int64_t block_size, double scale, std::int64_t vocab_size = 11,
               const std::string& mixers = "")
      : params(rng), gpt(params, config_of(block_size, vocab_size, mixers)) {
    randomize(params.parameters(), rng, scale);
  }
  static nn::DecoderConfig config_of(std::int64_t block_size, std::int64_t vocab_size,
                                     const std::string& mixers) {
    nn::DecoderConfig config = tiny_config();
    config.block_size = block_size;
    config.vocab_size = vocab_size;
    config.positions = nn::Positions::rotary;
    config.mixer_pattern = mixers;
    return config;
  }
  Rng rng{11};
  nn::Params params;
  nn::Decoder gpt;
};

struct DraftedTexts {
  std::vector<std::vector<NewToken>> tokens = {};
  std::int64_t steps = 0;
  nn::GenerationCost cost = {};
};

// Texts side by side.
DraftedTexts drafted(const nn::Decoder& gpt, const GenerateOptions& options,
                     std::uint64_t texts = 3) {
  Generation generation(gpt);
  std::vector<Generation::Id> ids;
  for (std::uint64_t i = 0; i < texts; ++i) {
    ids.push_back(generation.add(Tokens(2 + 4 * i, 3), options, Rng(i)));
  }
  DraftedTexts made;
  while (generation.step()) ++made.steps;
  for (const auto id : ids) {
    made.tokens.push_back(generation.take(id).tokens);
    generation.take(id);  // an error behind these
  }
  made.cost = generation.cost();
  return made;
}

void check_same_tokens(const DraftedTexts& a, const DraftedTexts& b) {
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    REQUIRE(a.tokens[i].size() == b.tokens[i].size());
    for (std::size_t t = 0; t < a.tokens[i].size(); ++t) {
      CHECK(a.tokens[i][t].token == b.tokens[i][t].token);
      CHECK(a.tokens[i][t].logprob == b.tokens[i][t].logprob);
    }
  }
}

}  // namespace

TEST_CASE("texts with a draft are those without it, to the bit", "[draft]") {
  const std::int64_t draft_block = GENERATE(64, 9, 1);
  const double draft_scale = GENERATE(0.3, 0.25, 0.6);
  const std::int64_t guessed = GENERATE(1, 3, 8);
  const DraftedModel model(64, 0.3), draft(draft_block, draft_scale);
  for (const bool greedy : {true, false}) {
    for (const nn::Context context : {nn::Context::exact, nn::Context::shift}) {
      GenerateOptions options{.max_new_tokens = context == nn::Context::shift ? 90 : 50,
                              .greedy = greedy,
                              .temperature = 0.8,
                              .top_k = 6,
                              .stop_tokens = {7},
                              .logprobs = true,
                              .context = context};
      const DraftedTexts without = drafted(model.gpt, options);
      options.draft = &draft.gpt;
      options.draft_tokens = guessed;
      check_same_tokens(drafted(model.gpt, options), without);
    }
  }
}

TEST_CASE("a draft that is the model proposes right tokens, greedy or not", "[draft]") {
  const DraftedModel model(64, 0.3), draft(64, 0.3), shorter(24, 0.3);
  for (const bool greedy : {true, false}) {
    GenerateOptions options{.max_new_tokens = 41, .greedy = greedy, .draft = &draft.gpt};
    // One token by the prompt, and four in each further step.
    const DraftedTexts alone = drafted(model.gpt, options, 1);
    CHECK(alone.steps == 11);
    CHECK(alone.cost.proposed_tokens == 30);
    CHECK(alone.cost.accepted_tokens == 30);
    options.draft = &shorter.gpt;  // it sees the end of the text only, which is like all of it
    CHECK(drafted(model.gpt, options, 1).steps < 41);
  }
}

TEST_CASE("the more texts there are, the fewer tokens each proposes, and at last none", "[draft]") {
  const DraftedModel model(64, 0.3), draft(64, 0.3);
  GenerateOptions options{
      .max_new_tokens = 41, .greedy = true, .draft = &draft.gpt, .draft_tokens = 8};
  const auto steps = [&](std::uint64_t texts) { return drafted(model.gpt, options, texts).steps; };
  CHECK(steps(1) == 6);   // nine tokens in each
  CHECK(steps(2) == 11);  // four
  CHECK(steps(3) == 21);  // two
  CHECK(drafted(model.gpt, options, 4).cost.proposed_tokens == 0);
  options.draft = nullptr;
  options.lookup = 8;
  CHECK(drafted(model.gpt, options, 3).cost.proposed_tokens > 0);
  CHECK(drafted(model.gpt, options, 4).cost.proposed_tokens == 0);
}

TEST_CASE("a draft reads a long text in pieces, before it proposes", "[draft]") {
  const DraftedModel model(1024, 0.3);
  nn::Draft draft({.max_new_tokens = 50, .greedy = true, .draft = &model.gpt}, 600);
  Tokens text;
  for (std::int32_t i = 0; i < 600; ++i) text.push_back(i * i % 11);
  CHECK(draft.propose(text, 3, Rng(1)).empty());
  text.push_back(1);
  CHECK(draft.propose(text, 3, Rng(1)).empty());
  text.push_back(2);
  nn::KVCache cache;
  nn::KVCache* const caches[] = {&cache};
  const Tensor ids = Tensor::from(text, {1, std::ssize(text)});
  const Tensor logits = model.gpt.last_logits(ids, caches);
  const auto best =
      std::ranges::max_element(logits.values<float>()) - logits.values<float>().begin();
  const Tokens proposal = draft.propose(text, 3, Rng(1));
  REQUIRE(proposal.size() == 3);
  CHECK(proposal[0] == best);
}

TEST_CASE("what is learnt of a draft's proposals leaves it with the text alone", "[draft]") {
  const DraftedModel draft(64, 0.3);
  const GenerateOptions options{.greedy = true, .draft = &draft.gpt};
  const Tokens text = {1, 2, 3};
  nn::Draft used(options, 3), fresh(options, 3);
  REQUIRE(used.propose(text, 6, Rng(1)).size() == 6);
  used.learn(6, 0);
  const Tokens longer = {1, 2, 3, 5, 1, 4, 4, 2, 0, 9};  // some were chosen without a proposal
  CHECK(used.propose(longer, 6, Rng(1)) == fresh.propose(longer, 6, Rng(1)));
}

TEST_CASE("a recurrent draft does not read its text again behind a wrong proposal", "[draft]") {
  const std::string mixers = GENERATE("A", "DA", "MA", "PA", "NM");
  const DraftedModel draft(64, 0.3, 11, mixers);
  const GenerateOptions options{.greedy = true, .draft = &draft.gpt};
  Tokens text = {1, 2, 3, 5, 8, 2, 10};
  nn::Draft used(options, 7), fresh(options, 7);
  const Tokens proposal = used.propose(text, 6, Rng(1));
  REQUIRE(proposal.size() == 6);
  used.learn(6, 2);
  nn::KVCache left = used.take_cache();
  CHECK(left.length() == (mixers == "A" ? 9 : 7));
  used.begin_with(std::move(left));
  text.insert(text.end(), proposal.begin(), proposal.begin() + 2);
  text.push_back((proposal[2] + 1) % 11);
  CHECK(used.propose(text, 6, Rng(1)) == fresh.propose(text, 6, Rng(1)));
  used.learn(6, 6);
  CHECK(used.take_cache().length() == 15);  // the text and five of its proposal
}

TEST_CASE("a draft does not read again what a removed text begins with", "[draft]") {
  const DraftedModel model(2048, 0.3), draft(2048, 0.3), other(2048, 0.3);
  using Kept = std::optional<std::int64_t>;
  const Kept kept = GENERATE(Kept(), Kept(0));
  Generation generation(model.gpt, {.kept_positions = kept});
  Tokens text;
  for (std::int32_t i = 0; i < 900; ++i) text.push_back(i * i % 11);
  const auto steps = [&](const nn::Decoder& proposes) {
    const auto id =
        generation.add(text, {.max_new_tokens = 9, .greedy = true, .draft = &proposes}, Rng(1));
    std::int64_t count = 0;
    while (generation.step()) ++count;
    for (const NewToken& t : generation.take(id).tokens) text.push_back(t.token);
    generation.remove(id);
    return count;
  };
  // The prompt, three pieces of it for the draft, four tokens, one.
  CHECK(steps(draft.gpt) == 6);
  CHECK(steps(draft.gpt) == (kept ? 6 : 3));
  CHECK(steps(other.gpt) == 6);
}

TEST_CASE("a draft that makes no sense is an error", "[draft]") {
  const DraftedModel model(64, 0.3), other(64, 0.3, 12);
  const nn::Decoder* const draft = &model.gpt;
  CHECK_THROWS_WITH((GenerateOptions{.kv_cache = false, .draft = draft}.validate()),
                    ContainsSubstring("draft needs the KV cache"));
  CHECK_THROWS_WITH((GenerateOptions{.lookup = 2, .draft = draft}.validate()),
                    ContainsSubstring("exclude each other"));
  CHECK_THROWS_WITH((GenerateOptions{.draft = draft, .draft_tokens = 0}.validate()),
                    ContainsSubstring("from 1 to 64, not 0"));
  CHECK_THROWS_WITH(drafted(model.gpt, {.draft = &other.gpt}),
                    ContainsSubstring("the draft has 12 tokens, and the model 11"));
  DraftedModel broken(64, 0.3);
  for (Tensor t : {broken.gpt.wte.weight, broken.gpt.lm_head.weight}) {
    std::fill_n(t.mutable_data<float>(), t.numel(), NAN);
  }
  CHECK_THROWS_WITH(drafted(model.gpt, {.draft = &broken.gpt}),
                    ContainsSubstring("of the draft model: "));
}
