// Nemotron-H in Hugging Face's layout and in GGUF: blocks that are a Mamba-2, attention or a
// feed-forward alone.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/tests/run/models/families/recurrent_models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using ConfigChange = std::function<void(nn::DecoderConfig&)>;

// A small model that has all that the family may have, "M-MM*-".
run::TextModel nemotron(const ConfigChange& change = {}) {
  return with_config("granitemoehybrid_dense", [&](nn::DecoderConfig& c) {
    const std::int64_t vocab_size = c.vocab_size;
    c = std::ranges::find(run::families(), "nemotron_h", &run::Family::name)->model;
    c.vocab_size = vocab_size, c.block_size = 24, c.n_layer = 6, c.n_embd = 16, c.n_inner = 24;
    c.n_head = 4, c.n_kv_head = 2, c.head_size = 6;
    c.mixer_pattern = "MNMMAN", c.ff_pattern = "NFNNNF";
    c.mamba = {.heads = 4, .head_size = 6, .state_size = 5, .groups = 2, .norm_groups = 2};
    if (change) change(c);
  });
}

void without_mamba(nn::DecoderConfig& c) { c.mamba = {}, c.conv_kernel = 3, c.conv_bias = false; }

json config_in_folder(const fs::path& folder) {
  return json::parse(TempFolder::get(folder / "config.json"));
}

nn::DecoderConfig config_of_json(const json& config) {
  const TempFolder folder;
  folder.put("config.json", config.dump());
  return run::read_hf_config(folder.path()).config;
}

// What a config.json with these keys in place of others is.
nn::DecoderConfig nemotron_config(const json& changes) {
  json config = {{"model_type", "nemotron_h"},
                 {"architectures", {"NemotronHForCausalLM"}},
                 {"hidden_size", 4480},
                 {"intermediate_size", 15680},
                 {"num_hidden_layers", 56},
                 {"hybrid_override_pattern", "M-MM*-M-"},
                 {"num_attention_heads", 40},
                 {"num_key_value_heads", 8},
                 {"head_dim", 128},
                 {"mamba_num_heads", 128},
                 {"mamba_head_dim", 80},
                 {"ssm_state_size", 128},
                 {"n_groups", 8},
                 {"expand", 2},
                 {"use_bias", false},
                 {"use_conv_bias", true},
                 {"sliding_window", nullptr},
                 {"residual_in_fp32", false},
                 {"tie_word_embeddings", false}};
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return config_of_json(config);
}

}  // namespace

TEST_CASE("a Nemotron-H goes to Hugging Face's layout and back with its logits", "[families]") {
  for (const auto& change : std::vector<ConfigChange>{
           {},
           [](nn::DecoderConfig& c) { c.mixer_pattern = "NNMA", c.ff_pattern = "FFNN"; },
           [](nn::DecoderConfig& c) { c.mlp_bias = true, c.conv_bias = false, c.conv_kernel = 3; },
           [](nn::DecoderConfig& c) { c.n_layer = 1, c.mixer_pattern = "M", c.ff_pattern = "N"; },
           [](nn::DecoderConfig& c) { c.mixer_pattern = "MA", c.ff_pattern = "N"; },
           [](nn::DecoderConfig& c) {
             c.mixer_pattern = "AN", c.ff_pattern = "NF";
             without_mamba(c);
           },
           [](nn::DecoderConfig& c) {
             c.mixer_pattern.clear(), c.ff_pattern = "N";
             without_mamba(c);
           },
           [](nn::DecoderConfig& c) {
             c.mamba = {.heads = 3, .head_size = 5, .state_size = 7};  // of 16 channels
           },
           [](nn::DecoderConfig& c) { c.n_head = c.n_kv_head.emplace(6), c.head_size = 5; }}) {
    const TempFolder out;
    const run::TextModel model = nemotron(change);
    INFO(model.gpt.config.mixer_pattern << " " << model.gpt.config.ff_pattern);
    export_to("hf", model, out / "model");
    CHECK(config_in_folder(out / "model").at("model_type") == "nemotron_h");
    const run::TextModel back = run::load(out / "model");
    const Tensor ids = some_ids(model);
    CHECK(same_bits(back.gpt(ids), model.gpt(ids)));
    export_to("hf", back, out / "again");
    CHECK(config_in_folder(out / "again") == config_in_folder(out / "model"));
    CHECK(run::export_obstacle(model.gpt.config).find("as hf") == std::string::npos);
  }
}

TEST_CASE("a Nemotron-H has transformers' keys and names", "[families]") {
  const TempFolder out;
  const run::TextModel model = nemotron();
  export_to("hf", model, out / "model");
  const json config = config_in_folder(out / "model");
  const json expected = {
      {"architectures", {"NemotronHForCausalLM"}},
      {"layers_block_type", {"mamba", "mlp", "mamba", "mamba", "attention", "mlp"}},
      {"hybrid_override_pattern", "M-MM*-"},
      {"num_hidden_layers", 6},
      {"intermediate_size", 24},
      {"num_key_value_heads", 2},
      {"head_dim", 6},
      {"layer_norm_epsilon", 1e-5},
      {"rms_norm_eps", 1e-5},
      {"mlp_hidden_act", "relu2"},
      {"mlp_bias", false},
      {"use_bias", false},
      {"attention_bias", false},
      {"mamba_num_heads", 4},
      {"mamba_head_dim", 6},
      {"ssm_state_size", 5},
      {"n_groups", 2},
      {"conv_kernel", 4},
      {"use_conv_bias", true},
      {"tie_word_embeddings", false}};
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(config.at(key) == value);
  }
  CHECK_FALSE(config.contains("num_experts_per_tok"));  // llama.cpp's converter goes by it
  const auto tensors = load_safetensors((out / "model/model.safetensors").string()).tensors;
  CHECK(tensors.size() == model.params.tensors().size());
  const std::string mamba = "backbone.layers.0.mixer.", mlp = "backbone.layers.1.mixer.",
                    attention = "backbone.layers.4.mixer.";
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, Shape>>{{"backbone.embeddings.weight", {404, 16}},
                                                  {"backbone.layers.0.norm.weight", {16}},
                                                  {mamba + "in_proj.weight", {72, 16}},
                                                  {mamba + "conv1d.weight", {44, 1, 4}},
                                                  {mamba + "conv1d.bias", {44}},
                                                  {mamba + "dt_bias", {4}},
                                                  {mamba + "A_log", {4}},
                                                  {mamba + "D", {4}},
                                                  {mamba + "norm.weight", {24}},
                                                  {mamba + "out_proj.weight", {16, 24}},
                                                  {"backbone.layers.1.norm.weight", {16}},
                                                  {mlp + "up_proj.weight", {24, 16}},
                                                  {mlp + "down_proj.weight", {16, 24}},
                                                  {attention + "q_proj.weight", {24, 16}},
                                                  {attention + "k_proj.weight", {12, 16}},
                                                  {attention + "o_proj.weight", {16, 24}},
                                                  {"backbone.norm_f.weight", {16}},
                                                  {"lm_head.weight", {404, 16}}}) {
    INFO(name);
    REQUIRE(tensors.contains(name));
    CHECK(tensors.at(name).shape() == shape);
  }
}

TEST_CASE("a Nemotron-H of transformers', or with heads for more tokens, opens", "[families]") {
  const TempFolder out;
  const run::TextModel model = nemotron();
  export_to("hf", model, out / "model");
  const std::string file = (out / "model/model.safetensors").string();
  auto tensors = load_safetensors(file).tensors;
  auto table = tensors.extract("backbone.embeddings.weight");
  table.key() = "backbone.embedding.weight";  // as transformers calls it in files
  tensors.insert(std::move(table));
  tensors["mtp.layers.0.norm.weight"] = Tensor::ones({16});
  save_safetensors(file, {tensors.begin(), tensors.end()});
  const Tensor ids = some_ids(model);
  CHECK(same_bits(run::load(out / "model").gpt(ids), model.gpt(ids)));
  tensors["backbone.layers.1.mixer.in_proj.weight"] = Tensor::ones({72, 16});  // of a feed-forward
  save_safetensors(file, {tensors.begin(), tensors.end()});
  CHECK_THROWS_WITH(run::load(out / "model"), ContainsSubstring("layers.1.mamba.in_proj.weight"));
}

TEST_CASE("adapters of a Nemotron-H are called as transformers' modules, or as tensors",
          "[families][adapters]") {
  const nn::DecoderConfig config = nemotron().gpt.config;
  Rng rng(1);
  std::map<std::string, Tensor> tensors;
  for (const auto& [layer, in, out] :
       {std::tuple("layers.0.mamba.in_proj", 16, 72), std::tuple("layers.1.mlp.down_proj", 24, 16),
        std::tuple("layers.4.self_attn.v_proj", 16, 12)}) {
    tensors[std::string(layer) + ".lora_A.weight"] = Tensor::randn({2, in}, rng);
    tensors[std::string(layer) + ".lora_B.weight"] = Tensor::randn({out, 2}, rng);
  }
  const run::Adapter adapter{{.rank = 2, .alpha = 4}, memory_source(tensors, "adapter")};
  const TempFolder folder;
  run::write_peft(folder / "peft", adapter, config, "base");
  const std::string file = (folder / "peft/adapter_model.safetensors").string();
  const auto written = load_safetensors(file).tensors;
  const std::string begin = "base_model.model.", model = "model.layers.";
  for (const std::string layer : {"0.mixer.in_proj", "1.mixer.down_proj", "4.mixer.v_proj"}) {
    CHECK(written.contains(begin + model + layer + ".lora_A.weight"));
  }
  NamedTensors renamed;  // as NVIDIA's own class calls its modules
  for (const auto& [name, t] : written) {
    renamed.emplace_back(begin + "backbone." + name.substr((begin + "model.").size()), t);
  }
  for (const bool as_tensors : {false, true}) {
    if (as_tensors) save_safetensors(file, renamed);
    const run::Adapter back = run::open_adapter(folder / "peft", config);
    CHECK(back.tensors->entries().size() == tensors.size());
    for (const auto& [name, t] : tensors) CHECK(same_bits(back.tensors->read(name), t));
  }
}

TEST_CASE("what a Nemotron-H's config.json says is taken as transformers takes it", "[families]") {
  const nn::DecoderConfig c = nemotron_config({});
  CHECK(c.n_layer == 8);
  CHECK(c.mixer_pattern == "MNMMAN");  // the two blocks behind it begin it anew
  CHECK(c.ff_pattern == "NFNNNF");
  CHECK((c.position_kind() == nn::Positions::none && !c.tied && !c.with_gate()));
  CHECK(c.activation_kind() == nn::Activation::relu2);
  CHECK(c.mamba == nn::MambaOptions{.heads = 128, .head_size = 80, .groups = 8, .norm_groups = 8});
  CHECK((c.conv_kernel == 4 && c.conv_bias && c.channels_per_head() == 128 && c.inner() == 15680));
  // The list, if there is one.
  const nn::DecoderConfig listed =
      nemotron_config({{"layers_block_type", {"attention", "mlp", "attention", "mlp"}}});
  CHECK((listed.n_layer == 4 && listed.mixer_pattern == "AN" && listed.ff_pattern == "NF"));
  CHECK(listed.mamba == nn::MambaOptions{});
  CHECK(nemotron_config({{"layers_block_type", nullptr}}).n_layer == 8);
  CHECK(nemotron_config({{"num_key_value_heads", nullptr}}).kv_heads() == 40);
  CHECK(nemotron_config({{"time_step_limit", {0.0, "Infinity"}}}) == c);

  const nn::DecoderConfig absent =
      config_of_json({{"model_type", "nemotron_h"}, {"hybrid_override_pattern", "M*-"}});
  CHECK((absent.vocab_size == 131072 && absent.block_size == 4096 && absent.n_embd == 4096));
  CHECK((absent.inner() == 21504 && absent.n_head == 32 && absent.kv_heads() == 8));
  CHECK((absent.channels_per_head() == 128 && absent.norm_eps == 1e-5 && absent.conv_bias));
  CHECK(absent.mamba ==
        nn::MambaOptions{.heads = 128, .head_size = 64, .groups = 8, .norm_groups = 8});
}

TEST_CASE("a Nemotron-H with parts that are not known here is refused by name", "[families]") {
  const auto refused = [](const json& changes, const std::string& why) {
    INFO(why);
    CHECK_THROWS_WITH(nemotron_config(changes), ContainsSubstring(why));
  };
  refused({{"hybrid_override_pattern", "ME*-"}},
          "hybrid_override_pattern: 'E' is not supported, only M (mamba), * (attention) and - "
          "(mlp): there is no support for its experts");
  refused({{"layers_block_type", {"mamba", "moe"}}}, "layers_block_type: 'moe' is not supported");
  refused({{"hybrid_override_pattern", "M|*"}}, "hybrid_override_pattern: '|' is not supported");
  refused({{"hybrid_override_pattern", ""}}, "must name 1 to 4096 layers, not 0");
  refused({{"hybrid_override_pattern", "--"}}, "leaves no block that mixes positions");
  refused({{"hybrid_override_pattern", nullptr}}, "'E' is not supported");
  refused({{"use_bias", true}}, "use_bias true is not supported, only false");
  refused({{"mamba_proj_bias", true}}, "mamba_proj_bias true is not supported, only false");
  refused({{"attention_bias", true}}, "attention_bias true is not supported, only false");
  refused({{"tie_word_embeddings", true}}, "tie_word_embeddings true is not supported");
  refused({{"mlp_hidden_act", "silu"}}, "mlp_hidden_act silu is not supported, only relu2");
  refused({{"mamba_hidden_act", "relu"}}, "mamba_hidden_act relu is not supported, only silu");
  refused({{"n_groups", 5}}, "mamba_heads 128 are not divisible by mamba_groups 5");
  refused({{"time_step_limit", {0.0, 0.5}}}, "time_step_limit [0.0,0.5] is not supported");

  // What transformers has no class for.
  nn::DecoderConfig odd = nemotron().gpt.config;
  odd.mamba.norm_groups = 1;
  CHECK_THAT(run::export_obstacle(odd),
             ContainsSubstring("NemotronHForCausalLM cannot express a model with "
                               "mamba_norm_groups 1, only with 2"));
  odd = nemotron().gpt.config, odd.mixer_pattern = "MMA", odd.ff_pattern = "FNF";
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("cannot express a model with "
                                                          "mixer_pattern MMA"));
  odd = nemotron().gpt.config, odd.mixer_pattern = "MNCNAN";
  odd.ff_pattern = "NF";
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("mixer_pattern MNCNAN"));
  odd = nemotron().gpt.config, odd.tied = true;
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("tied true, only with false"));
}

TEST_CASE("a Nemotron-H goes to GGUF and comes back with its logits",
          "[families][recurrent_gguf]") {
  check_both_ways(nemotron());
  check_both_ways(nemotron([](auto& c) { c.mamba.groups = c.mamba.norm_groups = 1; }));
  check_both_ways(nemotron([](auto& c) { c.mlp_bias = true, c.conv_kernel = 3; }));
  check_both_ways(nemotron([](auto& c) { c.mixer_pattern = "NNMA", c.ff_pattern = "FFNN"; }));
  check_both_ways(nemotron([](auto& c) { c.mixer_pattern = "M", c.ff_pattern = "N"; }));
  // llama.cpp takes files without a head.
  const TempFolder out;
  const run::TextModel model = nemotron([](auto& c) { c.tied = true; });
  export_to("gguf", model, out / "model.gguf");
  const run::TextModel back = run::load(out / "model.gguf");
  const Tensor ids = some_ids(model);
  CHECK((back.gpt.config.tied && same_bits(back.gpt(ids), model.gpt(ids))));
}

TEST_CASE("a Nemotron-H in GGUF has llama.cpp's keys and tensors", "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = nemotron();
  export_to("gguf", model, out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  CHECK(std::get<std::string>(file.keys().at("general.architecture")) == "nemotron_h");
  const auto key = [&](const std::string& name) { return file.keys().at("nemotron_h." + name); };
  CHECK(std::get<Heads>(key("feed_forward_length")) == Heads{0, 24, 0, 0, 0, 24});
  CHECK(std::get<Heads>(key("attention.head_count_kv")) == Heads{0, 0, 0, 0, 2, 0});
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"block_count", 6},
                                                         {"attention.head_count", 4},
                                                         {"attention.key_length", 6},
                                                         {"attention.value_length", 6},
                                                         {"ssm.conv_kernel", 4},
                                                         {"ssm.state_size", 5},
                                                         {"ssm.group_count", 2},
                                                         {"ssm.inner_size", 24},
                                                         {"ssm.time_step_rank", 4}}) {
    INFO(name);
    CHECK(std::get<std::int64_t>(key(name)) == value);
  }
  // llama.cpp opens no file without the second one.
  for (const char* name : {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}) {
    INFO(name);
    CHECK(std::get<double>(key(name)) == Approx(1e-5));
  }
  CHECK_FALSE(file.keys().contains("nemotron_h.rope.freq_base"));
  const std::vector<nn::Block>& h = model.gpt.h;
  CHECK(same_bits(file.read("blk.0.attn_norm.weight"), Tensor(h[0].ln_1.weight)));
  CHECK(same_bits(file.read("blk.1.attn_norm.weight"), Tensor(h[1].ln_2.weight)));
  CHECK(same_bits(file.read("blk.1.ffn_up.weight"), Tensor(h[1].mlp.c_fc.weight)));
  CHECK(same_bits(file.read("blk.1.ffn_down.weight"), Tensor(h[1].mlp.c_proj.weight)));
  CHECK(same_bits(file.read("blk.4.attn_v.weight"), Tensor(h[4].attn.W_value.weight)));
  const Tensor norm = h[0].mamba.norm.weight;
  CHECK(same_bits(file.read("blk.0.ssm_norm.weight"), reshape(norm, {2, 12})));  // of each group
  CHECK(file.at("blk.0.ssm_a").shape == Shape{4, 1});
  for (const std::string name :
       {"blk.1.ffn_norm.weight", "blk.1.ffn_gate.weight", "blk.1.ssm_in.weight",
        "blk.0.attn_q.weight", "blk.0.ffn_up.weight", "blk.4.ffn_up.weight"}) {
    INFO(name);
    CHECK_FALSE(file.contains(name));
  }
}

TEST_CASE("a Nemotron-H that files of llama.cpp do not hold is refused by name",
          "[families][recurrent_gguf]") {
  const auto obstacle = [](const ConfigChange& change) {
    nn::DecoderConfig c = nemotron().gpt.config;
    change(c);
    return run::export_obstacle(c);
  };
  const std::string begin = "GGUF's nemotron_h cannot express a model with ";
  CHECK(obstacle([](auto&) {}) == "");
  CHECK_THAT(obstacle([](auto& c) { c.conv_bias = false; }),
             ContainsSubstring(begin + "conv_bias false, only with true: llama.cpp wants biases"));
  CHECK_THAT(obstacle([](auto& c) { c.mamba.norm_groups = 1; }),
             ContainsSubstring(begin + "mamba_norm_groups 1, only with 2"));
  CHECK_THAT(obstacle([](auto& c) { c.head_size = 5; }), ContainsSubstring(begin + "head_size 5"));
  CHECK_THAT(obstacle([](auto& c) {
               c.mixer_pattern = "AN", c.ff_pattern = "NF";
               without_mamba(c);
             }),
             ContainsSubstring(begin + "no M in mixer_pattern: llama.cpp wants a Mamba-2"));

  const TempFolder out;
  const fs::path file = out / "model.gguf";
  export_to("gguf", nemotron(), file);
  CHECK(Edited(file).complaint() == "");
  const auto complaint = [&](const std::string& key, const GgufValue& value) {
    return with_key(file, "nemotron_h." + key, value);
  };
  const auto refused = [&](const std::string& key, const GgufValue& value, const std::string& why) {
    INFO(key);
    CHECK_THAT(complaint(key, value), ContainsSubstring(why));
  };
  using Whole = std::int64_t;
  // Keys of llama.cpp's converter that change nothing.
  CHECK(complaint("attention.layer_norm_epsilon", 1e-5) == "");
  CHECK(complaint("rope.freq_base", 10000.0) == "");
  refused("feed_forward_length", Heads{0, 24, 0, 0, 0}, "has 5 numbers for 6 blocks");
  refused("feed_forward_length", Heads{0, 24, 0, 0, 0, 12},
          "24 and 12 channels of feed-forwards are not supported");
  refused("feed_forward_length", Heads{0, 24, 0, 24, 0, 24}, "blk.3.");
  refused("feed_forward_length", Whole{24}, "leaves no block that mixes positions");
  refused("attention.head_count_kv", Heads{0, 0, 0, 2, 2, 0}, "blk.3.");
  refused("ssm.group_count", Whole{3}, "mamba_heads 4 are not divisible by mamba_groups 3");
  refused("ssm.group_count", Whole{4}, "'blk.0.ssm_norm.weight' must be a matrix of 4 rows");
  refused("expert_count", Whole{4}, "expert_count 4 is not supported, only 0");
  refused("attention.sliding_window", Whole{8}, "attention.sliding_window' is not supported");
  for (const char* const key :
       {"attention.head_count_kv", "feed_forward_length", "ssm.state_size"}) {
    CHECK_THAT(without_key(file, std::string("nemotron_h.") + key),
               ContainsSubstring(std::string("there is no 'nemotron_h.") + key));
  }
}
