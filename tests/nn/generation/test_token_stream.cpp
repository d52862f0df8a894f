#include "tapegrad/autograd/profile.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/generation/token_stream.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::NewToken;
using nn::TextEnd;
using nn::Tokens;
using nn::TokenStream;

namespace {

constexpr std::size_t kAll = 1000;

struct Model {
  Model() : params(rng), gpt(params, config()) { randomize(params.parameters(), rng, 0.2); }
  static nn::DecoderConfig config() {
    nn::DecoderConfig config = tiny_config();
    config.vocab_size = 30;
    config.block_size = 12;
    return config;
  }
  Rng rng{11};
  nn::Params params;
  nn::Decoder gpt;
};

struct Made {
  Tokens tokens;
  std::string state;  // of the generator behind them
  bool operator==(const Made&) const = default;
};

// How many tokens of text i are read: `most`, or of most texts all.
std::size_t patience(std::size_t i, std::size_t most) { return i % 3 == 1 ? most : kAll; }

// Each prompt `times` times, by a loop that makes one text after the other.
std::vector<Made> in_turn(const nn::Decoder& gpt, const std::vector<Tokens>& prompts, int times,
                          const GenerateOptions& options, std::size_t most, Rng& rng) {
  std::vector<Made> texts;
  for (const Tokens& prompt : prompts) {
    for (int i = 0; i < times; ++i) {
      std::size_t left = patience(texts.size(), most);
      const Tokens tokens =
          nn::generate(gpt, prompt, options, rng, [&](std::int32_t) { return --left > 0; });
      texts.push_back({tokens, rng.state()});
    }
  }
  return texts;
}

std::vector<Made> by_stream(TokenStream& stream, std::size_t most, const Rng& rng) {
  std::vector<Made> texts;
  do {
    Made text;
    std::size_t left = patience(texts.size(), most);
    for (const NewToken& t : stream) {
      text.tokens.push_back(t.token);
      if (--left == 0) break;
    }
    text.state = rng.state();
    texts.push_back(text);
  } while (stream.next_text());
  return texts;
}

std::int64_t ops_of(const auto& work) {
  const Profile profile;
  work();
  std::int64_t calls = 0;
  for (const Profile::Entry& entry : profile.entries()) calls += entry.calls;
  return calls;
}

}  // namespace

TEST_CASE("a stream of tokens is a range, and draws from its generator", "[token-stream]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 9, .logprobs = true};
  Rng rng(3), same(3);
  Tokens text;
  TokenStream stream(model.gpt, {1, 2}, options, rng);
  CHECK_FALSE(stream.end_of_text());
  for (const NewToken& t : stream) {
    Tokens before = {1, 2};
    before.insert(before.end(), text.begin(), text.end());
    const Tensor logits = model.gpt.last_logits(Tensor::from(before, {1, std::ssize(before)}));
    CHECK(std::abs(t.logprob - nn::LogProbabilities(logits.values<float>())[t.token]) < 1e-4);
    text.push_back(t.token);
  }
  CHECK(stream.end_of_text() == TextEnd::length);
  CHECK_FALSE(stream.next_text());
  CHECK(text == nn::generate(model.gpt, {1, 2}, options, same));
  CHECK(text.size() == 9);
  CHECK(rng.state() == same.state());
  for (const NewToken& t : TokenStream(model.gpt, {1}, {.max_new_tokens = 0}, rng)) {
    FAIL("a text of no tokens has token " << t.token);
  }
}

TEST_CASE("texts of one generator are those made one after the other", "[token-stream]") {
  const Model model;
  const std::vector<Tokens> prompts = {{1, 2}, {3}, {4, 5, 6}, {7}};
  const std::size_t most = GENERATE(kAll, 3);
  const bool greedy = GENERATE(false, true), careful = most == 3 && GENERATE(false, true);
  const std::int64_t places = GENERATE(1, 3, 16), tokens = GENERATE(0, 1, 5, 20);
  // Token 9 ends some of the texts; three tokens end nearly all.
  const auto stops = GENERATE(Tokens(), Tokens{9}, Tokens{3, 9, 12});
  const GenerateOptions options{.max_new_tokens = tokens, .greedy = greedy, .stop_tokens = stops};
  INFO(most << greedy << " places " << places << ", tokens " << tokens << ", " << stops.size());
  Rng rng(5), same(5);
  TokenStream stream(model.gpt, prompts, options, rng,
                     {.times = 3, .leaves_texts = careful, .limits = {.max_sequences = places}});
  const auto texts = by_stream(stream, most, rng);
  const auto expected = in_turn(model.gpt, prompts, 3, options, most, same);
  REQUIRE(texts.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    INFO("text " << i);
    CHECK(texts[i].tokens == expected[i].tokens);
    CHECK((texts[i].state == expected[i].state));
  }
}

TEST_CASE("a text may be left wherever it ends", "[token-stream]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 4, .stop_tokens = {3, 9, 12}};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (std::size_t most = 1; most < 5; ++most) {
      INFO("seed " << seed << ", " << most << " tokens");
      Rng rng(seed), same(seed);
      TokenStream stream(model.gpt, std::vector<Tokens>{{1, 2}}, options, rng, {.times = 6});
      CHECK((by_stream(stream, most, rng) == in_turn(model.gpt, {{1, 2}}, 6, options, most, same)));
    }
  }
}

TEST_CASE("texts that reach their length are made side by side", "[token-stream]") {
  const Model model;
  const auto ops = [&](std::int64_t places, const Tokens& stops) {
    Rng rng(5);
    TokenStream stream(model.gpt, std::vector<Tokens>{{1, 2}},
                       {.max_new_tokens = 8, .stop_tokens = stops}, rng,
                       {.times = 8, .limits = {.max_sequences = places}});
    return ops_of([&] { CHECK(by_stream(stream, kAll, rng).size() == 8); });
  };
  // The prompts are read apart; the seven tokens behind the first share their passes.
  CHECK(ops(8, {}) * 3 < ops(1, {}));
  // Token 29 ends no text. The stream looks ahead once it has seen the first of them.
  CHECK(ops(8, {29}) * 2 < ops(1, {29}));
}

TEST_CASE("texts without an end begin at once", "[token-stream]") {
  const Model model;
  Rng rng(5);
  TokenStream stream(model.gpt, std::vector<Tokens>{{1, 2}}, {.max_new_tokens = INT64_MAX}, rng,
                     {.times = 2});
  CHECK(stream.next());  // the second text's draws would take for ever
}

TEST_CASE("a stream needs a prompt", "[token-stream]") {
  const Model model;
  Rng rng(1);
  CHECK_THROWS_WITH(TokenStream(model.gpt, std::vector<Tokens>{}, {}, rng, {}),
                    "[token_stream] 0 prompts, 1 times, are no text");
}
