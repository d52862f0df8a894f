#include <algorithm>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::GenerateOptions;
using nn::Generation;
using nn::NewToken;
using nn::TextEnd;
using nn::Tokens;
using nn::TokenStream;

namespace {

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
  std::optional<TextEnd> end;
  bool operator==(const Made&) const = default;
};

// By the engine, without a stream.
Made alone(const nn::Decoder& gpt, const Tokens& prompt, const GenerateOptions& options,
           std::uint64_t seed) {
  Generation generation(gpt, {.max_sequences = 1});
  const auto id = generation.add(prompt, options, Rng(seed));
  while (generation.step()) {
  }
  const Generation::Taken taken = generation.take(id);
  Made made{.tokens = {}, .end = taken.end};
  for (const NewToken& t : taken.tokens) made.tokens.push_back(t.token);
  return made;
}

// Of text i at most `most` tokens, if i is one of 1, 4, 7 …; otherwise all.
std::vector<Made> all_of(TokenStream& stream, std::size_t most) {
  std::vector<Made> texts;
  while (stream.next_text()) {
    Made text;
    for (const NewToken& t : stream) {
      text.tokens.push_back(t.token);
      if (texts.size() % 3 == 1 && text.tokens.size() == most) break;
    }
    text.end = stream.end_of_text();
    texts.push_back(text);
  }
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

TEST_CASE("a stream of tokens is a range", "[token-stream]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 9, .logprobs = true};
  Tokens text;
  TokenStream stream = nn::stream(model.gpt, {1, 2}, options, 3);
  CHECK_FALSE(stream.end_of_text());
  for (const NewToken& t : stream) {
    Tokens before = {1, 2};
    before.insert(before.end(), text.begin(), text.end());
    const Tensor logits = model.gpt.last_logits(Tensor::from(before, {1, std::ssize(before)}));
    CHECK(std::abs(t.logprob - nn::LogProbabilities(logits.values<float>())[t.token]) < 1e-4);
    text.push_back(t.token);
    CHECK((stream.end_of_text() == TextEnd::length) == (text.size() == 9));
  }
  CHECK_FALSE(stream.next());
  CHECK_FALSE(stream.next_text());
  CHECK(text == alone(model.gpt, {1, 2}, options, 3).tokens);
  TokenStream same = nn::stream(model.gpt, {1, 2}, options, 3);
  CHECK(same.next()->token == text[0]);
  CHECK(same.tokens() == Tokens(text.begin() + 1, text.end()));
  CHECK(nn::stream(model.gpt, {1}, {.max_new_tokens = 0}).tokens().empty());
}

TEST_CASE("texts come in the order of their prompts, and are what each is alone",
          "[token-stream]") {
  const Model model;
  const std::vector<Tokens> prompts = {{1, 2}, {3}, {4, 5, 6}, {7}, {7}, {8, 1}, {2}, {9, 9}};
  const std::size_t most = GENERATE(1, 3, 1000);
  const std::int64_t places = GENERATE(1, 3, 16), tokens = GENERATE(0, 1, 5, 20);
  // Token 9 ends some of the texts; three tokens end nearly all.
  const auto stops = GENERATE(Tokens(), Tokens{9}, Tokens{3, 9, 12});
  const GenerateOptions options{
      .max_new_tokens = tokens, .stop_tokens = stops, .lookup = places == 3 ? 4 : 0};
  INFO(most << " places " << places << ", tokens " << tokens << ", " << stops.size());
  Generation engine(model.gpt, {.max_sequences = places});
  TokenStream stream(engine, nn::source_of(prompts, options, 5));
  const auto texts = all_of(stream, most);
  REQUIRE(texts.size() == prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    INFO("text " << i);
    Made expected = alone(model.gpt, prompts[i], options, 5 + i);
    if (i % 3 == 1 && expected.tokens.size() >= most) {  // it was left there
      expected.tokens.resize(most);
      CHECK(texts[i].tokens == expected.tokens);
    } else {
      CHECK((texts[i] == expected));
    }
  }
  CHECK(engine.sequences() == 0);
}

TEST_CASE("texts are made side by side", "[token-stream]") {
  const Model model;
  const auto ops = [&](std::int64_t places) {
    Generation engine(model.gpt, {.max_sequences = places});
    const GenerateOptions options{.max_new_tokens = 8};
    TokenStream stream(engine, nn::source_of(std::vector<Tokens>(8, {1, 2}), options, 5));
    return ops_of([&] { CHECK(all_of(stream, 1000).size() == 8); });
  };
  // The prompts are read apart; the seven tokens behind the first share their passes.
  CHECK(ops(8) * 3 < ops(1));
}

TEST_CASE("a text that is not to go on ends before its turn", "[token-stream]") {
  const Model model;
  Generation engine(model.gpt, {.prompt_chunk = 2});
  const GenerateOptions options{.max_new_tokens = 8};
  std::vector<std::size_t> heard;  // new tokens at each step
  const auto two = [&](std::span<const NewToken> tokens) {
    heard.push_back(tokens.size());
    return std::count(heard.begin(), heard.end(), 1U) < 2;
  };
  const auto none = [](std::span<const NewToken>) { return false; };
  TokenStream stream(engine, nn::source_of({{{1, 2}, options, 1},
                                            {{4, 5, 6, 7}, options, 2, two},
                                            {{3}, options, 3, none},
                                            {{3}, options, 4}}));
  REQUIRE(stream.next_text());
  CHECK(stream.tokens().size() == 8);
  CHECK(engine.sequences() == 0);  // the others have ended meanwhile
  CHECK(heard.front() == 0);       // the prompt was being read
  REQUIRE(stream.next_text());
  CHECK_FALSE(stream.end_of_text());
  Tokens expected = alone(model.gpt, {4, 5, 6, 7}, options, 2).tokens;
  expected.resize(2);
  CHECK(stream.tokens() == expected);
  CHECK_FALSE(stream.end_of_text());
  REQUIRE(stream.next_text());
  CHECK(stream.tokens().size() == 1);
  REQUIRE(stream.next_text());
  CHECK(stream.tokens() == alone(model.gpt, {3}, options, 4).tokens);
}

TEST_CASE("a stream that is left gives its places back", "[token-stream]") {
  const Model model;
  Generation engine(model.gpt);
  const auto other = engine.add({5}, {.max_new_tokens = 4}, Rng(1));
  {
    TokenStream stream(engine, nn::source_of({{1}, {2}, {3}}, {.max_new_tokens = 8}, 1));
    CHECK(stream.next());
    CHECK(engine.sequences() == 4);
  }
  CHECK(engine.sequences() == 1);
  while (engine.step()) {
  }
  CHECK(engine.take(other).tokens.size() == 4);
}

TEST_CASE("texts do not wait for prompts that are still to come", "[token-stream]") {
  const Model model;
  int left = 3;
  bool ready = true;
  nn::PromptSource source;
  source.next = [&]() -> std::optional<nn::Prompt> {
    if (left-- == 0) return std::nullopt;
    const bool last = std::exchange(ready, false);
    return nn::Prompt{.tokens = {last ? 1 : 2}, .options = {.max_new_tokens = 3}};
  };
  source.ready = [&] { return ready; };
  TokenStream stream(model.gpt, source);
  REQUIRE(stream.next_text());
  CHECK(left == 2);
  CHECK(stream.tokens().size() == 3);
  CHECK(left == 2);
  REQUIRE(stream.next_text());  // nothing else is to be done, so this waits
  CHECK(left == 1);
  ready = true;
  CHECK(stream.next());
  CHECK(left < 1);
}

TEST_CASE("a long text is not overtaken by any number of short ones", "[token-stream]") {
  const Model model;
  std::int64_t read = 0;
  nn::PromptSource source;
  source.next = [&] {
    const std::int64_t tokens = read++ == 0 ? 5000 : 0;
    return std::optional(nn::Prompt{.tokens = {1}, .options = {.max_new_tokens = tokens}});
  };
  TokenStream stream(model.gpt, source);
  for (int i = 0; i < 200; ++i) CHECK(stream.next());
  CHECK(read > 1000);
  CHECK(read < 1100);
}

TEST_CASE("an error comes at the turn of its text, and the texts before it are made",
          "[token-stream]") {
  const Model model;
  const GenerateOptions options{.max_new_tokens = 4};
  struct Refuses : nn::TokenMask {
    std::unique_ptr<TokenMask> clone() const override { return std::make_unique<Refuses>(); }
    void allow(std::span<float>) override { fail("no mask"); }
    void accept(std::int32_t) override {}
  };
  GenerateOptions masked = options;
  masked.mask = std::make_shared<Refuses>();
  TokenStream stream(model.gpt, nn::source_of({{{1}, options, 1},
                                               {{2}, masked, 2},
                                               {{3}, options, 3},
                                               {{99}, options, 4},
                                               {{5}, options, 5}}));
  REQUIRE(stream.next_text());
  CHECK(stream.tokens().size() == 4);
  REQUIRE(stream.next_text());
  CHECK_THROWS_WITH(stream.tokens(), "no mask");
  REQUIRE(stream.next_text());
  CHECK(stream.tokens() == alone(model.gpt, {3}, options, 3).tokens);
  CHECK_THROWS_WITH(stream.next_text(), ContainsSubstring("token 99"));
  CHECK_FALSE(stream.next_text());
  CHECK_THROWS_WITH(nn::generate(model.gpt, {{1}, {}}), ContainsSubstring("at least one token"));
}

TEST_CASE("a text for which there is never room is an error", "[token-stream]") {
  const Model model;
  Generation engine(model.gpt, {.max_sequences = 2, .max_positions = 5});
  TokenStream stream(engine, nn::source_of({{1}, {2}}, {.max_new_tokens = 8}, 1));
  CHECK_THROWS_WITH(stream.next_text(), ContainsSubstring("positions"));
  CHECK(nn::generate(model.gpt, {}).empty());
}
