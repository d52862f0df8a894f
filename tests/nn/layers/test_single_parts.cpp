// Blocks that lack their feed-forward, or their mixer, as those of Nemotron-H.

#include <algorithm>
#include <string>

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/decoder/tiny_decoder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig parts_config(const std::string& mixers, const std::string& feed_forwards,
                               int blocks) {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.activation = nn::Activation::relu2, config.gated = false;
  config.positions = nn::Positions::none;
  config.n_layer = blocks;
  config.mixer_pattern = mixers, config.ff_pattern = feed_forwards;
  config.conv_kernel = 4;
  config.mamba = {.heads = 4, .head_size = 5, .state_size = 3, .groups = 2, .norm_groups = 2};
  return config;
}

// A Mamba-2 and a feed-forward, a Mamba-2 alone, attention and a feed-forward: in blocks of two
// parts, and of one.
nn::DecoderConfig in_pairs() { return parts_config("MMA", "FNF", 3); }
nn::DecoderConfig one_by_one() { return parts_config("MNMAN", "NFNNF", 5); }

// What a block of `in_pairs` is called where each part has its own.
std::string name_of_part(const std::string& name) {
  const std::string begin = "layers.";
  if (!name.starts_with(begin)) return name;
  constexpr int kPlaces[][2] = {{0, 1}, {2, -1}, {3, 4}};
  const bool feeds = name.find(".mlp.") != std::string::npos ||
                     name.find(".post_attention_layernorm.") != std::string::npos;
  const int block = name[begin.size()] - '0';
  return fmt::format("{}{}{}", begin, kPlaces[block][feeds ? 1 : 0], name.substr(begin.size() + 1));
}

}  // namespace

TEST_CASE("a block may be a mixer or a feed-forward alone, with one norm", "[single_parts]") {
  const TinyDecoder tiny(one_by_one());
  const std::vector<nn::Block>& h = tiny.model.h;
  for (const auto& [name, t] : tiny.params.parameters()) {
    INFO(name);
    const auto has = [&name = name](const char* part) { return name.find(part) != name.npos; };
    const bool feeds = name.starts_with("layers.1.") || name.starts_with("layers.4.");
    if (!name.starts_with("layers.")) continue;
    CHECK(feeds == (has(".mlp.") || has(".post_attention_layernorm.")));
  }
  const Tensor x = tiny.model.embed(tiny.inputs);
  CHECK(difference(h[0](x), x + h[0].mamba(h[0].ln_1(x)), 0, 0) == "");
  CHECK(difference(h[3](x), x + h[3].attn(h[3].ln_1(x)), 0, 0) == "");
  const Tensor hidden = nn::activate(h[1].mlp.c_fc(h[1].ln_2(x)), nn::Activation::relu2);
  CHECK(difference(h[1](x), x + h[1].mlp.c_proj(hidden), 1e-12, 1e-13) == "");
  CHECK_THROWS_WITH(tiny.model.attention_weights(1, x),
                    ContainsSubstring("a feed-forward in place of attention"));
}

TEST_CASE("parts compute the same in blocks of their own and in pairs", "[single_parts]") {
  const TinyDecoder pairs(in_pairs()), single(one_by_one());
  const NamedTensors& into = single.params.parameters();
  CHECK(pairs.params.count() == single.params.count());
  for (const auto& [name, t] : pairs.params.parameters()) {
    INFO(name);
    const auto own = std::ranges::find(into, name_of_part(name), &NamedTensors::value_type::first);
    REQUIRE(own != into.end());
    Tensor to = own->second;
    std::copy_n(t.data<double>(), t.numel(), to.mutable_data<double>());
  }
  CHECK(single.model.loss(pairs.inputs, pairs.targets).item() == pairs.loss());
}

TEST_CASE("a model whose first block mixes no positions knows how many a cache has",
          "[single_parts]") {
  nn::DecoderConfig config = tiny_config();
  config.n_layer = 3, config.mixer_pattern = "NA";  // and learned positions
  const TinyDecoder tiny(config);
  const Tensor logits = tiny.model(tiny.inputs);
  std::vector<nn::KVCache> kept(2);
  const std::vector<nn::KVCache*> caches = {&kept[0], &kept[1]};
  tiny.model.last_logits(columns(tiny.inputs, 0, 3), caches);
  CHECK((kept[0].length() == 3 && kept[1].length() == 3));
  const Tensor next = tiny.model.last_logits(columns(tiny.inputs, 3, 4), caches);
  CHECK(difference(next, select(logits, 1, 3), 1e-11, 1e-12) == "");
  kept[0].truncate(2);
  CHECK((kept[0].length() == 2 && kept[0].clone().length() == 2));
}

TEST_CASE("positions are dropped from blocks with attention, and others have none",
          "[single_parts]") {
  nn::DecoderConfig config = tiny_config();
  config.positions = nn::Positions::rotary;
  config.block_size = 9, config.n_layer = 3, config.mixer_pattern = "NAN";
  const TinyDecoder tiny(config);
  const auto row = [](const std::vector<std::int32_t>& text) {
    return Tensor::from(text, {1, std::ssize(text)});
  };
  nn::KVCache moved, anew;
  tiny.model.last_logits(row({3, 1, 4, 1, 5, 9, 2, 6}), moved);
  tiny.model.drop(moved, 2, 5);
  CHECK(moved.length() == 5);
  // The keys of the only block with attention are those of their tokens alone.
  tiny.model.last_logits(row({3, 1, 9, 2, 6}), anew);
  const Tensor next = row({5});
  CHECK(difference(tiny.model.last_logits(next, moved), tiny.model.last_logits(next, anew), 1e-10,
                   1e-11) == "");
}

TEST_CASE("a summary and a cache count the parts that there are", "[single_parts]") {
  const nn::Summary s = nn::summary(one_by_one(), 6), pairs = nn::summary(in_pairs(), 6);
  CHECK(s.parameters() == TinyDecoder(one_by_one()).params.count());
  CHECK(s.parameters() == pairs.parameters());
  CHECK(s.flops() == Approx(pairs.flops()).epsilon(1e-12));
  REQUIRE(s.kinds.size() == 3);
  CHECK((s.kinds[0].count == 2 && s.kinds[1].count == 2 && s.kinds[2].count == 1));
  CHECK(pairs.kinds.size() == 3);
  CHECK_THAT(s.str(),
             ContainsSubstring("of the Mamba-2") && !ContainsSubstring("of the feed-forward"));
  CHECK_THAT(nn::summary(parts_config("NM", "FN", 2), 6).str(),
             ContainsSubstring("of the feed-forward") && !ContainsSubstring("of the Mamba-2"));
  CHECK(nn::cache_bytes_per_position(one_by_one()) == nn::cache_bytes_per_position(in_pairs()));
  CHECK((one_by_one().residual_parts() == 5 && in_pairs().residual_parts() == 5));
  CHECK(tiny_config().residual_parts() == 2 * tiny_config().n_layer);
}

TEST_CASE("a block without a feed-forward has no router", "[single_parts]") {
  nn::DecoderConfig config = tiny_config();
  config.n_layer = 3, config.ff_pattern = "FNF", config.moe = {.experts = 3};
  TinyDecoder tiny(config);
  const std::vector<nn::Block>& h = tiny.model.h;
  CHECK((h[0].experts.exists() && h[2].experts.exists()));
  CHECK((!h[1].experts.exists() && !h[1].mlp.exists() && h[1].attn.exists()));
  const auto loss = [&] {
    Rng rng(1);
    nn::RouterLosses routers;
    const double value = tiny.model.loss(tiny.inputs, tiny.targets, &rng, -100, &routers).item();
    CHECK(routers.blocks.size() == 2);
    return value;
  };
  const double kept = loss();
  tiny.model.recompute = true;
  CHECK(loss() == kept);
}

TEST_CASE("a pattern of feed-forwards that leaves none out is none", "[single_parts]") {
  nn::DecoderConfig config = tiny_config();
  config.ff_pattern = "FFN";
  CHECK(config.with_defaults().ff_pattern.empty());  // of two blocks
  config.n_layer = 6, config.ff_pattern = "FNFN";
  CHECK(config.with_defaults().ff_pattern == "FN");
  // Letters of mixers that are attention where there is a mixer stay.
  config.mixer_pattern = "ANAN", config.ff_pattern.clear();
  CHECK(config.with_defaults().mixer_pattern == "AN");
  // Experts that no block has are none.
  config.mixer_pattern.clear(), config.ff_pattern = "NF";
  config.moe = {.experts = 4, .pattern = "ED"};
  CHECK(config.with_defaults().moe == nn::ExpertsConfig{});
  config.moe.pattern = "DE";
  CHECK(config.with_defaults().moe.exist());
  CHECK((!config.has_experts(0) && config.has_experts(1)));
}
