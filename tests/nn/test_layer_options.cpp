#include "tapegrad/nn/multi_head_attention.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

// The worked example of the tutorials: rows of four numbers, one apart.
TEST_CASE("LayerNorm gives the worked example with either variance", "[layers]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::LayerNorm biased(params / "biased", 4);
  const nn::LayerNorm unbiased(params / "unbiased", 4, true, {.unbiased = true});
  Tensor x = Tensor::empty({2, 3, 4});
  for (std::int64_t i = 0; i < 24; ++i) x.mutable_data<float>()[i] = static_cast<float>(i + 1);
  const Tensor y = biased(x), z = unbiased(x);
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const double distance = static_cast<double>(i) - 1.5;
      CHECK(y.at(4 * row + i) == Approx(distance / std::sqrt(1.25 + 1e-5)).epsilon(1e-5));
      CHECK(z.at(4 * row + i) == Approx(distance / std::sqrt(5.0 / 3 + 1e-5)).epsilon(1e-5));
    }
  }
  // As printed: -1.34, -0.45, 0.45, 1.34.
  CHECK(fmt::format("{:.2f} {:.2f} {:.2f} {:.2f}", y.at(0), y.at(1), y.at(2), y.at(3)) ==
        "-1.34 -0.45 0.45 1.34");
}

TEST_CASE("an unbiased LayerNorm is the formula written out, and so are its gradients",
          "[layers]") {
  Rng rng(2);
  const nn::Params params(rng, DType::f64);
  const nn::LayerNorm layer(params, 5, true, {.eps = 0.1, .unbiased = true});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {3, 5}), dy = normal(rng, {3, 5});
  const auto gradients_of = [&](auto f) {
    Tape tape;
    tape.watch(x);
    const Tensor y = f();
    Grads grads = tape.gradient(y, {x, layer.weight, layer.bias}, {.seeds = {dy}});
    grads.push_back(y);
    return grads;
  };
  const Grads fused = gradients_of([&] { return layer(x); });
  const Grads written = gradients_of([&] {
    const Tensor centred = x - mean(x, {1}, true);
    return centred / sqrt(var(x, {1}, true, true) + 0.1) * layer.weight + layer.bias;
  });
  for (std::size_t i = 0; i < fused.size(); ++i) {
    CHECK(difference(fused[i], written[i], 1e-11, 1e-13) == "");
  }
}

TEST_CASE("separate projections draw one after the other, each its weight and then its bias",
          "[layers]") {
  Rng rng(3), again(3);
  const nn::Params params(rng), expected(again);
  const nn::MultiHeadAttention attn(params, 8, {.n_head = 2, .separate_qkv = true});
  for (const char* name : {"W_query", "W_key", "W_value", "c_proj"}) {
    nn::Linear(expected / name, 8, 8);
  }
  REQUIRE(params.parameters().size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(params.parameters()[i].first == expected.parameters()[i].first);
    CHECK(same_bits(params.parameters()[i].second, expected.parameters()[i].second));
  }
}

TEST_CASE("separate projections and one that holds them side by side are the same attention",
          "[layers]") {
  const bool rope = GENERATE(false, true);
  Rng rng(4);
  const nn::Params params(rng, DType::f64), separate_params(rng, DType::f64);
  const nn::MultiHeadAttention merged(params, 8, {.n_head = 2, .rope = rope});
  nn::MultiHeadAttention separate(separate_params, 8,
                                  {.n_head = 2, .separate_qkv = true, .rope = rope});
  randomize(params.parameters(), rng);
  std::int64_t row = 0;
  for (nn::Linear* part : {&separate.W_query, &separate.W_key, &separate.W_value}) {
    part->weight = merged.c_attn.weight.rows(row, row + 8);
    part->bias = merged.c_attn.bias.rows(row, row + 8);
    row += 8;
  }
  separate.c_proj = merged.c_proj;
  const Tensor x = normal(rng, {2, 5, 8});
  CHECK(difference(separate(x), merged(x), 1e-13, 1e-14) == "");
  const nn::MultiHeadAttention unturned = [&] {
    nn::MultiHeadAttention copy = merged;
    copy.config.rope = !rope;
    return copy;
  }();
  CHECK(difference(unturned(x), merged(x), 1e-3, 1e-3) != "");
}

TEST_CASE("a feed-forward layer drops out where it is told to", "[layers]") {
  Rng rng(5);
  const nn::Params params(rng, DType::f64);
  const nn::FeedForward ff(
      params, 4,
      {.hidden = 16, .activation = nn::Activation::relu, .dropout = 0.5, .hidden_dropout = 0.25});
  const Tensor x = normal(rng, {3, 4});
  Rng drawn(6), expected(6);
  const Tensor inner = dropout(relu(ff.c_fc(x)), 0.25, expected);
  CHECK(same_bits(ff(x, &drawn), dropout(ff.c_proj(inner), 0.5, expected)));
  CHECK(drawn.state() == expected.state());
  CHECK(same_bits(ff(x), ff.c_proj(relu(ff.c_fc(x)))));
}

TEST_CASE("activations are known by their names", "[layers]") {
  CHECK(enum_of<nn::Activation>("gelu") == nn::Activation::gelu);
  CHECK(enum_of<nn::Activation>("gelu-erf") == nn::Activation::gelu_erf);
  CHECK(enum_of<nn::Activation>("relu") == nn::Activation::relu);
  CHECK(enum_of<nn::Activation>("relu2") == nn::Activation::relu2);
  CHECK_FALSE(enum_of<nn::Activation>("swish").has_value());
  CHECK(name_of_enum(nn::Activation::gelu_erf) == "gelu-erf");
}

TEST_CASE("attention to another sequence needs projections of its own and no order", "[layers]") {
  Rng rng(7);
  const nn::Params params(rng);
  const nn::MultiHeadAttention packed(params / "packed", 8, {.n_head = 2, .causal = false});
  const nn::MultiHeadAttention causal(params / "causal", 8, {.n_head = 2, .separate_qkv = true});
  const Tensor x = Tensor::ones({1, 3, 8});
  CHECK_THROWS_WITH(packed(x, x, nullptr, {}), ContainsSubstring("needs separate_qkv"));
  CHECK_THROWS_WITH(causal(x, x, nullptr, {}), ContainsSubstring("neither causal, rope"));
}
