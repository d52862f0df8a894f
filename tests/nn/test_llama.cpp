#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/measure.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig llama_config() {
  nn::DecoderConfig c = tiny_config();
  c.arch = nn::Architecture::llama;
  c.n_embd = 12, c.n_head = 6, c.n_kv_head = 2, c.head_size = 4, c.n_inner = 20;
  c.block_size = 7;
  return c;
}

// Groups, and each of the options beside them.
std::vector<nn::DecoderConfig> llama_configs() {
  std::vector<nn::DecoderConfig> list(4, llama_config());
  list[1].tied = false, list[1].qkv_bias = true, list[1].n_kv_head = std::nullopt;
  list[2].qk_norm = true, list[2].head_size = 6, list[2].n_kv_head = 1;
  list[3].rope_scaling = nn::RopeScalingKind::llama3, list[3].rope_factor = 4;
  list[3].rope_original_positions = 16, list[3].rope_base = 100;
  list[3].head_size = std::nullopt, list[3].norm_eps = 1e-3;
  return list;
}

struct TinyLlama {
  explicit TinyLlama(const nn::DecoderConfig& config, DType dtype = DType::f64)
      : params(rng, dtype), model(params, config) {
    randomize(params.parameters(), rng);
    inputs = random_ids(rng, {2, config.block_size}, config.vocab_size);
    targets = random_ids(rng, {2, config.block_size}, config.vocab_size);
  }
  Rng rng{5};
  nn::Params params;
  nn::Decoder model;
  Tensor inputs, targets;
};

}  // namespace

TEST_CASE("every recorded step of a Llama passes the gradient check", "[llama]") {
  for (const nn::DecoderConfig& config : llama_configs()) {
    const TinyLlama tiny(config);
    Tape tape({.checkable = true});
    cross_entropy(tiny.model(tiny.inputs), tiny.targets);
    const std::vector<GradientCheck> checks = check_gradients(tape);
    CHECK(checks.size() > 30);
    for (const GradientCheck& check : checks) {
      INFO(check.str());
      CHECK(check.passed);
    }
  }
}

TEST_CASE("a Llama's loss and gradients are those of its logits, recomputed or not", "[llama]") {
  for (const nn::DecoderConfig& config : llama_configs()) {
    TinyLlama tiny(config);
    const auto gradients_of = [&](const std::function<Tensor()>& loss) {
      Tape tape;
      const Tensor made = loss();
      tape.backward(made);
      std::vector<Tensor> grads = gradients(tiny.params.parameters());
      grads.push_back(made);
      clear_gradients(tiny.params.parameters());
      return grads;
    };
    const auto stored = gradients_of([&] { return tiny.model.loss(tiny.inputs, tiny.targets); });
    const auto plain =
        gradients_of([&] { return cross_entropy(tiny.model(tiny.inputs), tiny.targets); });
    tiny.model.recompute = true;
    const auto again = gradients_of([&] { return tiny.model.loss(tiny.inputs, tiny.targets); });
    for (std::size_t i = 0; i < stored.size(); ++i) {
      INFO(i);
      CHECK(difference(plain[i], stored[i], 1e-12, 1e-13) == "");
      CHECK(list(again[i]) == list(stored[i]));
    }
  }
}

TEST_CASE("a Llama's logits with a KV cache are those without one", "[llama]") {
  for (nn::DecoderConfig config : llama_configs()) {
    config.block_size = 70;  // more than one tile of the attention kernel
    const TinyLlama tiny(config);
    for (const std::int64_t prompt : {1, 5, 69}) {
      std::vector<nn::KVCache> sequences(static_cast<std::size_t>(tiny.inputs.dim(0)));
      const auto caches = nn::pointers_to(sequences);
      Tensor logits = tiny.model.last_logits(columns(tiny.inputs, 0, prompt), caches);
      for (std::int64_t n = prompt; n <= 70; ++n) {
        if (n > prompt) logits = tiny.model.last_logits(columns(tiny.inputs, n - 1, n), caches);
        INFO(prompt << " " << n);
        CHECK(difference(logits, tiny.model.last_logits(columns(tiny.inputs, 0, n)), 1e-12,
                         1e-12) == "");
      }
      const auto cached = nn::CachedLayer(caches, 0).cached();
      CHECK(cached[0].pages[0]->channels() == config.kv_heads() * config.channels_per_head());
    }
  }
}

TEST_CASE("positions count by their distance: a Llama's text goes on beyond what it was given",
          "[llama]") {
  TinyLlama tiny(llama_config());
  CHECK(nn::stream(tiny.model, {1, 2}, {.max_new_tokens = 30}, 3).tokens().size() == 30);
}

TEST_CASE("a Llama has the parameters of SmolLM2-135M, by Hugging Face's names", "[llama]") {
  nn::DecoderConfig c{.arch = nn::Architecture::llama, .vocab_size = 49152, .block_size = 8192};
  c.n_layer = 30, c.n_head = 9, c.n_kv_head = 3, c.n_embd = 576, c.n_inner = 1536;
  const nn::Params shapes = nn::shapes_of<nn::Decoder>(c);
  CHECK(shapes.count() == 134'515'008);
  std::vector<std::string> names;
  for (const auto& [name, t] : shapes.parameters()) names.push_back(name);
  names.resize(10);
  CHECK(names == std::vector<std::string>{
                     "embed_tokens.weight", "layers.0.input_layernorm.weight",
                     "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight",
                     "layers.0.self_attn.v_proj.weight", "layers.0.self_attn.o_proj.weight",
                     "layers.0.post_attention_layernorm.weight", "layers.0.mlp.gate_proj.weight",
                     "layers.0.mlp.up_proj.weight", "layers.0.mlp.down_proj.weight"});
  const nn::Summary summary = nn::summary(c);
  CHECK(summary.parameters() == 134'515'008);
  CHECK(summary.mixer_parameters() == 884'736);
  CHECK(summary.feed_forward_parameters() == 2'654'208);
  CHECK_THAT(summary.str(), ContainsSubstring("9 heads of 64, 3 of keys and values, rope") &&
                                ContainsSubstring("layers.1 to layers.29"));
}

TEST_CASE("the feed-forward of a Llama has as many weights as GPT-2's, unless it is told",
          "[llama]") {
  const auto inner_of = [](std::int64_t n_embd) {
    return nn::DecoderConfig{.arch = nn::Architecture::llama, .n_embd = n_embd}.inner();
  };
  CHECK(inner_of(768) == 2048);
  CHECK(inner_of(128) == 352);
}

TEST_CASE("init_gpt2 scales what a Llama adds to its residual stream", "[llama]") {
  nn::DecoderConfig c = llama_config();
  c.n_embd = 96, c.head_size = 16, c.n_inner = 256;
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, c);
  nn::init_gpt2(model, params, rng);
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    if (t.rank() != 2) continue;
    const bool residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    const double spread = std::sqrt(mean(t * t, {0, 1}).item());
    CHECK(spread == Approx(residual ? 0.01 : 0.02).epsilon(0.05));
  }
}

TEST_CASE("options that need another part are refused without it, by name", "[llama]") {
  const auto refused = [](nn::DecoderConfig c, const auto& change, const std::string& message) {
    change(c);
    INFO(message);
    CHECK_THROWS_WITH(c.validate(), ContainsSubstring(message));
  };
  using C = nn::DecoderConfig;
  const C llama = llama_config(), gpt2 = tiny_config();
  refused(
      llama, [](C& c) { c.n_kv_head = 4; }, "n_head 6 is not divisible by n_kv_head 4");
  refused(
      llama, [](C& c) { c.head_size = 3; }, "even number of channels per head, not 3");
  refused(
      llama, [](C& c) { c.rope_factor = 2; }, "rope_factor needs rope_scaling");
  refused(
      gpt2, [](C& c) { c.rope_base = 500; }, "rope_base needs positions rotary");
  refused(
      gpt2, [](C& c) { c.rope_scaling = nn::RopeScalingKind::llama3; },
      "rope_scaling needs positions rotary");
  refused(
      llama,
      [](C& c) {
        c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 2, c.rope_low_freq_factor = 2;
      },
      "rope_low_freq_factor needs rope_scaling llama3");
  const auto yarn = [](C& c) { c.rope_scaling = nn::RopeScalingKind::yarn, c.rope_factor = 2; };
  const auto refused_of_yarn = [&](const auto& change, const std::string& message) {
    refused(
        llama,
        [&](C& c) {
          yarn(c);
          c.validate();
          change(c);
        },
        message);
  };
  refused(
      llama, [](C& c) { c.rope_beta_fast = 2; }, "rope_beta_fast needs rope_scaling yarn");
  refused(
      llama, [](C& c) { c.rope_truncate = false; }, "rope_truncate needs rope_scaling yarn");
  refused(
      llama, [](C& c) { c.rope_original_positions = 2; },
      "rope_original_positions needs rope_scaling llama3, yarn or longrope");
  refused_of_yarn([](C& c) { c.rope_beta_slow = 33; },
                  "rope_beta_slow 33 must not be above rope_beta_fast 32");
  refused_of_yarn([](C& c) { c.rope_original_positions = 6; },
                  "rope_original_positions 6 of rope_scaling yarn must be above 6.28319");
  refused_of_yarn([](C& c) { c.rope_base = 2; }, "and below 402.124");
  refused_of_yarn([](C& c) { c.rope_base = 1; }, "yarn needs rope_base above 1, not 1");
  refused_of_yarn([](C& c) { c.rope_attention_factor = 1e-9; }, "or at least 1e-6, not 1e-09");
  refused(
      llama, [](C& c) { c.window_pattern = "SL"; }, "window_pattern needs window");
  refused(
      llama, [](C& c) { c.window = 3, c.window_pattern = "Sl"; },
      "window_pattern 'Sl' must be a row of S");
  refused(
      llama, [](C& c) { c.window = -1; }, "window");
  refused(
      llama, [](C& c) { c.rope_window_base = 7; }, "rope_window_base needs window");
  refused(
      llama, [](C& c) { c.window = 3, c.rope_window_base = 0.5; }, "or at least 1, not 0.5");
  refused(
      llama, [](C& c) { c.rope_pattern = "RL"; }, "rope_pattern 'RL' must be a row of R");
  refused(
      gpt2, [](C& c) { c.rope_pattern = "RN"; }, "rope_pattern needs positions rotary");
  refused(
      llama, [](C& c) { c.mixer_pattern = "CL"; }, "mixer_pattern 'CL' must be a row of C");
  refused(
      llama, [](C& c) { c.ff_pattern = "FD"; }, "ff_pattern 'FD' must be a row of F");
  refused(
      llama, [](C& c) { c.mixer_pattern = "AN", c.ff_pattern = "FN"; },
      "mixer_pattern AN and ff_pattern FN leave block 1 without a part");
  refused(
      llama, [](C& c) { c.mixer_pattern = "N"; },
      "mixer_pattern N leaves no block that mixes positions");
  refused(
      llama, [](C& c) { c.mixer_pattern = "CA", c.n_embd = 9, c.n_head = 1, c.n_kv_head = 1; },
      "mixer_pattern with convolutions needs an even n_embd, not 9");
  refused(
      llama, [](C& c) { c.mixer_pattern = "DA", c.delta_heads = 4, c.delta_key_heads = 3; },
      "delta_heads 4 are not divisible by delta_key_heads 3");
  refused(
      llama, [](C& c) { c.mixer_pattern = "CA", c.delta_key_size = 4; },
      "delta_key_size needs mixer_pattern with a D");
  refused(
      llama, [](C& c) { c.mixer_pattern = "DA", c.conv_bias = true; },
      "conv_bias needs mixer_pattern with a C, an M or a P");
  refused(
      llama, [](C& c) { c.mixer_pattern = "MA", c.mamba.heads = 4, c.mamba.groups = 3; },
      "mamba_heads 4 are not divisible by mamba_groups 3");
  refused(
      llama, [](C& c) { c.mixer_pattern = "DA", c.mamba.state_size = 4; },
      "mamba_state_size needs mixer_pattern with an M or a P");
  refused(
      llama, [](C& c) { c.mixer_pattern = "MA", c.mamba.head_size = 0; }, "mamba_head_size");
  refused(
      llama, [](C& c) { c.mixer_pattern = "DA", c.mamba.norm_groups = 0; },
      "mamba_norm_groups needs mixer_pattern with an M or a P");
  refused(
      llama, [](C& c) { c.mixer_pattern = "MA", c.mamba.norm_groups = 3; },
      "mamba_norm_groups 3 do not divide 64 channels");
  refused(
      llama, [](C& c) { c.mixer_pattern = "MA", c.scales.mamba_out = 2; },
      "mamba_out_scale needs mixer_pattern with a P");
  refused(
      llama, [](C& c) { c.mixer_pattern = "PA", c.scales.key = 0; }, "key_scale");
  refused(
      llama, [](C& c) { c.mixer_pattern = "P", c.scales.mamba_parts = "1,1,1,1"; },
      "mamba_part_scales must be 5 numbers, not 4");
  refused(
      llama, [](C& c) { c.mixer_pattern = "P", c.scales.mamba_parts = "1,0,1,1,1"; },
      "mamba_part_scales are from 1e-6 to 1e6, not 0");
  refused(
      llama, [](C& c) { c.mixer_pattern = "P", c.gated = false, c.scales.gate = 2; },
      "gate_scale needs gated");
  refused(
      llama, [](C& c) { c.conv_kernel = 4; }, "conv_kernel needs mixer_pattern");
  refused(
      llama, [](C& c) { c.conv_bias = true; }, "conv_bias needs mixer_pattern");
  refused(
      llama, [](C& c) { c.mixer_pattern = "C", c.conv_kernel = 0; }, "conv_kernel");
  refused(
      llama, [](C& c) { c.qk_norm_whole = true; }, "qk_norm_whole needs qk_norm");
  refused(
      gpt2, [](C& c) { c.attn_gate = true; }, "attn_gate needs separate_qkv");
  refused(
      llama, [](C& c) { c.attention_softcap = -1; }, "attention_softcap");
}
