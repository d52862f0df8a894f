// The parts of a Decoder, one by one and together, in f64.

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/measure.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Config = nn::DecoderConfig;
using Change = std::function<void(Config&)>;

struct Part {
  const char* name;
  Change change;
};

// Each part that neither GPT-2 nor Llama has, beside the other parts of both.
const std::vector<Part>& parts() {
  static const std::vector<Part> list = {
      {"groups", [](Config& c) { c.n_kv_head = 1; }},
      {"head size", [](Config& c) { c.head_size = 6; }},
      {"norms of heads", [](Config& c) { c.qk_norm = true; }},
      {"biases", [](Config& c) { c.bias = true; }},
      {"no biases", [](Config& c) { c.bias = false, c.tied = false; }},
      {"layer norm", [](Config& c) { c.norm = nn::NormKind::layer; }},
      {"unbiased norm", [](Config& c) { c.norm = nn::NormKind::unbiased, c.qk_norm = true; }},
      {"RMS norm", [](Config& c) { c.norm = nn::NormKind::rms; }},
      {"RMS norm of 1 + w", [](Config& c) { c.norm = nn::NormKind::rms_plus, c.qk_norm = true; }},
      {"norms after", [](Config& c) { c.norm_place = nn::NormPlace::after; }},
      {"norms before and after", [](Config& c) { c.norm_place = nn::NormPlace::both; }},
      {"learned positions", [](Config& c) { c.positions = nn::Positions::learned; }},
      {"rotary positions", [](Config& c) { c.positions = nn::Positions::rotary; }},
      {"no positions", [](Config& c) { c.positions = nn::Positions::none; }},
      {"one projection",
       [](Config& c) { c.separate_qkv = false, c.n_kv_head = 1, c.head_size = 6; }},
      {"three projections", [](Config& c) { c.separate_qkv = true, c.n_kv_head = 1; }},
      {"gate", [](Config& c) { c.gated = true; }},
      {"gate in one projection", [](Config& c) { c.gated = c.joined_gate = true; }},
      {"biases in norms alone",
       [](Config& c) {
         c.norm = nn::NormKind::layer, c.bias = c.qkv_bias = false, c.norm_bias = true;
       }},
      {"some channels turn",
       [](Config& c) {
         c.positions = nn::Positions::rotary, c.head_size = 6, c.rope_channels = 4;
       }},
      {"gate of gelu", [](Config& c) { c.gated = true, c.activation = nn::Activation::gelu; }},
      {"squared relu", [](Config& c) { c.activation = nn::Activation::relu2; }},
      {"silu alone", [](Config& c) { c.gated = false, c.activation = nn::Activation::silu; }},
      {"embedding scale", [](Config& c) { c.embedding_scale = 3.5; }},
      {"window", [](Config& c) { c.window = 2; }},
      {"window in each second block", [](Config& c) { c.window = 3, c.window_pattern = "SL"; }},
      {"caps", [](Config& c) { c.attention_softcap = 0.7, c.logit_softcap = 1.5; }},
      {"sinks", [](Config& c) { c.attention_sinks = true, c.window = 2; }},
      {"a gate and what it multiplies, limited",
       [](Config& c) { c.gated = true, c.activation = nn::Activation::clamped_swiglu; }},
      {"norms of all heads", [](Config& c) { c.qk_norm = c.qk_norm_whole = true; }},
      {"scales of logits and of what blocks add",
       [](Config& c) { c.logit_scale = 0.3, c.logit_softcap = 1.5, c.residual_scale = 0.4; }},
      {"another base in blocks with the window",
       [](Config& c) {
         c.positions = nn::Positions::rotary, c.window = 3, c.window_pattern = "SL";
         c.rope_window_base = 5, c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 3;
       }},
      {"blocks without positions",
       [](Config& c) { c.positions = nn::Positions::rotary, c.rope_pattern = "NR"; }},
      {"convolutions in place of attention", [](Config& c) { c.mixer_pattern = "C"; }},
      {"a convolution and attention",
       [](Config& c) { c.mixer_pattern = "CA", c.conv_kernel = 4, c.conv_bias = true; }},
      {"a convolution of one position, norms after",
       [](Config& c) {
         c.mixer_pattern = "AC", c.conv_kernel = 1, c.norm_place = nn::NormPlace::after;
       }},
      {"a convolution of more positions than there are, and a window",
       [](Config& c) { c.mixer_pattern = "CA", c.conv_kernel = 9, c.window = 2; }},
      {"gated delta nets", [](Config& c) { c.mixer_pattern = "D"; }},
      {"a gated delta net and attention, heads of values that share queries and keys",
       [](Config& c) {
         c.mixer_pattern = "DA", c.conv_kernel = 4, c.delta_heads = 4, c.delta_key_heads = 2;
         c.delta_key_size = 3, c.delta_value_size = 5;
       }},
      {"a convolution and a gated delta net of one position",
       [](Config& c) { c.mixer_pattern = "CD", c.conv_kernel = 1; }},
      {"Mamba-2, and attention without positions",
       [](Config& c) {
         c.mixer_pattern = "MA", c.conv_kernel = 4, c.conv_bias = true;
         c.mamba = {.heads = 4, .head_size = 3, .state_size = 5, .groups = 2};
         c.positions = nn::Positions::none;
       }},
      {"a Mamba-2 of its usual sizes", [](Config& c) { c.mixer_pattern = "M"; }},
      {"gates of attention",
       [](Config& c) {
         c.separate_qkv = c.attn_gate = c.qk_norm = true, c.head_size = 6, c.n_kv_head = 1;
         c.positions = nn::Positions::rotary, c.rope_channels = 2;
       }},
      {"residual scalars", [](Config& c) { c.residual_scalars = true; }},
      {"embeddings of pairs", [](Config& c) { c.ngrams = 2; }},
      {"embeddings of triples that share rows",
       [](Config& c) { c.ngrams = 3, c.ngram_rows = 7, c.embedding_scale = 2; }},
      {"scale of scores", [](Config& c) { c.attention_scale = 1.3; }},
      {"linear scaling",
       [](Config& c) {
         c.positions = nn::Positions::rotary;
         c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 3;
       }},
      {"YaRN",
       [](Config& c) {
         c.positions = nn::Positions::rotary, c.rope_scaling = nn::RopeScalingKind::yarn;
         c.rope_factor = 3, c.rope_original_positions = 8, c.rope_base = 10;
       }},
      {"LongRoPE",
       [](Config& c) {
         c.positions = nn::Positions::rotary, c.rope_scaling = nn::RopeScalingKind::longrope;
         c.rope_factor = 3, c.rope_original_positions = 3;
         c.rope_short_factors = c.rope_long_factors = "1";
         for (std::int64_t i = 2; i < c.channels_per_head(); i += 2) {
           c.rope_short_factors += ",1.5", c.rope_long_factors += ",3";
         }
       }},
      {"queries that grow",
       [](Config& c) { c.query_scale_beta = 0.5, c.rope_original_positions = 2; }},
      {"all that nanochat has",
       [](Config& c) {
         c.positions = nn::Positions::rotary, c.rope_reversed = true;
         c.norm = nn::NormKind::rms_bare, c.embedding_norm = c.qk_norm = true;
         c.activation = nn::Activation::relu2, c.logit_softcap = 15;
       }},
      {"biases in the feed-forward alone", [](Config& c) { c.bias = false, c.mlp_bias = true; }},
      {"biases in attention alone", [](Config& c) { c.bias = true, c.mlp_bias = false; }},
      {"all that Gemma has",
       [](Config& c) {
         c.norm = nn::NormKind::rms_plus, c.norm_place = nn::NormPlace::both;
         c.gated = true, c.activation = nn::Activation::gelu, c.embedding_scale = std::sqrt(8.0);
         c.positions = nn::Positions::rotary, c.n_kv_head = 1, c.qk_norm = true;
         c.window = 3, c.window_pattern = "SL";
         c.attention_softcap = 2, c.logit_softcap = 3, c.attention_scale = 0.4;
       }},
  };
  return list;
}

struct Tiny {
  explicit Tiny(const Config& config) : params(rng, DType::f64), model(params, config) {
    randomize(params.parameters(), rng);
    inputs = random_ids(rng, {2, config.block_size}, config.vocab_size);
    targets = random_ids(rng, {2, config.block_size}, config.vocab_size);
  }
  double loss() const { return model.loss(inputs, targets).item(); }
  Rng rng{5};
  nn::Params params;
  nn::Decoder model;
  Tensor inputs, targets;
};

template <class Check>
void for_each_part(const Check& check) {
  for (const auto arch : {nn::Architecture::gpt2, nn::Architecture::llama}) {
    for (const Part& part : parts()) {
      Config config = tiny_config();
      config.arch = arch;
      part.change(config);
      INFO(name_of_enum(arch) << ", " << part.name);
      check(config);
    }
  }
}

// Moves all parameters along `direction`, which has one tensor for each.
void move(const NamedTensors& parameters, const std::vector<Tensor>& direction, double by) {
  const TapePause pause;
  for (std::size_t i = 0; i < direction.size(); ++i) {
    Tensor weight = parameters[i].second;
    weight += direction[i] * by;
  }
}

}  // namespace

TEST_CASE("a Decoder's gradients are the slope of its loss, whatever its parts", "[decoder]") {
  for_each_part([](const Config& config) {
    Tiny tiny(config);
    std::vector<Tensor> direction;
    double expected = 0;
    {
      Tape tape;
      tape.backward(tiny.model.loss(tiny.inputs, tiny.targets));
    }
    const NamedTensors& parameters = tiny.params.parameters();
    for (const auto& [name, t] : parameters) {
      INFO(name);
      REQUIRE(t.grad().defined());
      direction.push_back(normal(tiny.rng, t.shape(), DType::f64));
      expected += sum(t.grad() * direction.back()).item();
    }
    const double h = 3e-7;
    move(parameters, direction, h);
    const double above = tiny.loss();
    move(parameters, direction, -2 * h);
    CHECK((above - tiny.loss()) / (2 * h) == Approx(expected).epsilon(1e-6).margin(1e-8));
  });
}

TEST_CASE("a Decoder's loss is that of its logits, and a cache changes nothing, whatever its parts",
          "[decoder]") {
  for_each_part([](const Config& config) {
    Tiny tiny(config);
    const Tensor logits = tiny.model(tiny.inputs);
    CHECK(tiny.loss() == Approx(cross_entropy(logits, tiny.targets).item()).epsilon(1e-12));
    std::vector<nn::KVCache> kept(2);
    const std::vector<nn::KVCache*> caches = {&kept[0], &kept[1]};
    for (std::int64_t t = 0; t < config.block_size; ++t) {
      const Tensor next = tiny.model.last_logits(columns(tiny.inputs, t, t + 1), caches);
      CHECK(difference(next, select(logits, 1, t), 1e-11, 1e-12) == "");
    }
    const std::vector<Tensor> states = tiny.model.residual_stream(tiny.model.embed(tiny.inputs));
    CHECK(difference(tiny.model.logits_of(states.back()), logits, 1e-12, 1e-12) == "");
  });
}

TEST_CASE(
    "documents side by side have the loss and gradients that each has alone, whatever the parts",
    "[decoder]") {
  const std::vector<std::array<std::int64_t, 3>> documents = {// row, begin, end
                                                              {0, 0, 1},
                                                              {0, 1, 4},
                                                              {0, 4, 6},
                                                              {1, 0, 4},
                                                              {1, 4, 6}};
  const Tensor starts = ids({0, 1, 1, 1, 4, 4, 0, 0, 0, 0, 4, 4}).view({2, 6});
  for_each_part([&](const Config& config) {
    Tiny tiny(config);
    const auto gradients = [&](const auto& loss) {
      Tape tape;
      Tensor value = loss();
      tape.backward(value);
      std::vector<Tensor> result = {value};
      for (auto [name, t] : tiny.params.parameters()) {
        result.push_back(t.grad().clone());
        t.zero_grad();
      }
      return result;
    };
    const auto packed = [&] { return tiny.model.loss({tiny.inputs, starts}, tiny.targets); };
    const auto together = gradients(packed);
    const auto apart = gradients([&] {
      Tensor sum = Tensor::scalar(0, DType::f64);
      for (const auto& [row, begin, end] : documents) {
        const Tensor in = columns(tiny.inputs.rows(row, row + 1), begin, end);
        const Tensor out = columns(tiny.targets.rows(row, row + 1), begin, end);
        sum = sum + tiny.model.loss(in, out) * (static_cast<double>(end - begin) / 12);
      }
      return sum;
    });
    tiny.model.recompute = true;
    const auto again = gradients(packed);
    for (std::size_t i = 0; i < apart.size(); ++i) {
      CHECK(difference(together[i], apart[i], 1e-11, 1e-12) == "");
      CHECK(same_bits(again[i], together[i]));
    }
    CHECK(together[0].item() != tiny.loss());
  });
  const Tiny tiny(tiny_config());
  CHECK_THROWS_WITH(tiny.model.loss({tiny.inputs, starts.view({3, 4})}, tiny.targets),
                    ContainsSubstring("[decoder] document_starts must be i32 of (2, 6), not"));
}

TEST_CASE("each part takes part in what a Decoder computes", "[decoder]") {
  for (const auto arch : {nn::Architecture::gpt2, nn::Architecture::llama}) {
    Config plain = tiny_config();
    plain.arch = arch;
    const auto differs = [&](const Change& change) {
      Config config = plain;
      change(config);
      return Tiny(config).loss() != Tiny(plain).loss();
    };
    CHECK(differs([](Config& c) { c.norm_place = nn::NormPlace::after; }));
    CHECK(differs([](Config& c) { c.norm_place = nn::NormPlace::both; }));
    CHECK(differs([](Config& c) { c.embedding_scale = 2; }));
    CHECK(differs([](Config& c) { c.qk_norm = true; }));
    CHECK(differs([](Config& c) { c.separate_qkv = c.attn_gate = true; }));
    CHECK(differs([](Config& c) { c.norm = nn::NormKind::rms_plus; }));
    CHECK(differs([](Config& c) { c.window = 5; }));
    CHECK(differs([](Config& c) { c.attention_softcap = 2; }));
    CHECK(differs([](Config& c) { c.attention_sinks = true; }));
    CHECK(differs([](Config& c) { c.logit_softcap = 2; }));
    CHECK(differs([](Config& c) { c.attention_scale = 1; }));
    CHECK(differs([](Config& c) { c.logit_scale = 2; }));
    CHECK(differs([](Config& c) { c.residual_scale = 2; }));
    CHECK(differs([](Config& c) { c.residual_scalars = true; }));
    CHECK(differs([](Config& c) { c.ngrams = 2; }));
    const Tiny own(plain);
    CHECK(own.params.parameters().size() == (arch == nn::Architecture::gpt2 ? 28U : 20U));
  }
}

TEST_CASE("a window ends where block_size does, and a pattern chooses its blocks", "[decoder]") {
  const auto loss = [](std::int64_t window, const std::string& pattern = "") {
    Config config = tiny_config();
    config.window = window, config.window_pattern = pattern;
    return Tiny(config).loss();
  };
  CHECK(loss(6) == loss(0));
  CHECK(loss(2, "LL") == loss(0));
  CHECK(loss(2, "S") == loss(2));
  CHECK(loss(2, "SL") != loss(2, "LS"));
  CHECK(loss(2, "SL") != loss(2));
  Config config = tiny_config();
  config.n_layer = 5, config.window = 2, config.window_pattern = "SSL";
  const std::vector<std::int64_t> windows = {2, 2, 0, 2, 2};
  for (int i = 0; i < 5; ++i) {
    CHECK(config.scores_of(i).window == windows[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("blocks choose the base of rotary positions, and whether they have any", "[decoder]") {
  Config plain = tiny_config();
  plain.positions = nn::Positions::rotary;
  const auto loss = [&](const Change& change) {
    Config config = plain;
    change(config);
    return Tiny(config).loss();
  };
  const double usual = loss([](Config&) {});
  CHECK(loss([](Config& c) { c.rope_pattern = "RR"; }) == usual);
  CHECK(loss([](Config& c) { c.rope_pattern = "NR"; }) != usual);
  CHECK(loss([](Config& c) { c.rope_pattern = "NR"; }) !=
        loss([](Config& c) { c.rope_pattern = "RN"; }));
  CHECK(loss([](Config& c) { c.rope_pattern = "N"; }) ==
        loss([](Config& c) { c.positions = nn::Positions::none; }));
  // A window that hides nothing, but chooses the base.
  const auto base = [&](const std::string& pattern, double window_base) {
    return loss([&](Config& c) {
      c.window = 100, c.window_pattern = pattern, c.rope_window_base = window_base;
    });
  };
  CHECK(base("SL", 0) == usual);
  CHECK(base("SL", 10000) == usual);
  CHECK(base("LL", 7) == usual);
  CHECK(base("S", 7) == loss([](Config& c) { c.rope_base = 7; }));
  CHECK(base("SL", 7) != base("LS", 7));
  // Blocks with a base of their own are not scaled.
  Config config = plain;
  config.window = 2, config.window_pattern = "SL", config.rope_window_base = 7;
  config.rope_scaling = nn::RopeScalingKind::linear, config.rope_factor = 2;
  CHECK_FALSE(config.scaling_of(0));
  CHECK(config.scaling_of(1));
  config.rope_window_base = 0;
  CHECK(config.scaling_of(0));
}

TEST_CASE("a summary counts the products of the keys that windows leave", "[decoder]") {
  Config config = tiny_config();  // 6 positions, 8 channels, 2 blocks
  const auto flops = [&] { return nn::summary(config).flops(); };
  const double all = flops();
  config.window = 2;  // sees 1, 2, 2, 2, 2, 2 keys in place of 1 to 6
  CHECK(all - flops() == Approx(2 * 4 * 8 * (21 - 11) / 6.0));
  config.window_pattern = "SL";
  CHECK(all - flops() == Approx(4 * 8 * (21 - 11) / 6.0));
  CHECK_THAT(nn::summary(config).str(), ContainsSubstring("window 2 of blocks SL"));
}

TEST_CASE("a block with norms on both sides computes what its formula says", "[decoder]") {
  Config config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.norm = nn::NormKind::rms_plus, config.norm_place = nn::NormPlace::both;
  config.activation = nn::Activation::gelu, config.embedding_scale = 3;
  const Tiny tiny(config);
  const std::map<std::string, Tensor> p(tiny.params.parameters().begin(),
                                        tiny.params.parameters().end());
  const auto norm = [&](const Tensor& x, const std::string& name) {
    const Tensor mean_square = mean(x * x, {-1}, true);
    return x / sqrt(mean_square + 1e-5) * (p.at(name + ".weight") + 1.0);
  };
  const auto times = [&](const Tensor& x, const std::string& name) {
    return linear(x, p.at(name + ".weight"));
  };
  Tensor x = embedding(p.at("embed_tokens.weight"), tiny.inputs) * 3.0;
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    const Tensor in = norm(x, layer + "input_layernorm");
    const auto turned = [&](const char* which) {
      return rope(times(in, layer + "self_attn." + which), 4);
    };
    const Tensor attended = attention_reference(turned("q_proj"), turned("k_proj"),
                                                times(in, layer + "self_attn.v_proj"), 2, true);
    x = x + norm(times(attended, layer + "self_attn.o_proj"), layer + "post_attention_layernorm");
    const Tensor y = norm(x, layer + "pre_feedforward_layernorm");
    const Tensor inner = gelu(times(y, layer + "mlp.gate_proj")) * times(y, layer + "mlp.up_proj");
    x = x + norm(times(inner, layer + "mlp.down_proj"), layer + "post_feedforward_layernorm");
  }
  CHECK(difference(tiny.model.hidden(tiny.inputs), norm(x, "norm"), 1e-11, 1e-12) == "");
}

TEST_CASE("residual scalars mix a block's input with the normed embedding, and begin as no mixture",
          "[decoder]") {
  Config config = tiny_config();
  const auto first_logits = [&](bool scalars) {
    config.residual_scalars = scalars;
    Rng rng(3);
    const nn::Params params(rng);
    return nn::Decoder(params, config)(ids({1, 4, 0, 7}).view({1, 4}));
  };
  CHECK(same_bits(first_logits(true), first_logits(false)));

  config.residual_scalars = true, config.norm_eps = 0.1;
  const Tiny tiny(config);
  const auto number = [&](const std::string& name) {
    for (const auto& [other, t] : tiny.params.parameters()) {
      if (other == name) return t;
    }
    throw std::runtime_error(name);
  };
  const Tensor e = tiny.model.embed(tiny.inputs);
  const Tensor x0 = e / sqrt(mean(e * e, {2}, true) + 0.1);
  const auto mixed = [&](const Tensor& x, const std::string& block) {
    return x * number(block + ".residual_scalars.state") +
           x0 * number(block + ".residual_scalars.embedding");
  };
  const std::vector<Tensor> states = tiny.model.residual_stream(e);
  CHECK(difference(states[0], mixed(e, "h.0"), 1e-12, 1e-12) == "");
  CHECK(difference(states[1], mixed(tiny.model.h[0](states[0]), "h.1"), 1e-12, 1e-12) == "");
  CHECK(difference(states[2], tiny.model.h[1](states[1]), 1e-12, 1e-12) == "");
}

TEST_CASE("a summary counts all parts, and a config with its defaults is the same model",
          "[decoder]") {
  for_each_part([](const Config& config) {
    const Tiny tiny(config);
    CHECK(nn::summary(config).parameters() == tiny.params.count());
    const Tiny settled(config.with_defaults());
    CHECK(settled.loss() == tiny.loss());
    const Config& c = tiny.model.config;
    CHECK((c.bias && c.qkv_bias && c.activation && c.gated && c.separate_qkv && c.positions &&
           c.norm && c.n_inner && c.n_kv_head && c.head_size));
  });
}
