// Families with convolutions and gated delta nets in place of attention: how files hold them.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/internal/hf_names.h"
#include "tapegrad/tests/run/models/families/golden_family.h"
#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const run::Family& model_family(std::string_view name) {
  return *std::ranges::find(run::families(), name, &run::Family::name);
}

}  // namespace

TEST_CASE("an LFM2 in GGUF has heads of keys in blocks with attention alone", "[families]") {
  using Heads = std::vector<std::int64_t>;
  const GoldenFamily golden("lfm2");
  const fs::path file = golden.folder / "model.gguf";
  export_to("gguf", golden.load(), file, "f16");
  const GgufFile written(file);
  const std::string key = "lfm2.attention.head_count_kv", kernel = "blk.0.shortconv.conv.weight";
  CHECK(std::get<Heads>(written.keys().at(key)) == Heads{0, 2, 0});
  CHECK(written.at(kernel).shape == Shape{16, 3});
  CHECK(written.at(kernel).type->name == "f32");
  CHECK(written.at("blk.0.shortconv.in_proj.weight").type->name == "f16");
  Edited edited(file);
  CHECK(edited.complaint() == "");
  edited.keys[key] = Heads{0, 2};
  CHECK_THAT(edited.complaint(), ContainsSubstring("has 2 numbers for 3 blocks"));
  edited.keys[key] = Heads{0, 2, 1};
  CHECK_THAT(edited.complaint(), ContainsSubstring("2 and 1 heads of keys are not supported"));
  edited.keys[key] = Heads{2, 0, 2};
  CHECK_THAT(edited.complaint(), ContainsSubstring("there is no tensor"));
  edited.keys[key] = Heads{0, 2, 0};
  edited.keys["lfm2.shortconv.l_cache"] = std::int64_t{1};
  CHECK_THAT(edited.complaint(), ContainsSubstring("conv_kernel 1: llama.cpp wants 2 or more"));
  edited.keys["lfm2.shortconv.l_cache"] = std::int64_t{4};
  CHECK_THAT(edited.complaint(), ContainsSubstring("layers.0.conv.conv.weight"));
  nn::DecoderConfig short_kernel = golden.load().gpt.config;
  short_kernel.conv_kernel = 1;
  CHECK_THAT(run::export_obstacle(short_kernel),
             ContainsSubstring("GGUF's lfm2 cannot express a model with conv_kernel 1: llama.cpp"));
}

TEST_CASE("projections of a Qwen3-Next's gated delta nets are rows of one matrix", "[families]") {
  const GoldenFamily golden("qwen3_next");
  const run::TextModel model = golden.load();
  CHECK(model.gpt.config.with_defaults().mixer_pattern == "DDDA");
  CHECK(model.gpt.h[0].delta.in_proj_z.weight.shape() == Shape{24, 16});
  export_to("hf", model, golden.folder / "hf", "bf16");
  const auto written = load_safetensors((golden.folder / "hf/model.safetensors").string()).tensors,
             theirs = load_safetensors((golden.folder / "model.safetensors").string()).tensors;
  CHECK(written.size() == theirs.size());
  for (const std::string name : {"in_proj_qkvz", "in_proj_ba"}) {
    const std::string whole = "model.layers.1.linear_attn." + name + ".weight";
    CHECK(same_bits(written.at(whole), theirs.at(whole)));
  }
  const auto refused = [](const std::string& key, const json& value, const std::string& why) {
    const GoldenFamily own("qwen3_next");
    own.configure(key, value);
    CHECK_THROWS_WITH(own.load(), ContainsSubstring(why));
  };
  refused("linear_value_head_dim", 5, "must be a matrix of 60 rows, not (68, 16)");
  refused("linear_num_key_heads", 3, "delta_heads 4 are not divisible by delta_key_heads 3");
  refused("layer_types", json::array({"conv", "full_attention", "conv", "conv"}),
          "layer_types: 'conv' is not supported, only linear_attention and full_attention");
  const GoldenFamily interval("qwen3_next");
  interval.configure("layer_types", nullptr);
  CHECK(interval.load().gpt.config.mixer_pattern == "DDDA");
  // Adapters of a part of a matrix are not written.
  CHECK_THROWS_WITH(
      run::hf_name(model_family("qwen3_next").hf, "layers.0.linear_attn.in_proj_z.weight"),
      ContainsSubstring("is a part of layers.#.linear_attn.in_proj_qkvz.weight in files of"));
}

TEST_CASE("the text model of a Qwen 3.5 that sees pictures is opened", "[families]") {
  const GoldenFamily golden("qwen3_5_text");
  json config = json::parse(TempFolder::get(golden.folder / "config.json"));
  config.erase("architectures");
  json whole = {{"model_type", "qwen3_5"},
                {"architectures", {"Qwen3_5ForConditionalGeneration"}},
                {"tie_word_embeddings", true},
                {"vision_config", {{"hidden_size", 8}}},
                {"text_config", config}};
  whole["text_config"].erase("tie_word_embeddings");
  golden.folder.put("config.json", whole.dump());
  const fs::path file = golden.folder / "model.safetensors";
  std::map<std::string, Tensor> tensors = {
      {"model.visual.patch_embed.proj.weight", Tensor::ones({2, 3})},
      {"mtp.fc.weight", Tensor::ones({2, 3})}};
  for (const auto& [name, t] : load_safetensors(file.string()).tensors) {
    tensors.emplace("model.language_" + name, t);
  }
  save_safetensors(file.string(), {tensors.begin(), tensors.end()});
  const run::TextModel model = golden.load();
  check_computes(model, golden.expected);
  export_to("hf", model, golden.folder / "out");
  CHECK(json::parse(TempFolder::get(golden.folder / "out/config.json"))["model_type"] ==
        "qwen3_5_text");
  whole["architectures"] = {"Qwen3_5ForCausalLM"};
  golden.folder.put("config.json", whole.dump());
  CHECK_THROWS_WITH(golden.load(),
                    ContainsSubstring("is not supported, only Qwen3_5ForConditionalGeneration"));
}

TEST_CASE("an LFM2-MoE is a number of dense blocks, and others with a bias that chooses",
          "[families]") {
  const GoldenFamily golden("lfm2_moe");
  CHECK(golden.load().gpt.config.moe.pattern == "DEE");
  const Tensor& ids = golden.expected.at("input_ids");
  run::TextModel unbiased = golden.load();
  for (const nn::Block& block : unbiased.gpt.h) {
    if (Tensor bias = block.experts.selection_bias; bias.defined()) bias *= 0;
  }
  CHECK(difference(unbiased.gpt(ids), golden.load().gpt(ids), 0.1, 0.1) != "");
  export_to("hf", golden.load(), golden.folder / "hf", "bf16");
  const auto written = load_safetensors((golden.folder / "hf/model.safetensors").string()).tensors;
  const std::string mlp = "model.layers.1.feed_forward.";
  CHECK(written.at(mlp + "expert_bias").dtype() == DType::f32);
  CHECK(written.at(mlp + "experts.4.w1.weight").shape() == Shape{10, 16});
  const auto refused = [&](const std::string& key, const json& value, const std::string& why) {
    const GoldenFamily own("lfm2_moe");
    own.configure(key, value);
    CHECK_THROWS_WITH(own.load(), ContainsSubstring(why));
  };
  refused("num_dense_layers", -1, "num_dense_layers -1 must be 0 or more");
  refused("num_dense_layers", 2, "there is no tensor 'layers.1.mlp.gate_proj.weight'");
  refused("use_expert_bias", false, "layers.1.mlp.expert_bias");
  refused("num_experts", 4, "has shape (5, 16), but the model needs (4, 16)");
  const run::TextModel other = changed(golden, [](auto& c) { c.moe.scale = 1; });

  const fs::path file = golden.folder / "model.gguf";
  export_to("gguf", other, file, "f16");
  const GgufFile gguf(file);
  CHECK(std::get<std::string>(gguf.keys().at("general.architecture")) == "lfm2moe");
  for (const auto& [key, value] :
       {std::pair("leading_dense_block_count", 1), std::pair("expert_gating_func", 2),
        std::pair("expert_feed_forward_length", 10), std::pair("feed_forward_length", 24)}) {
    INFO(key);
    CHECK(std::get<std::int64_t>(gguf.keys().at(std::string("lfm2moe.") + key)) == value);
  }
  CHECK(gguf.at("blk.2.exp_probs_b.bias").type->name == "f32");
  CHECK((gguf.contains("blk.0.ffn_up.weight") && !gguf.contains("blk.0.ffn_gate_inp.weight")));
  export_to("gguf", other, file);
  CHECK(difference(run::load(file).gpt(ids), other.gpt(ids), 0, 0) == "");
  Edited edited(file);
  CHECK(edited.complaint() == "");
  edited.keys["lfm2moe.leading_dense_block_count"] = std::int64_t{0};
  CHECK_THAT(edited.complaint(), ContainsSubstring("there is no tensor"));
  edited.keys.erase("lfm2moe.leading_dense_block_count");
  CHECK_THAT(edited.complaint(), ContainsSubstring("there is no 'lfm2moe.leading_dense"));
  edited.keys["lfm2moe.leading_dense_block_count"] = std::int64_t{1};
  edited.keys["lfm2moe.expert_gating_func"] = std::int64_t{1};
  CHECK_THAT(edited.complaint(), ContainsSubstring("expert_gating_func 1 is not supported"));
}

TEST_CASE("what a Granite 4's config.json says of Mamba-2 and of widths fits, or is refused",
          "[families]") {
  const GoldenFamily golden("granitemoehybrid"), dense("granitemoehybrid_dense");
  const nn::DecoderConfig c = golden.load().gpt.config, d = dense.load().gpt.config;
  CHECK((c.mixer_pattern == "MA" && d.mixer_pattern == "AM"));
  CHECK((c.mamba == nn::MambaOptions{.heads = 4, .head_size = 8, .state_size = 6, .groups = 2}));
  CHECK((c.moe.shared_inner == 10 && c.expert_inner() == 24 && c.conv_bias));
  CHECK((!d.moe.exist() && d.inner() == 24 && d.conv_kernel == 3 && !d.conv_bias));
  CHECK(d.mamba.head_size == 12);  // three times the width, of four heads
  CHECK((!c.rotary() && d.rotary()));
  const auto refused = [](const std::string& key, const json& value, const std::string& why) {
    const GoldenFamily own("granitemoehybrid");
    own.configure(key, value);
    CHECK_THROWS_WITH(own.load(), ContainsSubstring(why));
  };
  refused("mamba_d_head", 7, "mamba_d_head 7 must be 8: mamba_expand 2 times hidden_size 16");
  refused("mamba_d_head", nullptr, "there is no 'mamba_d_head'");
  refused("mamba_n_heads", 5, "mamba_n_heads 5 do not divide 32 channels");
  refused("mamba_n_heads", 0, "mamba_n_heads");
  refused("mamba_expand", 0, "mamba_expand 0 must be 1 to");
  refused("mamba_n_groups", 3, "mamba_heads 4 are not divisible by mamba_groups 3");
  refused("mamba_d_state", 7, "layers.0.mamba.conv1d");
  refused("mamba_proj_bias", true, "mamba_proj_bias true is not supported, only false");
  refused("time_step_limit", {0.0, 0.5}, "time_step_limit [0.0,0.5] is not supported");
  refused("layer_types", {"mamba", "full_attention", "mamba"},
          "layer_types: 'full_attention' is not supported, only mamba and attention");
  refused("position_embedding_type", "alibi", "position_embedding_type 'alibi' is not supported");
  refused("shared_intermediate_size", 0, "shared_intermediate_size 0 must be 1 to");
  refused("num_local_experts", 0, "layers.0.");
  const GoldenFamily other("granitemoehybrid");
  other.configure("mamba_d_head", "auto");
  other.configure("position_embedding_type", "nope");
  other.configure("rope_parameters", {{"rope_theta", 5000.0}, {"rope_type", "default"}});
  check_computes(other.load(), other.expected);
  // The hub's dense models have 0 experts of a token, too.
  dense.configure("num_experts_per_tok", 0);
  check_computes(dense.load(), dense.expected);
  CHECK(dense.load().gpt.config == d);
  refused("num_experts_per_tok", 0, "num_experts_per_tok (moe_top_k)' must be from 1 to");
  // What transformers has no class for.
  nn::DecoderConfig odd = c;
  odd.mamba.heads = 3, odd.mamba.groups = 1;
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("to be a multiple of n_embd 16"));
  odd = c, odd.moe.shared_inner = 0;
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("moe_shared_inner 0, only with 1024"));
  odd = c, odd.mixer_pattern = "MD";
  CHECK_THAT(run::export_obstacle(odd), ContainsSubstring("mixer_pattern MD"));
}
