// Falcon-H1 in Hugging Face's layout and in GGUF: attention and a Mamba-2 side by side, with
// multipliers.

#include <algorithm>
#include <functional>
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

// A small model that has all that the family may have.
run::TextModel falcon(const std::function<void(nn::DecoderConfig&)>& change = {}) {
  return with_config("granitemoehybrid_dense", [&](nn::DecoderConfig& c) {
    const std::int64_t vocab_size = c.vocab_size;
    c = std::ranges::find(run::families(), "falcon_h1", &run::Family::name)->model;
    c.vocab_size = vocab_size, c.block_size = 24, c.n_layer = 2, c.n_embd = 16, c.n_inner = 24;
    c.n_head = 4, c.n_kv_head = 2, c.rope_base = 1e11;
    c.mamba = {.heads = 4, .head_size = 6, .state_size = 5, .groups = 2, .norm_groups = 2};
    c.embedding_scale = 3, c.logit_scale = 0.4;
    c.scales = {.attention_in = 1.5,
                .key = 0.390625,
                .attention_out = 0.9375,
                .mamba_in = 1.25,
                .mamba_out = 0.23570226039551587,
                .mamba_parts = "0.3535533905932738,0.25,0.5,0.75,1.1",
                .gate = 0.8838834764831845,
                .mlp = 0.5859375};
    if (change) change(c);
  });
}

// One that llama.cpp can compute, with scales that change no mantissa.
run::TextModel falcon_for_gguf(const std::function<void(nn::DecoderConfig&)>& change = {}) {
  return falcon([&](nn::DecoderConfig& c) {
    c.mamba.groups = c.mamba.norm_groups = 1;
    c.embedding_scale = 4, c.logit_scale = 0.5;
    c.scales = {.attention_in = 2,
                .key = 0.25,
                .attention_out = 0.5,
                .mamba_in = 4,
                .mamba_out = 0.25,
                .mamba_parts = "0.5,0.25,2,1,0.125",
                .gate = 0.5,
                .mlp = 2};
    if (change) change(c);
  });
}

json config_in(const fs::path& folder) {
  return json::parse(TempFolder::get(folder / "config.json"));
}

// What a config.json with these keys in place of others is.
nn::DecoderConfig config_of(const json& changes) {
  const TempFolder folder;
  json config = {{"model_type", "falcon_h1"},
                 {"architectures", {"FalconH1ForCausalLM"}},
                 {"hidden_size", 1024},
                 {"intermediate_size", 2048},
                 {"num_hidden_layers", 36},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 2},
                 {"head_dim", 64},
                 {"rope_theta", 100000000000.0},
                 {"mamba_d_ssm", 1536},
                 {"mamba_n_heads", 24},
                 {"mamba_d_head", 64},
                 {"mamba_d_state", 128},
                 {"mamba_n_groups", 1},
                 {"mamba_rms_norm", false},
                 {"mamba_use_mlp", true},
                 {"projectors_bias", false},
                 {"key_multiplier", 0.390625},
                 {"ssm_multipliers", {0.5, 0.25, 1, 0.5, 2}},
                 {"mlp_multipliers", {0.75, 0.5}}};
  for (const auto& [key, value] : changes.items()) config[key] = value;
  folder.put("config.json", config.dump());
  return run::read_hf_config(folder.path()).config;
}

}  // namespace

TEST_CASE("a Falcon-H1 goes to Hugging Face's layout and back with its logits", "[families]") {
  for (const auto& change : std::vector<std::function<void(nn::DecoderConfig&)>>{
           {},
           [](nn::DecoderConfig& c) {
             c.mamba.norm_groups = 0, c.scales = {}, c.tied = true, c.conv_bias = false;
           },
           [](nn::DecoderConfig& c) { c.bias = c.mlp_bias = true, c.head_size = 6; },
           [](nn::DecoderConfig& c) { c.n_head = 6, c.head_size = 4; }}) {  // of 16 channels
    const TempFolder out;
    const run::TextModel model = falcon(change);
    export_to("hf", model, out / "model");
    const run::TextModel back = run::load(out / "model");
    const Tensor ids = some_ids(model);
    CHECK(same_bits(back.gpt(ids), model.gpt(ids)));
    export_to("hf", back, out / "again");
    CHECK(config_in(out / "again") == config_in(out / "model"));
    CHECK(run::export_obstacle(model.gpt.config).find("as hf") == std::string::npos);
  }
}

TEST_CASE("a Falcon-H1 has transformers' keys and names", "[families]") {
  const TempFolder out;
  export_to("hf", falcon(), out / "model");
  const json config = config_in(out / "model");
  CHECK(config.at("model_type") == "falcon_h1");
  CHECK(config.at("architectures") == json{"FalconH1ForCausalLM"});
  const json expected = {{"embedding_multiplier", 3.0},
                         {"lm_head_multiplier", 0.4},
                         {"attention_in_multiplier", 1.5},
                         {"key_multiplier", 0.390625},
                         {"attention_out_multiplier", 0.9375},
                         {"ssm_in_multiplier", 1.25},
                         {"ssm_out_multiplier", 0.23570226039551587},
                         {"ssm_multipliers", {0.3535533905932738, 0.25, 0.5, 0.75, 1.1}},
                         {"mlp_multipliers", {0.8838834764831845, 0.5859375}},
                         {"mamba_d_ssm", 24},
                         {"mamba_d_head", 6},
                         {"mamba_n_heads", 4},
                         {"mamba_n_groups", 2},
                         {"mamba_d_state", 5},
                         {"mamba_d_conv", 4},
                         {"mamba_conv_bias", true},
                         {"mamba_rms_norm", true},
                         {"mamba_norm_before_gate", false},
                         {"mamba_proj_bias", false},
                         {"projectors_bias", false},
                         {"tie_word_embeddings", false}};
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(config.at(key) == value);
  }
  const auto tensors = load_safetensors((out / "model/model.safetensors").string()).tensors;
  const std::string block = "model.layers.1.";
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"model.embed_tokens.weight", {404, 16}},
           {block + "input_layernorm.weight", {16}},
           {block + "self_attn.k_proj.weight", {8, 16}},
           {block + "mamba.in_proj.weight", {72, 16}},
           {block + "mamba.conv1d.weight", {44, 1, 4}},
           {block + "mamba.conv1d.bias", {44}},
           {block + "mamba.dt_bias", {4}},
           {block + "mamba.A_log", {4}},
           {block + "mamba.D", {4}},
           {block + "mamba.norm.weight", {24}},
           {block + "mamba.out_proj.weight", {16, 24}},
           {block + "pre_ff_layernorm.weight", {16}},
           {block + "feed_forward.gate_proj.weight", {24, 16}},
           {block + "feed_forward.down_proj.weight", {16, 24}},
           {"model.final_layernorm.weight", {16}},
           {"lm_head.weight", {404, 16}}}) {
    INFO(name);
    REQUIRE(tensors.contains(name));
    CHECK(tensors.at(name).shape() == shape);
  }
}

TEST_CASE("what a Falcon-H1's config.json says is taken as transformers takes it", "[families]") {
  const nn::DecoderConfig c = config_of({});
  CHECK((c.mixer_pattern == "P" && c.rotary() && c.rope_base == 1e11 && !c.tied));
  CHECK((c.mamba == nn::MambaOptions{.heads = 24, .head_size = 64, .norm_groups = 0}));
  CHECK((c.scales.key == 0.390625 && c.scales.mamba_parts == "0.5,0.25,1,0.5,2"));
  CHECK((c.scales.gate == 0.75 && c.scales.mlp == 0.5 && c.scales.attention_in == 1));
  const json all_ones = {
      {"ssm_multipliers", {1, 1, 1, 1, 1}}, {"mlp_multipliers", nullptr}, {"key_multiplier", 1}};
  CHECK(config_of(all_ones).scales == nn::BlockScales{});
  CHECK(config_of({{"mamba_d_head", "auto"}}).mamba.head_size == 64);
  // Twice hidden_size.
  CHECK(config_of({{"mamba_d_ssm", nullptr}, {"mamba_n_heads", 32}}).mamba.head_size == 64);
  CHECK(config_of(
            {{"mamba_rms_norm", true}, {"mamba_norm_before_gate", false}, {"mamba_n_groups", 3}})
            .mamba.norm_groups == 3);
  CHECK(config_of({{"num_key_value_heads", nullptr}}).kv_heads() == 8);
}

TEST_CASE("a Falcon-H1 with parts that are not known here is refused by name", "[families]") {
  const auto refused = [](const json& changes, const std::string& why) {
    INFO(why);
    CHECK_THROWS_WITH(config_of(changes), ContainsSubstring(why));
  };
  refused({{"mamba_proj_bias", true}}, "mamba_proj_bias true is not supported, only false");
  refused({{"projectors_bias", true}}, "projectors_bias true is not supported, only false");
  refused({{"mamba_use_mlp", false}}, "mamba_use_mlp false is not supported, only true");
  refused({{"hidden_act", "gelu"}}, "hidden_act");
  refused({{"mamba_rms_norm", true}, {"mamba_norm_before_gate", true}},
          "mamba_norm_before_gate true, or absent, is not supported, only false");
  refused({{"mamba_rms_norm", true}}, "mamba_norm_before_gate true, or absent, is not supported");
  refused({{"ssm_multipliers", {1, 1, 1, 1}}}, "ssm_multipliers has 4 numbers, not 5");
  refused({{"ssm_multipliers", {1, 1, 0, 1, 1}}}, "mamba_part_scales are from 1e-6 to 1e6, not 0");
  refused({{"mlp_multipliers", {1}}}, "mlp_multipliers has 1 numbers, not 2");
  refused({{"mlp_multipliers", {-1, 1}}}, "gate_scale");
  refused({{"key_multiplier", 0}}, "key_multiplier (key_scale)");
  refused({{"mamba_d_head", 7}}, "mamba_d_head 7 must be 64: mamba_d_ssm 1536 over 24 heads");
  refused({{"mamba_d_ssm", nullptr}}, "mamba_n_heads 24 do not divide 2048 channels");
  refused({{"mamba_n_heads", 5}}, "mamba_n_heads 5 do not divide 1536 channels");
  refused({{"mamba_d_ssm", 0}}, "mamba_n_heads 24 do not divide 0 channels");
  refused({{"mamba_n_groups", 5}}, "mamba_heads 24 are not divisible by mamba_groups 5");
  refused({{"time_step_limit", {0.0, 0.5}}}, "time_step_limit [0.0,0.5] is not supported");

  // What transformers has no class for.
  nn::DecoderConfig odd = falcon().gpt.config;
  odd.mamba.norm_groups = 1;
  CHECK_THAT(
      run::export_obstacle(odd),
      ContainsSubstring("as many parts as there are mamba_groups, 2, not mamba_norm_groups 1"));
  odd = falcon().gpt.config, odd.mixer_pattern = "PA";
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("mixer_pattern PA"));
}

TEST_CASE("a Falcon-H1 goes to GGUF with its scales in the weights, and comes back with its logits",
          "[families][recurrent_gguf]") {
  check_both_ways(falcon_for_gguf());
  check_both_ways(falcon_for_gguf([](auto& c) { c.tied = true, c.mamba.norm_groups = 0; }));
  check_both_ways(falcon_for_gguf([](auto& c) {
    c.tied = true, c.logit_scale = 4, c.mamba.norm_groups = 0, c.mamba.groups = 2;
  }));
  check_both_ways(falcon_for_gguf([](auto& c) {
    c.scales = {}, c.head_size = 6, c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 4;
  }));
  // Other scales are rounded.
  const TempFolder out;
  const run::TextModel model = falcon([](auto& c) { c.mamba.groups = c.mamba.norm_groups = 1; });
  export_to("gguf", model, out / "model.gguf");
  const run::TextModel back = run::load(out / "model.gguf");
  CHECK((back.gpt.config.scales == nn::BlockScales{} && back.gpt.config.logit_scale == 1));
  const Tensor ids = some_ids(model);
  CHECK(difference(back.gpt(ids), model.gpt(ids), 1e-5, 2e-5) == "");
}

TEST_CASE("a Falcon-H1 in GGUF has llama.cpp's keys and tensors", "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = falcon_for_gguf([](auto& c) { c.tied = true; });
  export_to("gguf", model, out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  CHECK(std::get<std::string>(file.keys().at("general.architecture")) == "falcon-h1");
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"feed_forward_length", 24},
                                                         {"attention.head_count", 4},
                                                         {"attention.head_count_kv", 2},
                                                         {"attention.key_length", 4},
                                                         {"ssm.conv_kernel", 4},
                                                         {"ssm.state_size", 5},
                                                         {"ssm.group_count", 1},
                                                         {"ssm.inner_size", 24},
                                                         {"ssm.time_step_rank", 4}}) {
    INFO(name);
    CHECK(std::get<std::int64_t>(file.keys().at("falcon-h1." + name)) == value);
  }
  CHECK(std::get<double>(file.keys().at("falcon-h1.rope.freq_base")) == 1e11);
  const nn::Block& block = model.gpt.h[1];
  const Tensor table = model.gpt.wte.weight, k = block.attn.W_key.weight,
               in = block.mamba.in_proj.weight;
  CHECK(same_bits(file.read("token_embd.weight").rows(0, 404), table * 4.0));
  CHECK(same_bits(file.read("output.weight").rows(0, 404), table * 0.5));  // no longer tied
  CHECK(same_bits(file.read("blk.1.attn_k.weight"), k * 0.5));
  CHECK(same_bits(file.read("blk.1.attn_q.weight"), block.attn.W_query.weight * 2.0));
  CHECK(same_bits(file.read("blk.1.attn_output.weight"), block.attn.c_proj.weight * 0.5));
  CHECK(same_bits(file.read("blk.1.ssm_out.weight"), block.mamba.out_proj.weight * 0.25));
  CHECK(same_bits(file.read("blk.1.ffn_gate.weight"), block.mlp.c_gate.weight * 0.5));
  CHECK(same_bits(file.read("blk.1.ffn_up.weight"), Tensor(block.mlp.c_fc.weight)));
  CHECK(same_bits(file.read("blk.1.ffn_down.weight"), block.mlp.c_proj.weight * 2.0));
  // 24 rows of z, then of x, 5 of B, of C, and 4 of dt.
  const Tensor theirs = file.read("blk.1.ssm_in.weight");
  for (const auto& [begin, end, by] : std::vector<std::tuple<int, int, double>>{
           {0, 24, 2}, {24, 48, 1}, {48, 53, 8}, {53, 58, 4}, {58, 62, 0.5}}) {
    INFO(begin);
    CHECK(same_bits(theirs.rows(begin, end), in.rows(begin, end) * by));
  }
  for (const std::string name :
       {"blk.1.ffn_norm", "blk.1.attn_norm.weight", "blk.1.ssm_norm.weight", "blk.1.ssm_dt.bias",
        "blk.1.ssm_conv1d.bias", "output_norm.weight"}) {
    INFO(name);
    CHECK(file.contains(name));
  }
  CHECK(file.at("blk.1.ssm_a").shape == Shape{4, 1});
}

TEST_CASE("a Falcon-H1 that files of llama.cpp do not hold is refused by name",
          "[families][recurrent_gguf]") {
  const auto obstacle = [](const std::function<void(nn::DecoderConfig&)>& change) {
    nn::DecoderConfig c = falcon_for_gguf().gpt.config;
    change(c);
    return run::export_obstacle(c);
  };
  const std::string begin = "GGUF's falcon-h1 cannot express a model with ";
  CHECK(obstacle([](auto&) {}) == "");
  CHECK_THAT(obstacle([](auto& c) { c.mamba.groups = c.mamba.norm_groups = 2; }),
             ContainsSubstring(begin + "mamba_norm_groups 2 and mamba_groups 2"));
  CHECK_THAT(obstacle([](auto& c) { c.conv_bias = false; }),
             ContainsSubstring(begin + "conv_bias false, only with true: llama.cpp wants biases"));
  CHECK_THAT(obstacle([](auto& c) { c.bias = true; }), ContainsSubstring(begin + "bias true"));

  const TempFolder out;
  const fs::path file = out / "model.gguf";
  export_to("gguf", falcon_for_gguf(), file);
  CHECK(Edited(file).complaint() == "");
  const auto refused = [&](const std::string& key, const GgufValue& value, const std::string& why) {
    INFO(key);
    CHECK_THAT(with_key(file, "falcon-h1." + key, value), ContainsSubstring(why));
  };
  using Whole = std::int64_t;
  refused("ssm.group_count", Whole{2}, "mamba_norm_groups 2 and mamba_groups 2");
  refused("ssm.time_step_rank", Whole{5}, "inner_size 24 cannot be cut into the 5 heads of");
  refused("ssm.inner_size", Whole{28}, "has shape");
  refused("ssm.state_size", Whole{7}, "has shape");
  refused("ssm.conv_kernel", Whole{1}, "conv_kernel 1: llama.cpp wants 2 or more");
  CHECK_THAT(without_key(file, "falcon-h1.ssm.state_size"),
             ContainsSubstring("there is no 'falcon-h1.ssm.state_size"));
  // An adapter would have to be multiplied as the weight is.
  nn::DecoderConfig scaled = falcon_for_gguf().gpt.config;
  const auto refuses_adapter = [&] {
    CHECK_THROWS_WITH(run::write_gguf_adapter(out / "adapter.gguf", {}, scaled),
                      ContainsSubstring("falcon-h1 has the scales of blocks and logits in its"));
  };
  refuses_adapter();
  scaled.scales = {};  // one of the head would be
  refuses_adapter();
}
