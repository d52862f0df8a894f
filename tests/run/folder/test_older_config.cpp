#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

// The model that the config.json of a run of 0.2 describes.
nn::DecoderConfig model_of(const std::string& changed) {
  const TempFolder folder;
  const std::string file = folder.put(
      "config.json",
      R"({"format":"tapegrad-gpt","version":2,"model":{"vocab_size":24,"n_layer":1,"n_head":2,)"
      R"("n_embd":16,"block_size":16,"dropout":0.0,"ff_dropout":false,"attn_out_dropout":true,)"
      R"("n_inner":null,"bias":null,"qkv_bias":null,"tied":false,"separate_qkv":false,)"
      R"("activation":"gelu",)" +
          changed + "}}");
  nn::DecoderConfig config;
  run::read_section(file, run::read_config(file, "tapegrad-gpt"), "model", config);
  config.validate();
  return config;
}

}  // namespace

TEST_CASE("a run of 0.2 has the model that it had", "[older_config]") {
  const nn::DecoderConfig plain = model_of(R"("rope":false,"unbiased_norm":false)");
  CHECK(plain.position_kind() == nn::Positions::learned);
  CHECK(plain.norm_kind() == nn::NormKind::layer);
  CHECK(plain.activation_kind() == nn::Activation::gelu);
  CHECK(!plain.with_gate());
  CHECK(!plain.projects_apart());

  const nn::DecoderConfig changed =
      model_of(R"("rope":true,"unbiased_norm":true,"arch":"gpt2","rope_factor":1.0)");
  CHECK(changed.rotary());
  CHECK(changed.norm_kind() == nn::NormKind::unbiased);
  CHECK(!changed.scaling());
}

TEST_CASE("a Llama of 0.2 has Llama's parts, though its file has GPT-2's", "[older_config]") {
  const nn::DecoderConfig llama = model_of(
      R"("rope":false,"unbiased_norm":false,"arch":"llama","n_kv_head":1,"rope_factor":8.0)");
  CHECK(llama.rotary());
  CHECK(llama.norm_kind() == nn::NormKind::rms);
  CHECK(llama.activation_kind() == nn::Activation::silu);
  CHECK(llama.with_gate());
  CHECK(llama.projects_apart());
  CHECK(llama.kv_heads() == 1);
  REQUIRE(llama.scaling());
  CHECK(llama.scaling()->factor == 8);
}

TEST_CASE("a run of 0.2 was trained on sequences as long as its model sees", "[older_config]") {
  const TempFolder folder;
  const auto length_in = [&](const std::string& rest) {
    const std::string file = folder.put("config.json", R"({"version":2,"format":)" + rest + "}");
    const run::Config config = run::read_config(file, "");
    const run::Value* const length = config.at("data", file).find("block_size");
    return length == nullptr ? "none" : run::value_text(*length);
  };
  const std::string gpt = R"("tapegrad-gpt","model":{"block_size":16})";
  CHECK(length_in(gpt + R"(,"data":{})") == "16");
  CHECK(length_in(gpt + R"(,"data":{"block_size":8})") == "8");
  CHECK(length_in(R"("tapegrad-seq2seq","model":{"block_size":16},"data":{})") == "none");
}

TEST_CASE("a switch of 0.2 that is no switch is refused", "[older_config]") {
  CHECK_THROWS_WITH(model_of(R"("rope":false,"unbiased_norm":false,"rope_scalling":1)"),
                    ContainsSubstring("rope_scalling"));
}

TEST_CASE("a switch of 0.2 must be true or false", "[older_config]") {
  CHECK_THROWS_WITH(model_of(R"("rope":"yes","unbiased_norm":false)"),
                    ContainsSubstring("config.json: 'rope' must be true or false"));
  CHECK_THROWS_WITH(model_of(R"("rope":true,"unbiased_norm":7)"),
                    ContainsSubstring("'unbiased_norm' must be true or false"));
}

TEST_CASE("options of rotary positions said nothing in a model of 0.2 without them",
          "[older_config]") {
  const nn::DecoderConfig model =
      model_of(R"("rope":false,"unbiased_norm":false,"rope_base":500000.0,"rope_factor":8.0)");
  CHECK(model.rope_base == nn::DecoderConfig().rope_base);
  CHECK_FALSE(model.scaling());
  CHECK(model_of(R"("rope":true,"unbiased_norm":false,"rope_base":500000.0)").rope_base == 5e5);
  const nn::DecoderConfig unscaled =
      model_of(R"("rope":true,"unbiased_norm":false,"rope_factor":1.0,"rope_low_freq_factor":2.0)");
  CHECK(unscaled.rope_low_freq_factor == nn::DecoderConfig().rope_low_freq_factor);
  CHECK_THROWS_WITH(model_of(R"("rope":false,"unbiased_norm":false,"rope_base":"abc")"),
                    ContainsSubstring("'rope_base' must be a number"));
}

TEST_CASE("a run of 0.2 had one folder of tokens at most", "[older_config]") {
  const TempFolder folder;
  const auto data_in = [&](const std::string& data) {
    const std::string file = folder.put(
        "config.json",
        R"({"version":2,"format":"tapegrad-gpt","model":{},"data":{"data":)" + data + "}}");
    const run::Config config = run::read_config(file, "");
    return run::value_text(*config.at("data", file).find("data"));
  };
  CHECK(data_in(R"("wiki/tokens")") == data_in(R"(["wiki/tokens"])"));
  CHECK(data_in(R"("")") == data_in("[]"));
}
