// Qwen 3.5 in GGUF: heads of values that stand in turns, and what is refused.

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/run/models/families/recurrent_models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

run::TextModel qwen_3_5(int heads, int key_heads, std::int64_t size) {
  return with_config("qwen3_5_text", [&](nn::DecoderConfig& c) {
    c.delta_heads = heads, c.delta_key_heads = key_heads;
    c.delta_key_size = c.delta_value_size = size;
  });
}

}  // namespace

TEST_CASE("a Qwen 3.5 goes to GGUF and back with its logits", "[families][recurrent_gguf]") {
  check_both_ways(qwen_3_5(4, 2, 5), "bf16");
  check_both_ways(qwen_3_5(6, 2, 5), "bf16");
  check_both_ways(qwen_3_5(2, 2, 5), "bf16");
}

TEST_CASE("heads of values of a Qwen 3.5 stand in turns in GGUF", "[families][recurrent_gguf]") {
  const TempFolder out;
  const run::TextModel model = qwen_3_5(6, 2, 4);
  export_to("gguf", model, out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  const nn::GatedDeltaNet& net = model.gpt.h[0].delta;
  // The three heads of values of the first head of keys, and of the second: 0 1 2 and 3 4 5.
  const std::vector<std::int64_t> heads = {0, 3, 1, 4, 2, 5};
  const auto z = file.read("blk.0.attn_gate.weight"), qkv = file.read("blk.0.attn_qkv.weight"),
             beta = file.read("blk.0.ssm_beta.weight"), alpha = file.read("blk.0.ssm_alpha.weight"),
             dt = file.read("blk.0.ssm_dt.bias"), rates = file.read("blk.0.ssm_a"),
             kernel = file.read("blk.0.ssm_conv1d.weight"), o = file.read("blk.0.ssm_out.weight");
  const auto row = [](const Tensor& t, std::int64_t i) { return select(t, 0, i); };
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::int64_t head = heads[static_cast<std::size_t>(i)];
    INFO(i);
    CHECK(same_bits(row(beta, i), row(net.in_proj_b.weight, head)));
    CHECK(same_bits(row(alpha, i), row(net.in_proj_a.weight, head)));
    CHECK(same_bits(row(dt, i), row(net.dt_bias, head)));
    CHECK(same_bits(row(rates, i), row(-exp(net.A_log), head)));
    CHECK(same_bits(row(z, 4 * i + 3), row(net.in_proj_z.weight, 4 * head + 3)));
    // Behind q and k, two heads of four channels each.
    CHECK(same_bits(row(qkv, 16 + 4 * i + 1), row(net.in_proj_qkv.weight, 16 + 4 * head + 1)));
    CHECK(same_bits(row(kernel, 16 + 4 * i + 2), select(row(net.weight, 16 + 4 * head + 2), 0, 0)));
    CHECK(same_bits(select(o, 1, 4 * i + 2), select(net.out_proj.weight, 1, 4 * head + 2)));
  }
  CHECK(same_bits(row(qkv, 15), row(net.in_proj_qkv.weight, 15)));
  CHECK(std::get<Heads>(file.keys().at("qwen35.rope.dimension_sections")) == Heads{1, 0, 0, 0});
  // One head of values for each of keys: nothing moves.
  export_to("gguf", qwen_3_5(2, 2, 4), out / "plain.gguf");
  CHECK(run::open_gguf(out / "plain.gguf").weights->contains("layers.0.linear_attn.A_log"));
}

TEST_CASE("columns of a Qwen 3.5 move as they are stored where heads are whole blocks",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  const std::string ours = "layers.0.linear_attn.out_proj.weight";
  for (const std::int64_t size : {32, 16}) {
    INFO(size);
    const run::TextModel model = qwen_3_5(4, 2, size);
    export_to("gguf", model, out / "model.gguf", "q8_0");
    const auto weights = run::open_gguf(out / "model.gguf").weights;
    CHECK((weights->at(ours).type != nullptr) == (size == 32));
    const Tensor read = weights->read(ours);
    CHECK(difference(read, model.gpt.h[0].delta.out_proj.weight, 0.02, 0.02) == "");
    if (size == 32) CHECK(same_bits(weights->stored(ours).widened(DType::f32), read));
  }
}

TEST_CASE("a Qwen 3.5's tokenizer has a name in GGUF, and keeps marks with their letters",
          "[families][recurrent_gguf]") {
  const TempFolder out;
  json tokenizer = qwen2_file();
  tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
      R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const data::Tokenizer own = data::Tokenizer::of_hf(tokenizer.dump());
  export_to("gguf", model_of(own, tiny(own)), out / "model.gguf");
  CHECK(std::get<std::string>(GgufFile(out / "model.gguf").keys().at("tokenizer.ggml.pre")) ==
        "qwen35");
  const data::Tokenizer back = run::load(out / "model.gguf").tokenizer;
  const std::string text = "हिन्दी में x\xCC\x81y, It's 12 cafés!\n";
  CHECK(back.encode(text, true) == own.encode(text, true));
}

TEST_CASE("keys that no Qwen 3.5 can have are refused", "[families][recurrent_gguf]") {
  const TempFolder out;
  const fs::path file = out / "model.gguf";
  export_to("gguf", qwen_3_5(4, 2, 5), file);
  const auto refused = [&](const std::string& key, const GgufValue& value, const std::string& why) {
    INFO(key);
    CHECK_THAT(with_key(file, "qwen35." + key, value), ContainsSubstring(why));
  };
  using Whole = std::int64_t;
  CHECK(Edited(file).complaint() == "");
  refused("nextn_predict_layers", Whole{1}, "nextn_predict_layers 1 is not supported, only 0");
  refused("rope.dimension_sections", Heads{0, 0, 0, 4}, "leaves some of the 1 pairs of channels");
  refused("rope.dimension_sections", Heads{1}, "has 1 numbers, not 4");
  refused("rope.dimension_sections", Whole{1}, "of another type than expected");
  CHECK(with_key(file, "qwen35.rope.dimension_sections", Heads{11, 11, 10, 0}) == "");
  refused("ssm.group_count", Whole{1}, "has shape");
  refused("ssm.time_step_rank", Whole{2}, "llama.cpp wants delta_key_size, 5");
  refused("full_attention_interval", Whole{3}, "there is no tensor");
  CHECK_THAT(with_tensor(file, "blk.0.ssm_out.weight", Tensor::ones({16, 19})),
             ContainsSubstring("'blk.0.ssm_out.weight' must have 20 columns, not 19"));
  CHECK_THAT(with_tensor(file, "blk.0.attn_gate.weight", Tensor::ones({21, 16})),
             ContainsSubstring("'blk.0.attn_gate.weight' must have 20 rows, not 21"));
}
