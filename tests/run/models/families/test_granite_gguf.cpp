// Granite 3, Granite-MoE, and Granite 4 without Mamba-2 in GGUF: heads, positions and gates.

#include <cstdint>
#include <string>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/run/models/families/recurrent_models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a Granite 4 without Mamba-2 goes to GGUF as a Granite, whose gate is apart",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = with_config("granitemoehybrid_dense", [](nn::DecoderConfig& c) {
    c.mixer_pattern.clear(), c.mamba = {}, c.conv_bias = false;
    c.conv_kernel = nn::DecoderConfig().conv_kernel;
  });
  CHECK(model.gpt.config.joined_gate);
  export_to("gguf", model, out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  CHECK(std::get<std::string>(file.keys().at("general.architecture")) == "granite");
  CHECK(file.at("blk.0.ffn_gate.weight").shape == Shape{24, 16});
  const run::TextModel back = run::load(out / "model.gguf");
  CHECK_FALSE(back.gpt.config.joined_gate);
  const Tensor ids = some_ids(model);
  CHECK(difference(back.gpt(ids), model.gpt(ids), 1e-6, 1e-5) == "");
  const Tensor both = model.gpt.h[1].mlp.c_fc.weight;
  CHECK(same_bits(file.read("blk.1.ffn_up.weight"), split(both, {24, 24}, 0)[1]));
}

TEST_CASE("llama.cpp's files of a Granite 4 without Mamba-2 are read",
          "[families][recurrent_gguf]") {
  using Whole = std::int64_t;
  const TempFolder out;
  for (const std::string name : {"granite", "granitemoe"}) {
    INFO(name);
    const run::TextModel model = with_config(name, [](nn::DecoderConfig&) {});
    const Tensor ids = some_ids(model), logits = model.gpt(ids);
    export_to("gguf", model, out / "model.gguf");
    // Its converter writes sizes of Mamba-2, which no block has, and heads of keys block by block.
    Edited edited(out / "model.gguf");
    const Whole heads = model.gpt.config.kv_heads();
    const std::string heads_key = name + ".attention.head_count_kv";
    edited.keys[heads_key] = Heads{heads, heads};
    for (const std::string size :
         {"conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank"}) {
      edited.keys[name + ".ssm." + size] = Whole{7};
    }
    const bool experts = name == "granitemoe";
    const std::string shared = name + ".expert_shared_feed_forward_length";
    edited.keys[shared] = Whole{experts ? 0 : 24};
    CHECK(same_bits(edited.load().gpt(ids), logits));
    if (experts) {
      edited.keys[shared] = Whole{10};
      CHECK_THAT(edited.complaint(), ContainsSubstring("_length 10 is not supported, only 0"));
    }
    edited.keys.erase(shared);
    edited.keys[heads_key] = Heads{heads, 0};
    CHECK_THAT(edited.complaint(), ContainsSubstring("blocks without heads of keys are not"));
    edited.keys[heads_key] = Heads{0, 0};
    CHECK_THAT(edited.complaint(), ContainsSubstring("blocks without heads of keys are not"));
    edited.keys[heads_key] = Heads{heads};
    CHECK_THAT(edited.complaint(), ContainsSubstring("has 1 numbers for 2 blocks"));
  }
}

TEST_CASE("a Granite says in GGUF if its attention has positions", "[families][recurrent_gguf]") {
  const TempFolder out;
  const std::string key = ".rope.scaling.finetuned";
  for (const std::string name : {"granite", "granitemoe"}) {
    INFO(name);
    const run::TextModel model = with_config(name, [](nn::DecoderConfig&) {});
    const Tensor ids = some_ids(model), logits = model.gpt(ids);
    export_to("gguf", model, out / "model.gguf");
    Edited edited(out / "model.gguf");
    CHECK(std::get<bool>(edited.keys.at(name + key)));
    edited.keys.erase(name + key);
    CHECK(same_bits(edited.load().gpt(ids), logits));
    edited.keys[name + key] = false;
    const run::TextModel without = edited.load();
    CHECK_FALSE(without.gpt.config.rotary());
    CHECK(difference(without.gpt(ids), logits, 1e-3, 1e-3) != "");
    export_to("gguf", without, out / "without.gguf");
    const GgufFile written(out / "without.gguf");
    CHECK(std::get<std::string>(written.keys().at("general.architecture")) == name);
    CHECK_FALSE(std::get<bool>(written.keys().at(name + key)));
    CHECK(same_bits(run::load(out / "without.gguf").gpt(ids), without.gpt(ids)));
  }
  nn::DecoderConfig learned = with_config("granite", [](nn::DecoderConfig&) {}).gpt.config;
  learned.positions = nn::Positions::learned, learned.rope_base = nn::DecoderConfig().rope_base;
  CHECK_THAT(run::export_obstacle(learned), ContainsSubstring("GGUF's granite cannot express"));
}
