// Families as rows of data: that the rows fit the config, and that they work both ways.

#include <cmath>
#include <map>
#include <set>

#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using run::Family;
using run::FamilyKey;
using run::Value;

namespace {

std::vector<const std::vector<FamilyKey>*> tables_of(const Family& family) {
  return {&family.hf.keys, &family.gguf.keys};
}

// A model of the family whose options are other than the usual ones.
nn::DecoderConfig unusual(const Family& family) {
  nn::DecoderConfig c = family.model;
  c.vocab_size = 300, c.block_size = 40, c.n_layer = 4, c.n_head = 4, c.n_embd = 24;
  c.n_inner = 50, c.norm_eps = 3e-6;
  if (c.arch == nn::Architecture::llama) {
    c.n_kv_head = 2, c.head_size = 8, c.rope_base = 12345;
    if (family.hf.turned_share) c.rope_channels = 4;
  }
  if (c.window != 0) c.window = 8;
  if (family.name == "minicpm") c.residual_scale = 0.5;
  if (family.name.starts_with("lfm2")) c.mixer_pattern = "CCA", c.conv_kernel = 4;
  if (family.mixer == 'D') {
    c.mixer_pattern = "DDA", c.delta_heads = 4, c.delta_key_heads = 2;
    c.delta_key_size = 6, c.delta_value_size = 10;
  }
  if (family.name == "nemotron_h") {
    c.mixer_pattern = "MNAN", c.ff_pattern = "NF", c.conv_kernel = 3;
    c.mamba = {.heads = 6, .head_size = 8, .state_size = 10, .groups = 2};
  } else if (family.mixer == 'M') {
    c.mixer_pattern = "MMA", c.conv_kernel = 3;
    c.mamba = {.heads = 6, .head_size = 8, .state_size = 10, .groups = 2};
    c.moe.inner = c.n_inner;
  }
  if (family.mixer == 'P') {
    c.conv_kernel = 3;
    c.mamba = {.heads = 6, .head_size = 8, .state_size = 10, .groups = 2, .norm_groups = 2};
    c.scales = {.attention_in = 0.5,
                .key = 0.25,
                .attention_out = 0.75,
                .mamba_in = 1.25,
                .mamba_out = 1.5,
                .mamba_parts = "0.5,1,2,3,4",
                .gate = 1.75,
                .mlp = 2};
  }
  if (family.name == "lfm2_moe") c.moe.pattern = "DEEE";
  if (family.hf.scales_queries) c.query_scale_beta = 0.25;
  if (family.follow != nullptr) family.follow(c);
  return c;
}

// The config that comes back when it is written by keys and read again, without options that have
// no key.
nn::DecoderConfig there_and_back(const Family& family, const std::vector<FamilyKey>& keys,
                                 const nn::DecoderConfig& config) {
  std::map<std::string_view, Value> file;
  for (const auto& [key, value] : run::values_of_keys(keys, config)) {
    if (!std::holds_alternative<std::monostate>(value)) file.emplace(key, value);
  }
  const auto find = [&](std::string_view key) -> std::optional<Value> {
    const auto found = file.find(key);
    return found == file.end() ? std::nullopt : std::optional(found->second);
  };
  nn::DecoderConfig back = run::config_of_keys(family, keys, "file", "", find);
  run::settle_config(family, "file", back);
  run::check_same_keys(keys, back, "file", "", find);
  return back;
}

}  // namespace

TEST_CASE("the keys and tensors of families name options of the config", "[families]") {
  const nn::DecoderConfig any;
  const run::Section options = run::section_of("model", any);
  std::set<std::string_view> names;
  std::set<std::pair<std::string_view, bool>> architectures;  // and if it is one with experts
  for (const Family& family : run::families()) {
    INFO(family.name);
    CHECK(names.insert(family.name).second);
    CHECK((family.gguf.architecture.empty() ||
           architectures.insert({family.gguf.architecture, family.gguf.has_experts}).second));
    for (const auto* keys : tables_of(family)) {
      for (const FamilyKey& key : *keys) {
        INFO(key.key);
        CHECK((key.option.empty() || run::is_own_form(key.option) || key.option == run::kLongRope ||
               options.find(key.option) != nullptr));
      }
    }
    for (const run::GgufTensorName& tensor : family.gguf.tensors) {
      CHECK((tensor.with.empty() || options.find(tensor.with) != nullptr));
    }
    for (const std::string_view option : family.same_tensors) {
      CHECK(options.find(option) != nullptr);
    }
  }
}

TEST_CASE("a config comes back by the keys of its family", "[families]") {
  for (const Family& family : run::families()) {
    for (const auto* keys : tables_of(family)) {
      if (keys->empty()) continue;
      INFO(family.name << ", " << (keys == &family.hf.keys ? "config.json" : "GGUF"));
      const nn::DecoderConfig config = unusual(family);
      const nn::DecoderConfig back = there_and_back(family, *keys, config);
      // These are read from the embedding, and in place of kRotation and its like.
      std::set<std::string_view> read_otherwise = {"vocab_size", "tied"};
      if (keys == &family.hf.keys) {
        read_otherwise.insert({"rope_base", "window", "window_pattern", "rope_pattern",
                               "rope_channels", "query_scale_beta"});
      }
      if (run::options_of(family, *keys, config).count("head_size") == 0) {
        read_otherwise.insert({"head_size", "attention_scale"});
        if (!family.hf.turned_share) read_otherwise.insert("rope_channels");
      }
      if (run::options_of(family, *keys, config).count("n_kv_head") == 0) {
        read_otherwise.insert("n_kv_head");
      }
      if (family.name.starts_with("lfm2")) {
        read_otherwise.insert({"mixer_pattern", "conv_kernel", "moe_pattern"});
      }
      if (family.mixer == 'D') {
        read_otherwise.insert({"mixer_pattern", "moe_pattern"});
        // The width of all heads of values is read when their number is known.
        if (keys == &family.gguf.keys) read_otherwise.insert("delta_value_size");
      }
      if (family.name == "nemotron_h") {
        read_otherwise.insert({"mixer_pattern", "ff_pattern"});
        if (keys == &family.gguf.keys) read_otherwise.insert("mamba_head_size");
      } else if (family.mixer == 'M') {
        read_otherwise.insert(
            {"mixer_pattern", "mamba_head_size", "n_inner", "moe_inner", "moe_shared_inner"});
        // A number of heads for all blocks leaves none to Mamba-2.
        if (keys == &family.gguf.keys) {
          read_otherwise.insert(
              {"mamba_heads", "mamba_state_size", "mamba_groups", "conv_kernel", "conv_bias"});
        }
      }
      if (family.mixer == 'P') {
        read_otherwise.insert({"mamba_head_size", "mamba_norm_groups", "mamba_part_scales",
                               "gate_scale", "mlp_scale"});
        // These are in the weights.
        if (keys == &family.gguf.keys) {
          read_otherwise.insert({"attention_in_scale", "key_scale", "attention_out_scale",
                                 "mamba_in_scale", "mamba_out_scale"});
        }
      }
      for (const auto& difference : run::differences_of(back, config, read_otherwise)) {
        FAIL_CHECK(difference.option << " " << difference.value << " was " << difference.only);
      }
      nn::DecoderConfig usual = config;
      usual.n_kv_head.reset(), usual.head_size.reset(), usual.n_inner.reset();
      const nn::DecoderConfig settled = there_and_back(family, *keys, usual);
      CHECK(!settled.n_kv_head);
      CHECK(!settled.head_size);
      if (run::key_of(*keys, run::kSharedInner) != nullptr) continue;
      CHECK(settled.n_inner.has_value() != family.inner_by_default);
    }
  }
}

TEST_CASE("a model goes out as the family that computes it, or comes nearest", "[families]") {
  for (const Family& family : run::families()) {
    nn::DecoderConfig config = unusual(family);
    INFO(family.name);
    const auto written = family.name == "mistral"   ? "llama"
                         : family.name == "minicpm" ? "granite"
                                                    : family.name;
    CHECK(run::family_of(config).name == written);
    // llama.cpp wants the heads of some families as they usually are.
    if (family.name == "olmoe") config.n_kv_head.reset();
    static const std::set<std::string_view> usual_heads = {"olmoe", "olmo2", "lfm2", "lfm2_moe"};
    if (usual_heads.count(family.name) != 0) config.head_size.reset();
    if (!family.gguf.keys.empty()) CHECK(run::gguf_family_of(config).name == family.name);
    static const std::set<std::string_view> may_slide = {"gpt2", "llama", "mistral", "qwen2",
                                                         "qwen3"};
    if (may_slide.count(family.name) == 0) continue;
    config.window = 8;
    CHECK(run::family_of(config).name == (family.name == "llama" ? "mistral" : family.name));
    CHECK(run::gguf_family_of(config).name == (family.name == "mistral" ? "llama" : family.name));
    // A window that hides nothing is none.
    const auto plain = family.name == "mistral" ? "llama" : family.name;
    config.window = config.block_size;
    CHECK(run::family_of(config).name == plain);
    config.window = 8, config.window_pattern = "L";
    CHECK(run::family_of(config).name == plain);
  }
  nn::DecoderConfig c;
  c.positions = nn::Positions::rotary;
  CHECK(run::family_of(c).name == "gpt2");
  // Where llama does, no family with more options is taken.
  c = {.arch = nn::Architecture::llama};
  CHECK(run::family_of(c).name == "llama");
  // So few blocks would all turn in a SmolLM3, too.
  for (const bool tied : {true, false}) {
    c.n_layer = 2, c.tied = tied;
    CHECK(run::gguf_family_of(c).name == "llama");
  }
  c.residual_scale = 0.5;
  CHECK(run::family_of(c).name == "granite");
  // A Granite without experts whose gate is joined is no Granite-MoE.
  c.joined_gate = true;
  CHECK(run::family_of(c).name == "granitemoehybrid");
  CHECK(run::gguf_family_of(c).name == "granite");
  CHECK(run::export_obstacle(c).empty());
  c.mlp_bias = true;
  CHECK_THAT(run::export_obstacle(c),
             ContainsSubstring("granite cannot express a model with mlp_bias beside joined_gate"));
  c.mlp_bias = false;
  c = {.arch = nn::Architecture::llama, .rope_pattern = "NR"};
  CHECK(run::family_of(c).name == "smollm3");
  c = {.arch = nn::Architecture::llama, .qkv_bias = true, .qk_norm = true};
  CHECK(run::family_of(c).name == "qwen3");
  // An LFM2 without convolutions is one.
  c = {.arch = nn::Architecture::llama, .qk_norm = true, .mixer_pattern = "A"};
  CHECK(run::family_of(c).name == "qwen3");
  CHECK(run::gguf_family_of(c).name == "qwen3");
  c.mixer_pattern = "AC";
  CHECK(run::family_of(c).name == "lfm2");
  c.qk_norm = false;
  CHECK_THAT(run::export_obstacle(c),
             ContainsSubstring("Lfm2ForCausalLM cannot express a model with qk_norm false"));
  c.qk_norm = true;
  CHECK(run::gguf_family_of(c).name == "lfm2");
  // Blocks of other kinds are of other families.
  c.mixer_pattern = "AD";
  CHECK(run::family_of(c).name == "qwen3_5_text");
  CHECK_THAT(run::export_obstacle(c),
             ContainsSubstring("Qwen3_5ForCausalLM cannot express a model with attn_gate false") ||
                 ContainsSubstring("Qwen3_5ForCausalLM cannot express a model with norm rms"));
  c.mixer_pattern = "AM";
  CHECK(run::family_of(c).name == "granitemoehybrid");
  CHECK_THAT(run::export_obstacle(c),
             ContainsSubstring("GraniteMoeHybridForCausalLM cannot express a model with"));
  c.mixer_pattern = "P";
  CHECK(run::family_of(c).name == "falcon_h1");
  c.mixer_pattern = "PA";
  CHECK_THAT(run::export_obstacle(c), ContainsSubstring("cannot express a model with"));
  // Blocks of one part, whatever they are.
  const nn::DecoderConfig single{
      .arch = nn::Architecture::llama, .mixer_pattern = "AN", .ff_pattern = "NF"};
  CHECK(run::family_of(single).name == "nemotron_h");
  CHECK(run::gguf_family_of(single).name == "nemotron_h");
  nn::DecoderConfig qwen = std::ranges::find(run::families(), "qwen3_5_text", &Family::name)->model;
  qwen.mixer_pattern = "CD";
  CHECK_THAT(run::export_obstacle(qwen), ContainsSubstring("mixer_pattern CD, only with"));
  c.mixer_pattern = "AC";
  c.moe = {.experts = 4, .inner = 8, .scores = nn::RouterScores::sigmoid, .selection_bias = true};
  CHECK(run::family_of(c).name == "lfm2_moe");
  CHECK(run::export_obstacle(c).empty());
  c.moe.pattern = "ED";
  CHECK_THAT(
      run::export_obstacle(c),
      ContainsSubstring("Lfm2MoeForCausalLM cannot express a model with moe_pattern ED") &&
          ContainsSubstring("lfm2moe cannot express a model with moe_pattern ED, only with"));
  c.moe.pattern.clear(), c.moe.scores = nn::RouterScores::softmax;
  CHECK_THAT(run::export_obstacle(c), ContainsSubstring("moe_scores softmax, only with sigmoid"));
}

TEST_CASE("tensors of blocks are of the parts that they have", "[families]") {
  nn::DecoderConfig c = {.arch = nn::Architecture::llama, .n_layer = 3};
  c.mixer_pattern = "AN", c.ff_pattern = "NF";
  const auto has = [&](int block, const std::string& tensor) {
    return run::has_tensor(c, block, "layers.#." + tensor + ".weight");
  };
  for (const int block : {0, 1}) {
    const bool feeds = block == 1;
    CHECK(has(block, "input_layernorm") != feeds);
    CHECK(has(block, "self_attn.q_proj") != feeds);
    CHECK(has(block, "post_attention_layernorm") == feeds);
    CHECK(has(block, "mlp.up_proj") == feeds);
    CHECK_FALSE(has(block, "mamba.in_proj"));
  }
  c.norm_place = nn::NormPlace::both;  // where a name is that of another norm
  CHECK((has(0, "post_attention_layernorm") && !has(1, "post_attention_layernorm")));
  CHECK((!has(0, "pre_feedforward_layernorm") && has(1, "pre_feedforward_layernorm")));
  CHECK((!has(0, "post_feedforward_layernorm") && has(1, "post_feedforward_layernorm")));
  CHECK(run::has_single_parts(c));
  c.ff_pattern = "FF";
  CHECK_FALSE(run::has_single_parts(c));
  c.ff_pattern = "NF", c.mixer_pattern = "CN";
  CHECK_FALSE(run::has_single_parts(c));
}

TEST_CASE("tensors of a feed-forward are of experts, of the one beside them, or of a dense block",
          "[families]") {
  nn::DecoderConfig c = {.arch = nn::Architecture::llama, .n_layer = 2};
  c.moe = {.experts = 4, .pattern = "DE", .shared_inner = 8};
  const auto has = [&](int block, const std::string& tensor) {
    return run::has_tensor(c, block, "layers.#.mlp." + tensor + ".weight");
  };
  for (const bool shared_gate : {false, true}) {
    c.moe.shared_gate = shared_gate;
    CHECK((has(0, "down_proj") && !has(1, "down_proj")));
    CHECK((!has(0, "gate") && has(1, "gate")));
    CHECK((!has(0, "experts.down_proj") && has(1, "experts.down_proj")));
    CHECK((!has(0, "shared_expert.down_proj") && has(1, "shared_expert.down_proj")));
    CHECK(!has(0, "shared_expert_gate"));
    CHECK(has(1, "shared_expert_gate") == shared_gate);
  }
  c.moe.shared_inner = 0, c.moe.shared_gate = false;
  CHECK((!has(0, "shared_expert.down_proj") && !has(1, "shared_expert.down_proj")));
}

TEST_CASE("an option without an effect, or with its default spelled out, is no difference",
          "[families]") {
  nn::DecoderConfig plain = {.n_head = 4, .n_embd = 24}, spelled = plain;
  spelled.bias = spelled.qkv_bias = true;
  spelled.n_inner = 96;
  spelled.rope_base = 500;
  CHECK(run::differences_of(spelled, plain, {}).empty());
  spelled.positions = nn::Positions::rotary;
  const auto differences = run::differences_of(spelled, plain, {});
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].option == "positions");
  CHECK(differences[1].option == "rope_base");
  CHECK(differences[1].value == "500");
}

TEST_CASE("scores of Gemma's largest models are scaled by the width that llama.cpp takes",
          "[families]") {
  for (const auto& [name, blocks] : {std::pair("gemma2", 46), std::pair("gemma3", 62)}) {
    for (const Family& family : run::families()) {
      if (family.name != name) continue;
      nn::DecoderConfig c = unusual(family);
      family.gguf.follow(c);
      CHECK(c.attention_scale == 0);
      c.n_layer = blocks;
      family.gguf.follow(c);
      CHECK(c.attention_scale == 1 / std::sqrt(6.0));
    }
  }
}

TEST_CASE("scaled positions of blocks with a window need a base of their own in some files",
          "[families]") {
  for (const Family& family : run::families()) {
    nn::DecoderConfig c = unusual(family);
    if (c.rope_window_base == 0) continue;
    c.rope_window_base = 0;
    CHECK(run::with_window_base("GGUF", family, c).rope_window_base == 12345);
    c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 2;
    CHECK_THROWS_WITH(run::with_window_base("GGUF", family, c),
                      ContainsSubstring("it needs rope_window_base"));
    nn::DecoderConfig exported = c;
    if (family.gguf.follow != nullptr) family.gguf.follow(exported);
    CHECK_THAT(run::export_obstacle(exported),
               ContainsSubstring("as hf: Gemma3ForCausalLM cannot express a model whose blocks") &&
                   ContainsSubstring("; as gguf: GGUF's gemma3 cannot express"));
    c.rope_window_base = 100;
    CHECK(run::with_window_base("GGUF", family, c).rope_window_base == 100);
  }
}

TEST_CASE("pre-tokenizers under other names do what their namesakes do", "[families]") {
  for (const auto& [name, same] : {std::pair("refact", "smollm"), std::pair("dbrx", "llama-bpe"),
                                   std::pair("smaug-bpe", "llama-bpe")}) {
    CHECK(run::pre_tokenizer(name).steps == run::pre_tokenizer(same).steps);
    CHECK_FALSE(run::pre_tokenizer(name).ignores_merges);
    CHECK_FALSE(run::pre_tokenizer(name).begins);
  }
  CHECK(run::pre_tokenizer("lfm2").steps == run::pre_tokenizer("llama-bpe").steps);
  CHECK_FALSE(run::pre_tokenizer("gpt-4o").begins);
  CHECK((run::pre_tokenizer("lfm2").ignores_merges && run::pre_tokenizer("lfm2").begins));
  CHECK(run::pre_tokenizer("falcon-h1").steps == run::pre_tokenizer("lfm2").steps);
}
