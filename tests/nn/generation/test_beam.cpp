#include <cmath>

#include "tapegrad/nn/generation/beam.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kPad = 8, kStart = 9, kEnd = 10;

// A model with random weights, sharp enough to have opinions.
struct Model {
  explicit Model(DType dtype = DType::f64) : params(rng, dtype), transformer(params, config()) {
    for (const auto& [name, t] : params.parameters()) {
      // Large shifts would be the same large logits everywhere.
      const double spread = name.ends_with(".bias") ? 0.1 : 0.7;
      nn::refill(t, nn::normal(is_gain(name) ? 1 : 0, spread), rng);
    }
  }
  static nn::TransformerConfig config() {
    return {
        .vocab_size = 11, .block_size = 7, .n_layer = 2, .n_head = 2, .n_embd = 8, .n_hidden = 10};
  }
  Rng rng{18};
  nn::Params params;
  nn::Transformer transformer;

  std::vector<nn::Translation> run(const Tensor& source, nn::TranslateOptions options = {}) const {
    options.start = kStart;
    options.end = kEnd;
    return nn::translate(transformer, source, nn::padding_mask(source, kPad), options);
  }
};

// Sources of three, five and one tokens.
Tensor sources() {
  return ids({1, 2, 3, kPad, kPad, 4, 5, 6, 7, 0, 3, kPad, kPad, kPad, kPad}).view({3, 5});
}

// log p of `tokens`, with the end unless they fill the block, from whole forward passes.
double log_probability(const Model& m, const Tensor& source, Tokens tokens, bool ended) {
  Tokens inputs = {kStart};
  inputs.insert(inputs.end(), tokens.begin(), tokens.end());
  if (ended) tokens.push_back(kEnd);
  inputs.resize(tokens.size());
  const auto T = static_cast<std::int64_t>(inputs.size());
  const Tensor log_p = log_softmax(
      m.transformer(source, Tensor::from(inputs, {1, T}), {nn::padding_mask(source, kPad), {}}));
  double sum = 0;
  for (std::int64_t t = 0; t < T; ++t)
    sum += log_p.at(t * 11 + tokens[static_cast<std::size_t>(t)]);
  return sum;
}

// The likeliest token again and again, each time from a whole forward pass.
Tokens greedy(const Model& m, const Tensor& source) {
  Tokens inputs = {kStart};
  while (inputs.size() <= 7) {
    const Tensor logits = m.transformer.last_logits(
        source, Tensor::from(inputs, {1, static_cast<std::int64_t>(inputs.size())}),
        {nn::padding_mask(source, kPad), {}});
    inputs.push_back(argmax(logits.view({11}), 0).values<std::int32_t>()[0]);
    if (inputs.back() == kEnd) break;
  }
  if (inputs.back() == kEnd) inputs.pop_back();
  return {inputs.begin() + 1, inputs.end()};
}

}  // namespace

TEST_CASE("step by step, a decoder has the logits of the whole forward pass", "[translate]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Model m(dtype);
  const Tensor source = sources(), padding = nn::padding_mask(source, kPad);
  const Tensor target =
      ids({9, 1, 2, 3, 4, 5, 6, 9, 6, 6, 1, 0, 0, 2, 9, 7, 5, 3, 1, 1, 1}).view({3, 7});
  const Tensor whole = m.transformer(source, target, {padding, {}});
  nn::DecoderState state(m.transformer, source, padding, 1);
  for (int t = 0; t < 7; ++t) {
    Tokens now;
    for (int b = 0; b < 3; ++b)
      now.push_back(target.values<std::int32_t>()[static_cast<std::size_t>(b * 7 + t)]);
    const Tensor logits = state.step(Tensor::from(now, {3, 1}));
    const double tolerance = dtype == DType::f32 ? 2e-5 : 1e-12;
    CHECK(difference(logits, reshape(slice(whole, 1, t, t + 1), {3, 11}), tolerance, tolerance) ==
          "");
  }
  CHECK(state.length() == 7);
  CHECK_THROWS_WITH(state.step(ids({1, 1, 1}).view({3, 1})),
                    "[transformer] a sequence of 8 tokens is longer than block_size 7");
}

TEST_CASE("a decoder's row goes on from another of the same source only", "[translate]") {
  const Model m;
  const Tensor source = sources(), padding = nn::padding_mask(source, kPad);
  nn::DecoderState state(m.transformer, source, padding, 2);
  state.step(ids({9, 9, 9, 9, 9, 9}).view({6, 1}));
  state.select({1, 0, 2, 2, 5, 4});
  CHECK_THROWS_WITH(state.select({0, 1, 4, 2, 4, 5}),
                    "[translate] row 2 of source 1 cannot go on from row 4, of another source");
  CHECK_THROWS_WITH(state.select({-1, 1, 2, 3, 4, 5}), ContainsSubstring("from row -1"));
}

TEST_CASE("greedy translation takes the likeliest token each time, for each source by itself",
          "[translate]") {
  const Model m;
  Rng rng(1);
  // Padding is anywhere in some of them.
  const Tensor all = random_ids(rng, {30, 5}, kPad + 1);
  const auto found = m.run(all);
  REQUIRE(found.size() == 30);
  std::size_t ended = 0;
  for (std::int64_t b = 0; b < 30; ++b) {
    const Tensor source = all.rows(b, b + 1);
    const auto& [tokens, log_p, complete] = found[static_cast<std::size_t>(b)];
    CHECK(tokens == greedy(m, source));
    CHECK(complete == (tokens.size() < 7));
    CHECK(log_p == Approx(log_probability(m, source, tokens, complete)).epsilon(1e-4));
    CHECK(m.run(source)[0].tokens == tokens);
    ended += complete;
  }
  // Both kinds occur.
  CHECK(ended > 0);
  CHECK(ended < 30);
}

TEST_CASE("a beam as wide as all targets finds the likeliest of them", "[translate]") {
  // With 3 positions there are 10 + 10² + 10³ unfinished prefixes: 1,024 hypotheses hold them all.
  nn::TransformerConfig config = Model::config();
  config.block_size = 3;
  Rng rng(23);
  const nn::Params params(rng, DType::f64);
  const nn::Transformer model(params, config);
  for (const auto& [name, t] : params.parameters()) {
    nn::refill(t, nn::normal(is_gain(name) ? 1 : 0, 0.5), rng);
  }
  const Tensor source = ids({1, 2, 3}).view({1, 3});
  double best = -1e9;
  Tokens expected;
  const auto consider = [&](const Tokens& tokens) {
    Tokens inputs = {kStart};
    inputs.insert(inputs.end(), tokens.begin(), tokens.end());
    const auto T = static_cast<std::int64_t>(inputs.size());
    const Tensor log_p = log_softmax(model(source, Tensor::from(inputs, {1, T})));
    double sum = log_p.at((T - 1) * 11 + kEnd);
    for (std::int64_t t = 0; t + 1 < T; ++t)
      sum += log_p.at(t * 11 + inputs[static_cast<std::size_t>(t) + 1]);
    if (sum > best) best = sum, expected = tokens;
  };
  consider({});
  for (std::int32_t a = 0; a < kEnd; ++a) {
    consider({a});
    for (std::int32_t b = 0; b < kEnd; ++b) consider({a, b});
  }
  const auto found = nn::translate(
      model, source, {}, {.start = kStart, .end = kEnd, .beam = 1024, .length_penalty = 0});
  CHECK(found[0].complete);
  CHECK(found[0].tokens == expected);
  CHECK(found[0].log_probability == Approx(best).epsilon(1e-5));
}

namespace {

// The definition of the search, from whole forward passes and with all candidates sorted.
nn::Translation beam_search(const Model& m, const Tensor& source, const nn::TranslateOptions& o) {
  using Scored = std::pair<double, Tokens>;
  const auto likelier = [](const Scored& a, const Scored& b) { return a.first > b.first; };
  std::vector<Scored> live = {{0.0, {kStart}}}, finished;
  const auto beam = static_cast<std::size_t>(o.beam);
  for (std::int64_t t = 1; t <= 7 && finished.size() < beam; ++t) {
    std::vector<Scored> all;
    for (const auto& [log_p, tokens] : live) {
      const Tensor next = log_softmax(m.transformer.last_logits(
          source, Tensor::from(tokens, {1, t}), {nn::padding_mask(source, kPad), {}}));
      for (std::int32_t token = 0; token < 11; ++token) {
        all.emplace_back(log_p + next.at(token), tokens);
        all.back().second.push_back(token);
      }
    }
    std::sort(all.begin(), all.end(), likelier);
    all.resize(std::min(all.size(), 2 * beam));
    live.clear();
    for (const Scored& c : all) {
      if (live.size() == beam) break;
      (c.second.back() == kEnd ? finished : live).push_back(c);
    }
  }
  nn::Translation best;
  best.complete = !finished.empty();
  double highest = -1e9;
  for (const auto& [log_p, tokens] : best.complete ? finished : live) {
    const Tokens target(tokens.begin() + 1, tokens.end() - (best.complete ? 1 : 0));
    const double length = static_cast<double>(target.size());
    const double score = log_p / std::pow((5 + length) / 6, o.length_penalty);
    if (score > highest) highest = score, best.tokens = target, best.log_probability = log_p;
  }
  return best;
}

}  // namespace

TEST_CASE("a beam finds what sorting all candidates finds", "[translate]") {
  const Model m;
  Rng rng(9);
  std::size_t complete = 0, all = 0;
  for (const int beam : {1, 2, 3, 5, 12}) {
    for (int i = 0; i < 20; ++i, ++all) {
      const Tensor source = random_ids(rng, {1, 5}, kPad + 1);
      // Much of a penalty, so that what becomes of the later hypotheses counts.
      const nn::TranslateOptions options{.beam = beam, .length_penalty = 3};
      const auto expected = beam_search(m, source, options);
      const auto found = m.run(source, options)[0];
      INFO("beam " << beam << ", source " << i);
      CHECK(found.tokens == expected.tokens);
      CHECK(found.complete == expected.complete);
      CHECK(found.log_probability == Approx(expected.log_probability).epsilon(1e-5));
      complete += found.complete;
    }
  }
  CHECK(complete > all / 5);
  CHECK(complete < all);
}

TEST_CASE("a beam's translations are by themselves what they are in a batch", "[translate]") {
  const Model m;
  Rng rng(4);
  const Tensor all = random_ids(rng, {30, 5}, kPad + 1);
  const auto together = m.run(all, {.beam = 4});
  for (std::int64_t b = 0; b < 30; ++b) {
    const Tensor source = all.rows(b, b + 1);
    const auto& found = together[static_cast<std::size_t>(b)];
    CHECK(found.tokens == m.run(source, {.beam = 4})[0].tokens);
    // The model says the same of the tokens at once: no hypotheses were mixed up on the way.
    CHECK(found.log_probability ==
          Approx(log_probability(m, source, found.tokens, found.complete)).epsilon(1e-4));
  }
}

TEST_CASE("the length penalty decides between short and long translations", "[translate]") {
  const Model m;
  std::size_t with_none = 0, with_much = 0;
  Rng rng(2);
  for (int i = 0; i < 20; ++i) {
    const Tensor source = random_ids(rng, {1, 4}, 8);
    with_none += m.run(source, {.beam = 6, .length_penalty = 0})[0].tokens.size();
    with_much += m.run(source, {.beam = 6, .length_penalty = 3})[0].tokens.size();
  }
  CHECK(with_none < with_much);
}

TEST_CASE("translation records nothing on a live tape, and can be interrupted", "[translate]") {
  const Model m;
  const Tape tape;
  CHECK(m.run(sources()).size() == 3);
  CHECK(tape.size() == 0);
  int asked = 0;
  const auto found = m.run(sources(), {.interrupted = [&] { return ++asked > 2; }});
  for (const auto& translation : found) CHECK(translation.tokens.size() <= 2);
}

TEST_CASE("search options that mean nothing are errors that name them", "[translate]") {
  const Model m;
  CHECK_THROWS_WITH(m.run(sources(), {.beam = 0}), "beam must be from 1 to 1024, not 0");
  CHECK_THROWS_WITH(m.run(sources(), {.beam = 1025}), ContainsSubstring("not 1025"));
  CHECK_THROWS_WITH(m.run(sources(), {.length_penalty = -1}), ContainsSubstring("length_penalty"));
  Model broken;
  Tensor head = broken.transformer.lm_head.weight;
  head.mutable_data<double>()[3] = std::nan("");
  CHECK_THROWS_WITH(broken.run(sources()), ContainsSubstring("logits are NaN"));
}
