// The parts of a Decoder, one by one and together, in f64.

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/nn/measure.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/decoder/tiny_decoder.h"

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
      {"attention and a Mamba-2 in parallel, with scales",
       [](Config& c) {
         c.mixer_pattern = "PMA", c.n_layer = 3, c.conv_kernel = 4, c.gated = true;
         c.mamba = {.heads = 4, .head_size = 3, .state_size = 5, .groups = 2, .norm_groups = 0};
         c.scales = {.attention_in = 0.7,
                     .key = 1.6,
                     .attention_out = 0.8,
                     .mamba_in = 1.3,
                     .mamba_out = 0.6,
                     .mamba_parts = "0.5,1.5,0.75,2,1.25",
                     .gate = 1.4,
                     .mlp = 0.9};
         c.positions = nn::Positions::rotary;
       }},
      {"attention and a Mamba-2 of its usual sizes, norms after",
       [](Config& c) { c.mixer_pattern = "P", c.norm_place = nn::NormPlace::after; }},
      {"Mamba-2 with a norm of each part of its output",
       [](Config& c) {
         c.mixer_pattern = "M";
         c.mamba = {.heads = 4, .head_size = 3, .state_size = 5, .norm_groups = 3};
       }},
      {"blocks that are a mixer or a feed-forward alone",
       [](Config& c) {
         c.n_layer = 4, c.mixer_pattern = "NMNA", c.ff_pattern = "FN", c.conv_kernel = 4;
         c.mamba = {.heads = 4, .head_size = 3, .state_size = 5, .groups = 2, .norm_groups = 2};
       }},
      {"such blocks with norms on both sides",
       [](Config& c) {
         c.mixer_pattern = "AN", c.ff_pattern = "NF", c.norm_place = nn::NormPlace::both;
       }},
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
    TinyDecoder tiny(config);
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
    TinyDecoder tiny(config);
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
    TinyDecoder tiny(config);
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
  const TinyDecoder tiny(tiny_config());
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
      return TinyDecoder(config).loss() != TinyDecoder(plain).loss();
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
    CHECK(differs([](Config& c) { c.ff_pattern = "NF"; }));
    CHECK(differs([](Config& c) { c.mixer_pattern = "AN"; }));
    CHECK(differs([](Config& c) { c.residual_scalars = true; }));
    for (double nn::BlockScales::*scale :
         {&nn::BlockScales::attention_in, &nn::BlockScales::key, &nn::BlockScales::attention_out,
          &nn::BlockScales::mamba_in, &nn::BlockScales::mamba_out, &nn::BlockScales::gate,
          &nn::BlockScales::mlp}) {
      Config scaled = plain;
      scaled.mixer_pattern = "P", scaled.gated = true;
      const double before = TinyDecoder(scaled).loss();
      scaled.scales.*scale = 2;
      CHECK(TinyDecoder(scaled).loss() != before);
    }
    CHECK(differs([](Config& c) { c.ngrams = 2; }));
    const TinyDecoder own(plain);
    CHECK(own.params.parameters().size() == (arch == nn::Architecture::gpt2 ? 28U : 20U));
  }
}

TEST_CASE("a summary counts all parts, and a config with its defaults is the same model",
          "[decoder]") {
  for_each_part([](const Config& config) {
    const TinyDecoder tiny(config);
    CHECK(nn::summary(config).parameters() == tiny.params.count());
    const TinyDecoder settled(config.with_defaults());
    CHECK(settled.loss() == tiny.loss());
    const Config& c = tiny.model.config;
    CHECK((c.bias && c.qkv_bias && c.activation && c.gated && c.separate_qkv && c.positions &&
           c.norm && c.n_inner && c.n_kv_head && c.head_size));
  });
}
