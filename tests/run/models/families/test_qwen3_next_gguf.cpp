// Qwen3-Next in GGUF: how files hold gated delta nets, and what is refused.

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/run/models/families/recurrent_models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

run::TextModel next_qwen() {
  return with_config("qwen3_next",
                     [](nn::DecoderConfig& c) { c.delta_value_size = 5, c.moe.pattern.clear(); });
}

}  // namespace

TEST_CASE("a Qwen3-Next goes to GGUF and back with its logits", "[families][recurrent_gguf]") {
  // Norms have w + 1 in files, which of weights of bf16 is exact.
  check_both_ways(next_qwen(), "bf16");
  check_both_ways(with_config("qwen3_next",
                              [](nn::DecoderConfig& c) {
                                c.delta_value_size = 5, c.moe.pattern.clear();
                                c.delta_heads = c.delta_key_heads = 1, c.mixer_pattern = "D",
                                c.tied = true;
                              }),
                  "bf16");
}

TEST_CASE("a Qwen3-Next in GGUF has llama.cpp's keys and tensors", "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = next_qwen();
  export_to("gguf", model, out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::int64_t>>{
           {"full_attention_interval", 4},
           {"attention.head_count_kv", 2},
           {"rope.dimension_count", 2},
           {"ssm.conv_kernel", 4},
           {"ssm.state_size", 5},
           {"ssm.group_count", 2},
           {"ssm.time_step_rank", 4},
           {"ssm.inner_size", 20},
           {"expert_feed_forward_length", 10},
           {"expert_shared_feed_forward_length", 12}}) {
    INFO(name);
    CHECK(std::get<std::int64_t>(file.keys().at("qwen3next." + name)) == value);
  }
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, Shape>>{{"blk.0.attn_qkv.weight", {40, 16}},
                                                  {"blk.0.attn_gate.weight", {20, 16}},
                                                  {"blk.0.ssm_ba.weight", {8, 16}},
                                                  {"blk.0.ssm_conv1d.weight", {40, 4}},
                                                  {"blk.0.ssm_a", {4}},
                                                  {"blk.0.ssm_norm.weight", {5}},
                                                  {"blk.0.post_attention_norm.weight", {16}},
                                                  {"blk.0.ffn_gate_inp_shexp.weight", {1, 16}},
                                                  {"blk.3.attn_q.weight", {64, 16}}}) {
    INFO(name);
    CHECK(file.at(name).shape == shape);
  }
  // Of each head of keys, b of its two heads of values, and then a of them.
  const nn::GatedDeltaNet& net = model.gpt.h[0].delta;
  const Tensor ba = file.read("blk.0.ssm_ba.weight");
  for (const auto& [row, part] :
       std::vector<std::pair<std::int64_t, Tensor>>{{0, select(net.in_proj_b.weight, 0, 0)},
                                                    {3, select(net.in_proj_a.weight, 0, 1)},
                                                    {4, select(net.in_proj_b.weight, 0, 2)},
                                                    {7, select(net.in_proj_a.weight, 0, 3)}}) {
    INFO(row);
    CHECK(same_bits(select(ba, 0, row), part));
  }
  CHECK(same_bits(file.read("blk.0.attn_norm.weight"), model.gpt.h[0].ln_1.weight + 1.0F));
  CHECK(same_bits(file.read("blk.0.ssm_norm.weight"), net.norm.weight));
  // llama.cpp may name the blocks without attention one by one, and have a gate as a vector.
  const Tensor ids = some_ids(model);
  Edited edited(out / "model.gguf");
  edited.keys.erase("qwen3next.full_attention_interval");
  CHECK(same_bits(edited.load().gpt(ids), run::load(out / "model.gguf").gpt(ids)));
  edited.keys["qwen3next.full_attention_interval"] = std::int64_t{2};
  edited.keys["qwen3next.attention.recurrent_layers"] = Heads{1, 1, 1, 0};
  for (GgufTensor& t : edited.tensors) {
    if (!t.name.ends_with("gate_inp_shexp.weight")) continue;
    t.shape = {16}, t.values = [made = t.values] { return reshape(made(), {16}); };
  }
  CHECK(same_bits(edited.load().gpt(ids), run::load(out / "model.gguf").gpt(ids)));
  edited.keys["qwen3next.attention.recurrent_layers"] = Heads{1, 1, 1};
  CHECK_THAT(edited.complaint(), ContainsSubstring("has 3 numbers for 4 blocks"));
}

TEST_CASE("blocks with attention are each n-th or a list in GGUF", "[families][recurrent_gguf]") {
  const TempFolder out;
  const std::string interval = "qwen3next.full_attention_interval",
                    list = "qwen3next.attention.recurrent_layers";
  for (const auto& [pattern, every, recurrent] :
       std::vector<std::tuple<std::string, std::int64_t, Heads>>{{"DADA", 2, {}},
                                                                 {"DDDD", 5, {}},
                                                                 {"DDAD", 3, {}},
                                                                 {"DADD", 0, {1, 0, 1, 1}},
                                                                 {"ADDA", 0, {0, 1, 1, 0}}}) {
    INFO(pattern);
    const run::TextModel model = with_config("qwen3_next", [p = pattern](nn::DecoderConfig& c) {
      c.delta_value_size = 5, c.moe.pattern.clear(), c.mixer_pattern = p;
    });
    check_both_ways(model, "bf16");
    export_to("gguf", model, out / "model.gguf");
    const GgufFile file(out / "model.gguf");
    CHECK(file.keys().contains(interval) == (every != 0));
    CHECK(file.keys().contains(list) == (every == 0));
    if (every != 0) CHECK(std::get<std::int64_t>(file.keys().at(interval)) == every);
    if (every == 0) CHECK(std::get<Heads>(file.keys().at(list)) == recurrent);
  }
}

TEST_CASE("keys and tensors that no Qwen3-Next can have are refused",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const fs::path file = out / "model.gguf";
  export_to("gguf", next_qwen(), file);
  const auto refused = [&](const std::string& key, const GgufValue& value, const std::string& why) {
    INFO(key);
    CHECK_THAT(with_key(file, "qwen3next." + key, value), ContainsSubstring(why));
  };
  using Whole = std::int64_t;
  refused("full_attention_interval", Whole{0}, "has 1 to 4096 of them, not 0");
  refused("full_attention_interval", Whole{4097}, "has 1 to 4096 of them, not 4097");
  refused("full_attention_interval", 3.5, "'number' must be a whole number from");
  refused("full_attention_interval", 1e30, "'number' must be a whole number from");
  refused("full_attention_interval", Whole{1}, "llama.cpp wants a gated delta net in some block");
  refused("full_attention_interval", Whole{2}, "there is no tensor 'blk.1.attn_q");
  refused("attention.recurrent_layers", Heads{0, 1, 0, 0}, "there is no tensor 'blk.0.attn_q");
  refused("attention.recurrent_layers", Whole{3}, "it must be a list with a number for each block");
  refused("ssm.group_count", Whole{0}, "ssm.group_count (delta_key_heads)' must be");
  refused("ssm.group_count", Whole{3}, "delta_heads 4 are not divisible by delta_key_heads 3");
  refused("ssm.group_count", Whole{4}, "has shape");
  refused("ssm.time_step_rank", Whole{0}, "time_step_rank (delta_heads)' must be");
  refused("ssm.time_step_rank", Whole{8}, "inner_size 20 cannot be cut into the 8 heads");
  refused("ssm.state_size", Whole{10}, "delta_value_size 5: llama.cpp wants delta_key_size, 10");
  refused("ssm.inner_size", Whole{40}, "delta_value_size 10: llama.cpp wants delta_key_size, 5");
  refused("ssm.conv_kernel", Whole{0}, "ssm.conv_kernel (conv_kernel)' must be");
  refused("ssm.conv_kernel", Whole{1}, "conv_kernel 1: llama.cpp wants 2 or more");
  refused("attention.head_count_kv", Heads{0, 0, 0, 2}, "head_count_kv");
  CHECK_THAT(with_tensor(file, "blk.0.ssm_ba.weight", Tensor::ones({7, 16})),
             ContainsSubstring("'blk.0.ssm_ba.weight' must have 8 rows, not 7"));
  CHECK_THAT(with_tensor(file, "blk.0.ssm_ba.weight", Tensor::ones({8, 15})),
             ContainsSubstring("has shape"));
  CHECK_THAT(with_tensor(file, "blk.0.ssm_a", Tensor::ones({4})),
             ContainsSubstring("rates of decay are below 0"));
  const nn::DecoderConfig c = next_qwen().gpt.config;
  const auto obstacle = [&](const std::function<void(nn::DecoderConfig&)>& change) {
    nn::DecoderConfig other = c;
    change(other);
    return run::export_obstacle(other);
  };
  const std::string begin = "GGUF's qwen3next cannot express a model with ";
  CHECK(run::export_obstacle(c) == "");
  CHECK(obstacle([](auto& o) { o.mixer_pattern = "DADD"; }) == "");
  CHECK_THAT(obstacle([](auto& o) { o.conv_kernel = 1; }),
             ContainsSubstring(begin + "conv_kernel 1: llama.cpp wants 2 or more"));
  CHECK_THAT(obstacle([](auto& o) { o.delta_value_size = 6; }),
             ContainsSubstring(begin + "delta_value_size 6: llama.cpp wants delta_key_size, 5"));
  CHECK_THAT(obstacle([](auto& o) { o.moe.pattern = "ED"; }),
             ContainsSubstring(begin + "moe_pattern ED: llama.cpp wants experts in all blocks"));
}
