// The inside of a model: states, attention, logits of any state, the input's gradient.

#include "tapegrad/autograd/tape.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Both architectures, with each option that attention has.
std::vector<nn::DecoderConfig> inside_configs() {
  std::vector<nn::DecoderConfig> list(7, tiny_config());
  list[1].positions = nn::Positions::rotary;
  list[2].separate_qkv = true, list[2].norm = nn::NormKind::unbiased, list[2].tied = false;
  for (int i = 3; i < 7; ++i) {
    nn::DecoderConfig& c = list[static_cast<std::size_t>(i)];
    c.arch = nn::Architecture::llama;
    c.n_embd = 12, c.n_head = 6, c.n_kv_head = 2, c.head_size = 4;
  }
  list[4].qk_norm = true, list[4].n_kv_head = 1, list[4].tied = false, list[4].qkv_bias = true;
  list[5].rope_scaling = nn::RopeScalingKind::llama3, list[5].rope_factor = 4;
  list[5].rope_original_positions = 16, list[5].n_kv_head = std::nullopt;
  list[6].window = 2, list[6].window_pattern = "LS", list[6].attention_scale = 1.5;
  list[6].attention_softcap = 0.5, list[6].logit_softcap = 2;
  return list;
}

struct TinyModel {
  explicit TinyModel(const nn::DecoderConfig& config, DType dtype = DType::f64)
      : params(rng, dtype), model(params, config) {
    randomize(params.parameters(), rng);
    inputs = random_ids(rng, {2, config.block_size}, config.vocab_size);
    targets = random_ids(rng, {2, config.block_size}, config.vocab_size);
  }
  Rng rng{3};
  nn::Params params;
  nn::Decoder model;
  Tensor inputs, targets;
};

// Each head's weights (B, H, T, T) times its values, of which v (B, T, K·D) has K ≤ H heads.
Tensor taken(const Tensor& weights, const Tensor& v, std::int64_t head_size) {
  const std::int64_t B = weights.dim(0), H = weights.dim(1), T = weights.dim(2), D = head_size;
  const std::int64_t group = H / (v.dim(2) / D);
  Tensor y = Tensor::zeros({B, T, H * D}, DType::f64);
  auto* out = y.mutable_data<double>();
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t q = 0; q < T; ++q) {
        for (std::int64_t k = 0; k < T; ++k) {
          for (std::int64_t d = 0; d < D; ++d) {
            out[(b * T + q) * H * D + h * D + d] +=
                weights.at({b, h, q, k}) * v.at({b, k, h / group * D + d});
          }
        }
      }
    }
  }
  return y;
}

void check_rows(const Tensor& weights, bool causal) {
  for (std::int64_t i = 0; i < weights.numel(); ++i) {
    const std::int64_t T = weights.dim(3), q = i / T % T, k = i % T;
    CHECK(weights.at(i) >= 0);
    if (causal && k > q) CHECK(weights.at(i) == 0);
  }
  const Tensor ones = Tensor::full({2, weights.dim(1), weights.dim(2)}, 1.0, DType::f64);
  CHECK(difference(sum(weights, {-1}), ones, 0, 1e-12).empty());
}

}  // namespace

TEST_CASE("the attention weights of a block are those that its attention computes with",
          "[inside]") {
  for (const nn::DecoderConfig& config : inside_configs()) {
    const TinyModel tiny(config);
    const std::vector<Tensor> states = tiny.model.residual_stream(tiny.model.embed(tiny.inputs));
    Rng rng(3);  // the same parameters, in a model whose parts can be reached
    const nn::Params params(rng, DType::f64);
    const std::int64_t D = config.channels_per_head();
    for (std::size_t i = 0; i < tiny.model.h.size(); ++i) {
      const Tensor weights = tiny.model.attention_weights(static_cast<int>(i), states[i]);
      check_rows(weights, true);
      const nn::MultiHeadAttention& attn = tiny.model.h[i].attn;
      const Tensor x = tiny.model.h[i].ln_1(states[i]);
      const std::int64_t kv = config.kv_heads() * D, all = config.n_head * D + 2 * kv;
      const Tensor v =
          config.projects_apart() ? attn.W_value(x) : slice(attn.c_attn(x), 2, all - kv, all);
      CHECK(difference(attn.c_proj(taken(weights, v, D)), attn(x), 1e-11, 1e-12) == "");
    }
  }
}

TEST_CASE("attention weights know padding, and attention that is not causal", "[inside]") {
  Rng rng(4);
  const nn::Params params(rng, DType::f64);
  const nn::MultiHeadAttention attn(params, 8, {.n_head = 2, .causal = false});
  const Tensor x = normal(rng, {2, 5, 8});
  const Tensor padding =
      Tensor::from(std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1}, {2, 5});
  const Tensor weights = attn.weights(x, padding);
  check_rows(weights, false);
  CHECK(weights.at({1, 0, 2, 3}) == 0);
  CHECK(weights.at({0, 0, 0, 4}) > 0);
  const Tensor v = slice(attn.c_attn(x), 2, 16, 24);
  CHECK(difference(attn.c_proj(taken(weights, v, 4)), attn(x, nullptr, padding), 1e-11, 1e-12) ==
        "");
  CHECK_THROWS_WITH(attention_weights(normal(rng, {1, 2, 8}), normal(rng, {1, 3, 8}), 2),
                    ContainsSubstring("as many queries as keys, not 2 and 3"));
}

TEST_CASE("the last state's logits are the model's, bit for bit", "[inside]") {
  for (const nn::DecoderConfig& config : inside_configs()) {
    const TinyModel tiny(config, DType::f32);
    const Tensor embedded = tiny.model.embed(tiny.inputs);
    const std::vector<Tensor> states = tiny.model.residual_stream(embedded);
    REQUIRE(std::ssize(states) == config.n_layer + 1);
    CHECK(same_bits(states[0], embedded));
    CHECK(same_bits(tiny.model.logits_of(states.back()), tiny.model(tiny.inputs)));
    for (std::size_t i = 1; i < states.size(); ++i) CHECK(!same_bits(states[i], states[i - 1]));
    CHECK_THROWS_WITH(tiny.model.attention_weights(config.n_layer, states[0]),
                      ContainsSubstring("there is no block 2 of 2"));
  }
}

TEST_CASE("the input's gradient is that of central differences", "[inside]") {
  for (const nn::DecoderConfig& config : inside_configs()) {
    TinyModel tiny(config);
    tiny.targets.mutable_data<std::int32_t>()[3] = -100;
    const Tensor x = tiny.model.embed(tiny.inputs);
    const auto loss_at = [&](const Tensor& embedded) {
      const Tensor last = tiny.model.residual_stream(embedded).back();
      return cross_entropy(tiny.model.logits_of(last), tiny.targets).item();
    };
    CHECK(loss_at(x) == Approx(tiny.model.loss(tiny.inputs, tiny.targets).item()).epsilon(1e-12));
    const Tensor gradient = tiny.model.input_gradient(tiny.inputs, tiny.targets);
    REQUIRE(gradient.shape() == x.shape());
    for (std::int64_t i = 0; i < x.numel(); i += 5) {
      const double h = 1e-6;  // norms of small rows bend much
      Tensor up = x.clone(), down = x.clone();
      up.mutable_data<double>()[i] += h;
      down.mutable_data<double>()[i] -= h;
      CHECK(gradient.at(i) ==
            Approx((loss_at(up) - loss_at(down)) / (2 * h)).epsilon(1e-5).margin(1e-9));
    }
    for (const auto& [name, parameter] : tiny.params.parameters())
      CHECK(!parameter.grad().defined());
  }
}
