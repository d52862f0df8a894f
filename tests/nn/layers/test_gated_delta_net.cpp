// Gated delta nets in place of attention: the layer, and models that have some. Tests of what
// generation does with states are also of Mamba-2, which has its own file beside this one.

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/layers/gated_delta_net.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::Generation;
using nn::Tokens;

namespace {

nn::DecoderConfig config_of(const std::string& mixers) {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.vocab_size = 50;
  config.block_size = 900;  // more than three places
  config.n_embd = 64;
  config.mixer_pattern = mixers;
  if (mixers.find('D') != std::string::npos) {
    config.delta_heads = 4, config.delta_key_heads = 2;
    config.delta_key_size = 12, config.delta_value_size = 20;
  }
  if (mixers.find_first_of("MP") != std::string::npos) {
    config.mamba = {.heads = 4, .head_size = 20, .state_size = 12, .groups = 2};
  }
  return config;
}

struct Model {
  explicit Model(const nn::DecoderConfig& config, DType dtype = DType::f32, bool quantized = false)
      : params(rng, dtype) {
    if (quantized) params.quantize(&stored_type("q8_0"), true);
    gpt.emplace(params, config);
    randomize(params.parameters(), rng);
  }
  Rng rng{3};
  nn::Params params;
  std::optional<nn::Decoder> gpt;
};

Tensor positions(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, 1, begin, end);
}

Tensor of_length_one(const Tensor& x) { return x / sqrt(sum(x * x, {-1}, true) + 1e-6); }

// A prompt that is like no other one but at its beginning.
Tokens prompt_of(std::int32_t step, std::int64_t length, std::int64_t common = 0) {
  Tokens prompt;
  for (std::int64_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<std::int32_t>((i < common ? 7 * i : step * i + step) % 50));
  }
  return prompt;
}

using Text = std::vector<std::pair<std::int32_t, double>>;

Text taken(Generation& generation, Generation::Id id) {
  Text text;
  for (const nn::NewToken& t : generation.take(id).tokens) text.emplace_back(t.token, t.logprob);
  return text;
}

const nn::GenerateOptions kOptions{.max_new_tokens = 20, .logprobs = true};

Text alone(const nn::Decoder& gpt, const Tokens& prompt, std::uint64_t seed) {
  Generation generation(gpt);
  const auto id = generation.add(prompt, kOptions, Rng(seed));
  while (generation.step()) {
  }
  return taken(generation, id);
}

}  // namespace

TEST_CASE("a gated delta net computes what its formula says", "[gated_delta_net]") {
  Rng rng(1);
  const nn::Params params(rng, DType::f64);
  const std::int64_t C = 6, T = 7;
  const nn::GatedDeltaNetConfig config{
      .heads = 4, .key_heads = 2, .key_size = 3, .value_size = 5, .kernel = 4};
  const nn::GatedDeltaNet layer(params, C, config);
  std::vector<std::string> names;
  for (const auto& [name, t] : params.parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"conv1d.weight", "in_proj_qkv.weight", "in_proj_z.weight",
                                          "in_proj_b.weight", "in_proj_a.weight", "dt_bias",
                                          "A_log", "norm.weight", "out_proj.weight"});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {2, T, C});
  const Tensor mixed =
      conv1d(transpose(layer.in_proj_qkv(x), 1, 2), layer.weight, {}, {.padding = 3, .groups = 32});
  const Tensor seen = silu(transpose(slice(mixed, 2, 0, T), 1, 2));
  const std::vector<Tensor> parts = split(seen, {6, 6, 20}, 2);
  const Tensor g = -exp(layer.A_log) * softplus(layer.in_proj_a(x) + layer.dt_bias);
  const Tensor y = gated_delta_rule_steps(
      of_length_one(parts[0].view({2, T, 2, 3})), of_length_one(parts[1].view({2, T, 2, 3})),
      parts[2].view({2, T, 4, 5}), g, sigmoid(layer.in_proj_b(x)));
  const Tensor normed = y / sqrt(mean(y * y, {-1}, true) + 1e-6) * layer.norm.weight;
  const Tensor expected = layer.out_proj(normed.view({2, T, 20}) * silu(layer.in_proj_z(x)));
  CHECK(difference(layer(x), expected, 1e-11, 1e-12) == "");
}

TEST_CASE("first rates and steps of a gated delta net are those of its authors",
          "[gated_delta_net]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::GatedDeltaNet layer(params, 8, {.heads = 500, .key_heads = 1});
  for (const double x : list(exp(layer.A_log))) CHECK((x > 0 && x <= 16.001));
  for (const double x : list(softplus(layer.dt_bias))) CHECK((x > 0.00099 && x < 0.101));
  CHECK(mean(exp(layer.A_log)).item() == Approx(8).margin(1));
}

TEST_CASE("a gated delta net goes on behind a cache to the bit, however it is cut",
          "[gated_delta_net]") {
  Rng rng(2);
  const nn::Params params(rng);
  const std::int64_t C = 6, T = 560;
  const nn::GatedDeltaNet layer(
      params, C, {.heads = 2, .key_heads = 1, .key_size = 5, .value_size = 9, .kernel = 4});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {1, T, C}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;  // of the linear layers: pieces are products of other sizes
  nn::KVCache all, cache;
  nn::KVCache *const one = &all, *const other = &cache;
  const Tensor whole = layer(x, nn::CachedLayer({&one, 1}, 0));
  CHECK(difference(whole, layer(x), 1e-3, 1e-4) == "");
  const nn::CachedLayer cached({&other, 1}, 0);
  for (std::int64_t begin = 0, end = 1; begin < T; begin = end, end = std::min(T, 3 * end)) {
    CHECK(same_bits(layer(positions(x, begin, end), cached), positions(whole, begin, end)));
  }
  // It is cut at places alone, and goes on from there.
  CHECK(cache.reachable(900) == T);
  for (const auto& [length, left] :
       {std::pair(559, 512), std::pair(511, 256), std::pair(256, 256), std::pair(255, 0)}) {
    CHECK(cache.reachable(length) == left);
    CHECK(cache.first(length, 600).length() == left);
    cache.truncate(length);
    CHECK(cache.length() == left);
    CHECK(same_bits(layer(positions(x, left, left + 3), cached), positions(whole, left, left + 3)));
    cache.truncate(left);
  }
}

TEST_CASE("of a pass over rows of one sequence, any may be taken back", "[gated_delta_net]") {
  Rng rng(4);
  const nn::Params params(rng);
  const std::int64_t C = 6;
  const nn::GatedDeltaNet layer(params, C, {.heads = 2, .key_size = 5, .value_size = 9});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {1, 300, C}, DType::f32), y = normal(rng, {1, 300, C}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;
  nn::KVCache all, first, second;
  nn::KVCache *const one = &all, *const alone = &first;
  const Tensor whole = layer(x, nn::CachedLayer({&one, 1}, 0));
  layer(positions(x, 0, 252), nn::CachedLayer({&alone, 1}, 0));
  std::int64_t at = 252;
  for (const std::int64_t right : {1, 5, 2, 4, 3, 1}) {  // of five rows, beyond a place
    const std::vector<nn::KVCache*> caches = {&second, &first, &first, &first, &first, &first};
    const Tensor rows = concat({positions(y, 0, 1), positions(x, at, at + 5)}, 1).view({6, 1, C});
    const Tensor seen = layer(rows, nn::CachedLayer(caches, 0)).view({1, 6, C});
    CHECK(same_bits(positions(seen, 1, 6), positions(whole, at, at + 5)));
    CHECK(first.clone().length() == at + 5);
    at += right;
    first.truncate(at);
    CHECK(first.length() == at);
  }
  CHECK(first.reachable(260) == 256);
  CHECK(second.length() == 6);
}

TEST_CASE("rows that stay are not computed once more", "[gated_delta_net]") {
  Rng rng(4);
  const nn::Params params(rng);
  const nn::GatedDeltaNet layer(params, 6, {.heads = 2, .key_size = 5, .value_size = 9});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {6, 1, 6}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;
  for (const bool cuts : {true, false}) {
    nn::KVCache cache;
    cache.expect_cuts(cuts);
    const std::vector<nn::KVCache*> caches(5, &cache);
    layer(slice(x, 0, 0, 5), nn::CachedLayer(caches, 0));
    CHECK(cache.length() == 5);
    CHECK(cache.reachable(4) == (cuts ? 4 : 0));
    nn::KVCache* const one = &cache;
    const Tensor next = layer(slice(x, 0, 5, 6), nn::CachedLayer({&one, 1}, 0));
    nn::KVCache all;
    nn::KVCache* const other = &all;
    const Tensor whole = layer(x.view({1, 6, 6}), nn::CachedLayer({&other, 1}, 0));
    CHECK(same_bits(next.view({1, 1, 6}), positions(whole, 5, 6)));
  }
  // Short prompts that are read in one pass stay.
  const Model model(config_of("D"), DType::f32, true);
  Generation generation(*model.gpt);
  for (std::int32_t i = 3; i < 5; ++i) generation.add(prompt_of(i, 10), kOptions, Rng(1));
  generation.step();
  CHECK(generation.used_positions() == 2 * 256);
}

TEST_CASE("texts of a model with recurrent layers become what they become alone",
          "[gated_delta_net][mamba2]") {
  const bool quantized = GENERATE(false, true);
  const Model model(config_of(GENERATE("DDA", "MMA", "PA")), DType::f32, quantized);
  const Threads threads(GENERATE(1, 3));
  Generation together(*model.gpt, {.max_sequences = 8});
  std::map<Generation::Id, Text> texts;
  std::vector<Tokens> prompts;
  std::vector<Generation::Id> ids;
  const std::int64_t lengths[] = {1, 2, 30, 255, 256, 300, 530};
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    prompts.push_back(prompt_of(static_cast<std::int32_t>(i) + 3, lengths[i]));
    ids.push_back(together.add(prompts.back(), kOptions, Rng(i)));
    if (i % 2 == 0) together.step();
  }
  while (together.step()) {
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(taken(together, ids[i]) == alone(*model.gpt, prompts[i], i));
  }
}

TEST_CASE("recurrent layers share beginnings up to a place", "[gated_delta_net][mamba2]") {
  const Model model(config_of(GENERATE("DA", "MA", "P")), DType::f32, true);
  const Tokens a = prompt_of(3, 600, 550), b = prompt_of(4, 580, 550), c = prompt_of(5, 90, 80);
  Generation generation(*model.gpt);
  const auto first = generation.add(a, kOptions, Rng(1));
  const auto beside = generation.add(b, kOptions, Rng(2));  // waits for 512 positions of the first
  while (generation.step()) {
  }
  CHECK(generation.cost().reused_tokens == 512);
  CHECK(taken(generation, first) == alone(*model.gpt, a, 1));
  CHECK(taken(generation, beside) == alone(*model.gpt, b, 2));
  generation.remove(first);
  const auto again = generation.add(prompt_of(6, 570, 540), kOptions, Rng(3));
  const auto shorter = generation.add(c, kOptions, Rng(4));
  CHECK(generation.cost().reused_tokens == 1024);
  while (generation.step()) {
  }
  CHECK(taken(generation, again) == alone(*model.gpt, prompt_of(6, 570, 540), 3));
  CHECK(taken(generation, shorter) == alone(*model.gpt, c, 4));
  CHECK(generation.used_positions() > 0);
}

TEST_CASE("caches of recurrent layers alone are counted, and forgotten",
          "[gated_delta_net][mamba2]") {
  const Model model(config_of(GENERATE("D", "M")), DType::f32, true);
  Generation generation(*model.gpt, {.max_sequences = 2, .max_positions = 700});
  for (std::int32_t i = 0; i < 4; ++i) {
    const auto id = generation.add(prompt_of(i + 3, 300), kOptions, Rng(1));
    while (generation.step()) {
    }
    generation.remove(id);
  }
  // One text of 319 tokens: the places at 256 and at its end, each as large as 256 positions.
  CHECK(generation.kept_positions() == 2 * 256);
}

TEST_CASE("a short text sets aside the memory of a state", "[gated_delta_net]") {
  const Model model(config_of("DA"), DType::f32, true);
  Generation generation(*model.gpt, {.max_sequences = 9, .max_positions = 600});
  generation.add(prompt_of(1, 10), kOptions, Rng(1));
  CHECK(generation.positions() == 256);
  const auto second = generation.add(prompt_of(2, 10), kOptions, Rng(1));
  CHECK(generation.positions() == 512);
  CHECK_FALSE(generation.has_room(10, kOptions));
  CHECK_THROWS_WITH(generation.add(prompt_of(3, 10), kOptions, Rng(1)),
                    ContainsSubstring("need 256 positions in the cache, of which 88 of 600"));
  while (generation.step()) {
    CHECK(generation.used_positions() <= generation.positions());
  }
  generation.remove(second);
  CHECK(generation.positions() == 256);
  // Without a limit, there is room for the longest texts, which take that of whole states.
  const std::int64_t most = model.gpt->config.block_size;
  Generation two(*model.gpt, {.max_sequences = 2});
  for (int i = 0; i < 2; ++i) two.add(prompt_of(4, most - 1), kOptions, Rng(1));
  CHECK(two.positions() == 2 * nn::cached_positions(most, model.gpt->config));
}

TEST_CASE("nothing can be dropped of a state", "[gated_delta_net][mamba2]") {
  const Model model(config_of(GENERATE("DA", "MA", "P")));
  CHECK_FALSE(model.gpt->can_move());
  nn::KVCache cache;
  model.gpt->last_logits(Tensor::zeros({1, 8}, DType::i32), cache);
  CHECK_THROWS_WITH(model.gpt->drop(cache, 1, 3), ContainsSubstring("states of all positions"));
  CHECK_THROWS_WITH(cache.drop(1, 3, [](std::size_t, const Tensor& keys) { return keys; }),
                    ContainsSubstring("nothing can be dropped of the state of recurrent layer 0"));
}

TEST_CASE("blocks have a gated delta net as the pattern says", "[gated_delta_net]") {
  Model model(config_of("DA"));
  const std::vector<nn::Block>& blocks = model.gpt->h;
  CHECK((blocks[0].delta.exists() && !blocks[0].attn.exists() && !blocks[0].conv.exists()));
  CHECK((!blocks[1].delta.exists() && blocks[1].attn.exists()));
  CHECK_THROWS_WITH(model.gpt->attention_weights(0, Tensor::ones({1, 2, 64})),
                    ContainsSubstring("a gated delta net in place of attention"));
  // Letters that choose nothing are none, and sizes have defaults.
  CHECK(config_of("AA").with_defaults() == config_of("").with_defaults());
  nn::DecoderConfig plain = tiny_config();
  plain.mixer_pattern = "D";
  CHECK(plain.with_defaults().delta_heads == 2);
  CHECK(plain.with_defaults().delta_value_size == 4);
}

TEST_CASE("a summary and a cache count gated delta nets", "[gated_delta_net]") {
  nn::DecoderConfig config = config_of("DDA");
  config.n_layer = 6, config.n_inner = 16;
  const nn::Summary s = nn::summary(config, 6);
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config);
  CHECK(s.parameters() == params.count());
  REQUIRE(s.kinds.size() == 2);
  CHECK((s.kinds[0].count == 4 && s.kinds[1].first == 2 && s.kinds[1].count == 2));
  CHECK_THAT(s.str(), ContainsSubstring("4 heads, states of 12 x 20, 2 of queries and keys") &&
                          ContainsSubstring("of the gated delta net"));
  // Two of keys and values of 64 channels, and for each 256 positions a state of 4 heads and the
  // inputs that a convolution sees, of two heads of keys and queries, and of 4 of values.
  const std::int64_t inputs = (config.conv_kernel - 1) * (2 * 2 * 12 + 4 * 20 + 2 * 4);
  CHECK(nn::cache_bytes_per_position(config) ==
        4 * 4 * ((4 * 12 * 20 + inputs + 255) / 256) + 2 * 2 * 64 * 4);
}

TEST_CASE("GPT-2's first weights leave kernels of gated delta nets as they are drawn",
          "[gated_delta_net]") {
  const nn::DecoderConfig config = config_of("D");
  Rng rng(1), other(1);
  const nn::Params params(rng), drawn(other);
  const nn::Decoder model = nn::make_decoder(params, config, {.gpt2_weights = &rng});
  const nn::Decoder plain(drawn, config);
  CHECK(same_bits(model.h[1].delta.weight, plain.h[1].delta.weight));
  CHECK(same_bits(model.h[1].delta.A_log, plain.h[1].delta.A_log));
  CHECK_FALSE(same_bits(model.h[1].delta.in_proj_qkv.weight, plain.h[1].delta.in_proj_qkv.weight));
}
