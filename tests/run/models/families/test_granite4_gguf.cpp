// Granite 4 in GGUF: how files hold Mamba-2 and joined gates, and what is refused.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/tests/run/models/families/recurrent_models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

run::TextModel granite_with_experts() {
  return with_config("granitemoehybrid", [](nn::DecoderConfig& c) { c.mamba.groups = 1; });
}

run::TextModel dense_granite() {
  return with_config("granitemoehybrid_dense",
                     [](nn::DecoderConfig& c) { c.mamba.head_size = 8, c.conv_bias = true; });
}

}  // namespace

TEST_CASE("a Granite 4 goes to GGUF and back with its logits", "[families][recurrent_gguf]") {
  check_both_ways(granite_with_experts());
  check_both_ways(dense_granite());
  // Without attention in any block, with a head, and with positions that are scaled.
  check_both_ways(with_config("granitemoehybrid", [](nn::DecoderConfig& c) {
    c.mamba.groups = 1, c.mixer_pattern = "M", c.tied = false;
  }));
  check_both_ways(with_config("granitemoehybrid_dense", [](nn::DecoderConfig& c) {
    c.mamba.head_size = 8, c.conv_bias = true;
    c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 4;
  }));
}

TEST_CASE("a Granite 4 in GGUF has llama.cpp's keys, tensors and types",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = granite_with_experts();
  export_to("gguf", model, out / "model.gguf", "f16");
  const GgufFile file(out / "model.gguf");
  const auto key = [&](const std::string& name) { return file.keys().at("granitehybrid." + name); };
  CHECK(std::get<std::string>(file.keys().at("general.architecture")) == "granitehybrid");
  CHECK(std::get<Heads>(key("attention.head_count_kv")) == Heads{0, 2, 0});
  CHECK_FALSE(std::get<bool>(key("rope.scaling.finetuned")));
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"feed_forward_length", 24},
                                                         {"expert_shared_feed_forward_length", 10},
                                                         {"expert_count", 4},
                                                         {"expert_used_count", 2},
                                                         {"ssm.conv_kernel", 4},
                                                         {"ssm.state_size", 6},
                                                         {"ssm.group_count", 1},
                                                         {"ssm.inner_size", 32},
                                                         {"ssm.time_step_rank", 4}}) {
    INFO(name);
    CHECK(std::get<std::int64_t>(key(name)) == value);
  }
  CHECK(std::get<double>(key("logit_scale")) == 2.5);
  for (const auto& [name, shape, type] : std::vector<std::tuple<std::string, Shape, std::string>>{
           {"blk.0.ssm_in.weight", {80, 16}, "f16"},
           {"blk.0.ssm_conv1d.weight", {44, 4}, "f32"},
           {"blk.0.ssm_conv1d.bias", {44}, "f32"},
           {"blk.0.ssm_dt.bias", {4}, "f32"},
           {"blk.0.ssm_a", {4, 1}, "f32"},
           {"blk.0.ssm_d", {4, 1}, "f32"},
           {"blk.0.ssm_norm.weight", {32}, "f32"},
           {"blk.0.ssm_out.weight", {16, 32}, "f16"},
           {"blk.1.attn_k.weight", {8, 16}, "f16"},
           {"blk.1.ffn_gate_inp.weight", {4, 16}, "f32"},
           {"blk.1.ffn_gate_exps.weight", {4, 24, 16}, "f16"},
           {"blk.1.ffn_up_exps.weight", {4, 24, 16}, "f16"},
           {"blk.1.ffn_down_exps.weight", {4, 16, 24}, "f16"},
           {"blk.1.ffn_gate_shexp.weight", {10, 16}, "f16"},
           {"blk.1.ffn_down_shexp.weight", {16, 10}, "f16"}}) {
    INFO(name);
    CHECK(file.at(name).shape == shape);
    CHECK(file.at(name).type->name == type);
  }
  const Tensor rates = file.read("blk.0.ssm_a"), logs = model.gpt.h[0].mamba.A_log;
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(std::abs(rates.values<float>()[i] + std::exp(logs.values<float>()[i])) < 1e-5);
  }
  // Without experts, and with positions.
  export_to("gguf", dense_granite(), out / "dense.gguf");
  const GgufFile dense(out / "dense.gguf");
  const auto dense_key = [&](const std::string& name) {
    return dense.keys().at("granitehybrid." + name);
  };
  CHECK(std::get<bool>(dense_key("rope.scaling.finetuned")));
  CHECK(std::get<std::int64_t>(dense_key("expert_used_count")) == 0);
  CHECK(dense.at("blk.0.attn_q.bias").shape == Shape{16});
  CHECK(dense.at("blk.0.ffn_up.weight").shape == Shape{24, 16});
  CHECK_FALSE(dense.contains("blk.1.attn_q.weight"));
}

TEST_CASE("llama.cpp's own ways to write a Granite 4 are read", "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = dense_granite();
  export_to("gguf", model, out / "model.gguf");
  const Tensor ids = some_ids(model), logits = model.gpt(ids);
  Edited edited(out / "model.gguf");
  // Its converter writes the norm of each group as a row, and may leave out what has a default.
  for (GgufTensor& t : edited.tensors) {
    if (t.name != "blk.1.ssm_norm.weight") continue;
    t.shape = {1, 32};
    t.values = [made = t.values] { return reshape(made(), {1, 32}); };
  }
  edited.keys.erase("granitehybrid.rope.scaling.finetuned");
  edited.keys.erase("granitehybrid.expert_count");
  edited.keys["granitehybrid.expert_shared_feed_forward_length"] = std::int64_t{24};
  CHECK(same_bits(edited.load().gpt(ids), logits));
  edited.keys["granitehybrid.rope.scaling.finetuned"] = false;
  const run::TextModel without = edited.load();
  CHECK_FALSE(without.gpt.config.rotary());
  CHECK(difference(without.gpt(ids), logits, 1e-3, 1e-3) != "");
}

TEST_CASE("a gate and what it gates are one tensor, stored or of two types",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = with_config("granitemoehybrid", [](nn::DecoderConfig& c) {
    c.mamba.groups = 1, c.n_embd = 32, c.mamba.head_size = 16;
  });
  export_to("gguf", model, out / "model.gguf", "q8_0");
  const GgufFile file(out / "model.gguf");
  const std::shared_ptr<const TensorSource> weights = run::open_gguf(out / "model.gguf").weights;
  for (const auto& [ours, theirs, dimension] :
       std::vector<std::tuple<std::string, std::string, int>>{{"experts", "exps", 1},
                                                              {"shared_expert", "shexp", 0}}) {
    const std::string name = "layers.1.mlp." + ours + ".gate_up_proj.weight";
    CHECK(weights->at(name).type->name == "q8_0");
    const Tensor gate = file.read("blk.1.ffn_gate_" + theirs + ".weight"),
                 up = file.read("blk.1.ffn_up_" + theirs + ".weight");
    const Tensor expected = concat({gate, up}, dimension);
    CHECK(same_bits(weights->read(name), expected));
    CHECK(same_bits(weights->stored(name).widened(DType::f32), expected));
  }
  Edited edited(out / "model.gguf");
  for (GgufTensor& t : edited.tensors) {
    if (t.name == "blk.1.ffn_up_exps.weight") t.type = &stored_type("f16");
  }
  write_gguf(out / "mixed.gguf", edited.keys, edited.tensors);
  const auto mixed = run::open_gguf(out / "mixed.gguf").weights;
  const std::string name = "layers.1.mlp.experts.gate_up_proj.weight";
  CHECK(mixed->at(name).type == nullptr);
  CHECK(difference(mixed->read(name), weights->read(name), 1e-3, 1e-3) == "");
}

TEST_CASE("keys and tensors that no Granite 4 can have are refused", "[families][recurrent_gguf]") {
  const TempFolder out;
  const fs::path file = out / "model.gguf";
  export_to("gguf", granite_with_experts(), file);
  CHECK(Edited(file).complaint() == "");
  const auto refused = [&](const std::string& key, const GgufValue& value, const std::string& why) {
    INFO(key);
    CHECK_THAT(with_key(file, "granitehybrid." + key, value), ContainsSubstring(why));
  };
  using Whole = std::int64_t;
  constexpr Whole kMost = std::numeric_limits<std::uint32_t>::max();  // that GGUF has for numbers
  refused("ssm.group_count", Whole{0}, "'granitehybrid.ssm.group_count (mamba_groups)' must be");
  refused("ssm.group_count", Whole{3}, "mamba_heads 4 are not divisible by mamba_groups 3");
  refused("ssm.group_count", Whole{2}, "llama.cpp norms the channels of each group by themselves");
  refused("ssm.time_step_rank", Whole{5}, "inner_size 32 cannot be cut into the 5 heads of");
  refused("ssm.time_step_rank", Whole{0}, "time_step_rank (mamba_heads)' must be");
  refused("ssm.time_step_rank", kMost, "time_step_rank (mamba_heads)' must be");
  refused("ssm.inner_size", Whole{0}, "ssm.inner_size 0 must be 1 to");
  refused("ssm.inner_size", kMost, "4294967295 cannot be cut into the 4 heads of");
  refused("ssm.inner_size", Whole{64}, "llama.cpp wants twice n_embd, 32, in all");
  refused("ssm.state_size", Whole{7}, "has shape");
  refused("ssm.state_size", kMost, "ssm.state_size (mamba_state_size)' must be");
  refused("ssm.conv_kernel", Whole{1}, "conv_kernel 1: llama.cpp wants 2 or more");
  refused("ssm.conv_kernel", Whole{5}, "layers.0.mamba.conv1d.weight");
  refused("ssm.dt_b_c_rms", true, "'granitehybrid.ssm.dt_b_c_rms' is not supported");
  refused("attention.head_count_kv", Heads{0, 2}, "has 2 numbers for 3 blocks");
  refused("attention.head_count_kv", Heads{0, 2, 0, 0}, "has 4 numbers for 3 blocks");
  refused("attention.head_count_kv", Heads(4097, 0), "has 4097 numbers, more than a model has");
  refused("attention.head_count_kv", Heads(4096, 0), "has 4096 numbers for 3 blocks");
  refused("attention.head_count_kv", Heads{0, -2, 0}, "n_kv_head");
  refused("attention.head_count_kv", Heads{0, 8, 0}, "n_head 4 is not divisible by n_kv_head 8");
  refused("attention.head_count_kv", Heads{0, 2, 4}, "2 and 4 heads of keys are not supported");
  refused("attention.head_count_kv", Heads{2, 2, 2}, "llama.cpp wants a Mamba-2 in some block");
  refused("attention.head_count_kv", Heads{0, 0, 2}, "there is no tensor");
  refused("attention.head_count_kv", std::string("2"), "head_count_kv");
  refused("feed_forward_length", Whole{0}, "feed_forward_length 0 must be 1 to");
  refused("expert_shared_feed_forward_length", kMost, "must be 0 to");
  refused("expert_used_count", Whole{5}, "expert_used_count 5 must be 1 to 4");
  refused("expert_used_count", Whole{0}, "expert_used_count 0 must be 1 to 4");
  refused("expert_count", Whole{5}, "has shape");
  refused("expert_count", Whole{0}, "there is no tensor");
  refused("rope.scaling.finetuned", Whole{1}, "finetuned");
  for (const std::string key :
       {"attention.head_count_kv", "ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
        "ssm.time_step_rank", "ssm.inner_size", "feed_forward_length", "attention.scale"}) {
    INFO(key);
    CHECK_THAT(without_key(file, "granitehybrid." + key),
               ContainsSubstring("there is no 'granitehybrid." + key));
  }
  const auto tensor = [&](const std::string& name, const Tensor& t, const std::string& why) {
    INFO(name);
    CHECK_THAT(with_tensor(file, name, t), ContainsSubstring(why));
  };
  tensor("blk.0.ssm_a", Tensor::zeros({4, 1}), "has 0, and rates of decay are below 0");
  tensor("blk.0.ssm_a", Tensor::ones({4, 1}) * -INFINITY, "rates of decay are below 0");
  tensor("blk.0.ssm_a", Tensor::ones({4}) * -1.0F, "'blk.0.ssm_a' must be a column, not (4)");
  tensor("blk.0.ssm_d", Tensor::ones({1, 4}), "must be a column");
  tensor("blk.0.ssm_d", Tensor::ones({5, 1}), "has shape");
  tensor("blk.0.ssm_norm.weight", Tensor::ones({2, 16}), "must be a vector");
  tensor("blk.0.ssm_conv1d.weight", Tensor::ones({44, 1, 4}), "must be a matrix");
  tensor("blk.0.ssm_in.weight", Tensor::ones({79, 16}), "has shape");
  tensor("blk.0.ffn_up_shexp.weight", Tensor::ones({9, 16}), "they must have one shape");
  tensor("blk.0.ffn_up_shexp.weight", Tensor::ones({16}), "must be a matrix");
}

TEST_CASE("a Granite 4 that llama.cpp does not compute is refused by name",
          "[families][recurrent_gguf]") {
  const nn::DecoderConfig c = granite_with_experts().gpt.config;
  const auto obstacle = [&](const std::function<void(nn::DecoderConfig&)>& change) {
    nn::DecoderConfig other = c;
    change(other);
    return run::export_obstacle(other);
  };
  const std::string begin = "GGUF's granitehybrid cannot express a model with ";
  CHECK(run::export_obstacle(c) == "");
  CHECK_THAT(obstacle([](auto& o) { o.mamba.groups = 2; }),
             ContainsSubstring(begin + "mamba_groups 2: llama.cpp norms the channels"));
  CHECK_THAT(
      obstacle([](auto& o) { o.mamba.head_size = 4; }),
      ContainsSubstring(begin + "4 mamba_heads of 4 channels: llama.cpp wants twice n_embd"));
  CHECK_THAT(obstacle([](auto& o) { o.conv_bias = false; }),
             ContainsSubstring(begin + "conv_bias false, only with true: llama.cpp wants biases"));
  CHECK_THAT(obstacle([](auto& o) { o.moe.pattern = "ED"; }),
             ContainsSubstring(begin + "moe_pattern ED, only with"));
  CHECK_THAT(obstacle([](auto& o) { o.conv_kernel = 1; }),
             ContainsSubstring(begin + "conv_kernel 1: llama.cpp wants 2 or more"));
  CHECK_THAT(obstacle([](auto& o) { o.joined_gate = false; }),
             ContainsSubstring(begin + "joined_gate false"));
}

TEST_CASE("adapters of a gate that GGUF has apart are merged, not written",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = dense_granite();
  run::Adapter adapter;
  adapter.options = {.rank = 1, .alpha = 1};
  adapter.tensors =
      memory_source({{"layers.0.mlp.gate_up_proj.lora_A.weight", Tensor::ones({1, 16})},
                     {"layers.0.mlp.gate_up_proj.lora_B.weight", Tensor::ones({48, 1})}},
                    "adapter");
  CHECK_THROWS_WITH(
      run::write_gguf_adapter(out / "adapter.gguf", adapter, model.gpt.config),
      ContainsSubstring("granitehybrid has 'layers.0.mlp.gate_up_proj' in other parts"));
  const GgufKeys keys = {{"general.architecture", std::string("granitehybrid")},
                         {"general.type", std::string("adapter")},
                         {"adapter.type", std::string("lora")},
                         {"adapter.lora.alpha", 1.0}};
  const auto refused = [&](const std::string& layer, const std::string& why) {
    INFO(layer);
    std::vector<GgufTensor> tensors;
    for (const auto& [part, shape] : {std::pair(".lora_a", Shape{1, 16}), {".lora_b", {24, 1}}}) {
      tensors.push_back({layer + part, &stored_type("f32"), shape,
                         [shape = shape] { return Tensor::ones(shape); }});
    }
    write_gguf(out / "theirs.gguf", keys, tensors);
    CHECK_THROWS_WITH(run::open_adapter(out / "theirs.gguf", model.gpt.config),
                      ContainsSubstring(why));
  };
  refused("blk.0.ffn_gate.weight", "has 'layers.0.mlp.gate_up_proj' in other parts or rows");
  refused("blk.9.ffn_gate.weight", "'blk.9.ffn_gate.weight.lora_a' is no adapter of a layer");
}
