// A model in Hugging Face's layout and back, without their programs; tests/clients has those.

#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using data::Tokenizer;

const std::string kCharacters = "abcdefgh é中\n";

nn::DecoderConfig tiny() {
  return {.vocab_size = 12, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8};
}

nn::DecoderConfig with(const std::function<void(nn::DecoderConfig&)>& change) {
  nn::DecoderConfig config = tiny();
  change(config);
  return config;
}

nn::DecoderConfig tiny_llama(const std::function<void(nn::DecoderConfig&)>& change = {}) {
  return with([&](nn::DecoderConfig& c) {
    c.arch = nn::Architecture::llama;
    if (change) change(c);
  });
}

// Random weights, biases and norms included.
run::TextModel model_of(const nn::DecoderConfig& config,
                        const Tokenizer& tokenizer = Tokenizer::of_characters(kCharacters)) {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config);
  for (const auto& [name, t] : params.tensors()) nn::refill(t, nn::normal(0.1, 0.5), rng);
  return {params, model, tokenizer};
}

void write(const run::TextModel& model, const fs::path& out, const std::string& format = "hf",
           const StoredType& type = stored_type("f32")) {
  run::export_model(model, run::export_format(format), out, type);
}

json config_in(const fs::path& folder) {
  return json::parse(TempFolder::get(folder / "config.json"));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data<float>(), b.data<float>(), a.bytes()) == 0;
}

const Tensor kIds = Tensor::from(std::vector<std::int32_t>{1, 5, 11, 0, 3, 7}, {2, 3});

void check_comes_back(const nn::DecoderConfig& config) {
  const TempFolder folder;
  const run::TextModel ours = model_of(config);
  write(ours, folder / "out");
  const run::TextModel again = run::load(folder / "out");
  CHECK(same_bits(ours.gpt(kIds), again.gpt(kIds)));
  CHECK(again.tokenizer.kind() == "char");
  CHECK(again.tokenizer.encode(kCharacters) == ours.tokenizer.encode(kCharacters));
  CHECK(again.gpt.config.norm_eps == config.norm_eps);
}

}  // namespace

TEST_CASE("a model in Hugging Face's layout comes back with the same bits", "[hf_out]") {
  check_comes_back(tiny());
  check_comes_back(with([](auto& c) { c.tied = false; }));
  check_comes_back(with([](auto& c) { c.n_inner = 20; }));
  check_comes_back(with([](auto& c) { c.activation = nn::Activation::relu; }));
  check_comes_back(with([](auto& c) { c.activation = nn::Activation::relu2; }));
  check_comes_back(with([](auto& c) { c.activation = nn::Activation::gelu_erf; }));
  check_comes_back(with([](auto& c) { c.norm_eps = 1e-6; }));
  check_comes_back(tiny_llama());
  check_comes_back(tiny_llama([](auto& c) {
    c.tied = false;
    c.n_kv_head = 1;
    c.rope_base = 5e5;
    c.rope_scaling = nn::RopeScalingKind::llama3, c.rope_factor = 8;
    c.head_size = 6;
  }));
  check_comes_back(tiny_llama([](auto& c) {
    c.window = 2;
    c.rope_scaling = nn::RopeScalingKind::linear, c.rope_factor = 8;
  }));
  const auto yarn = [](auto& c) {
    c.rope_scaling = nn::RopeScalingKind::yarn, c.rope_factor = 8, c.rope_original_positions = 7;
  };
  check_comes_back(tiny_llama(yarn));
  check_comes_back(tiny_llama([&](auto& c) {
    yarn(c);
    c.rope_beta_fast = 3, c.rope_beta_slow = 0.5;
    c.rope_attention_factor = 0.7, c.rope_truncate = false;
  }));
  check_comes_back(tiny_llama([](auto& c) { c.bias = true; }));
  check_comes_back(tiny_llama([](auto& c) { c.bias = true, c.mlp_bias = false; }));
  check_comes_back(tiny_llama([](auto& c) { c.mlp_bias = true; }));
}

TEST_CASE("windows go out as the family that computes them, and come back", "[hf_out]") {
  const TempFolder folder;
  write(model_of(tiny_llama([](auto& c) { c.window = 2; })), folder / "out");
  CHECK(config_in(folder / "out").at("architectures") == json::array({"MistralForCausalLM"}));
  CHECK(config_in(folder / "out").at("sliding_window") == 2);
  CHECK(run::load(folder / "out").gpt.config.window == 2);
  for (const bool all_see : {false, true}) {  // a window that hides nothing is none
    const auto wide = tiny_llama([&](auto& c) {
      c.window = all_see ? 2 : c.block_size;
      if (all_see) c.window_pattern = "L";
    });
    write(model_of(wide), folder / "wide");
    CHECK(config_in(folder / "wide").at("model_type") == "llama");
    CHECK(run::load(folder / "wide").gpt.config.window == 0);
    fs::remove_all(folder / "wide");
  }
  write(model_of(tiny_llama()), folder / "plain");
  CHECK(config_in(folder / "plain").at("model_type") == "llama");
  CHECK(!config_in(folder / "plain").contains("sliding_window"));
  const run::Family& qwen2 = run::qwen2_family();
  for (const std::string pattern : {"", "LS", "SL"}) {
    nn::DecoderConfig config =
        tiny_llama([&](auto& c) { c.qkv_bias = true, c.window = 2, c.window_pattern = pattern; });
    CHECK(run::family_of(config).name == "qwen2");
    Json written = {{"model_type", "qwen2"}};
    run::set_hf_config(qwen2, config, written);
    folder.put("config.json", written.dump());
    const nn::DecoderConfig back = run::read_hf_config(folder / "").config;
    INFO(pattern);
    CHECK(back.window == 2);
    CHECK(back.window_pattern == pattern);
    CHECK(written.at("max_window_layers") == (pattern == "LS" ? 1 : 0));
  }
}

TEST_CASE("biases that a model does not have are zeros, and Q, K and V are one", "[hf_out]") {
  for (const bool separate : {false, true}) {
    for (const bool bias : {false, true}) {
      const auto config = with([&](auto& c) {
        c.bias = bias;
        c.qkv_bias = false;
        c.separate_qkv = separate;
      });
      INFO(separate << bias);
      const TempFolder folder;
      const run::TextModel ours = model_of(config);
      write(ours, folder / "out");
      const run::TextModel again = run::load(folder / "out");
      const Tensor a = ours.gpt(kIds), b = again.gpt(kIds);
      double worst = 0;
      for (std::int64_t i = 0; i < a.numel(); ++i)
        worst = std::max(worst, std::abs(a.at(i) - b.at(i)));
      CHECK(worst < 1e-5);
      const auto file = load_safetensors(folder / "out/model.safetensors");
      CHECK(file.at("transformer.h.1.attn.c_attn.weight").shape() == Shape{8, 24});
      CHECK(file.at("transformer.h.1.attn.c_attn.bias").at(5) == 0);
      CHECK((file.at("transformer.h.1.mlp.c_fc.bias").at(5) == 0) == !bias);
      CHECK(file.metadata.at("format") == "pt");
    }
  }
}

TEST_CASE("config.json says all that changes the result", "[hf_out]") {
  const TempFolder folder;
  write(model_of(tiny()), folder / "out");
  const json config = config_in(folder / "out");
  for (const auto& [key, value] :
       std::map<std::string, json>{{"architectures", json::array({"GPT2LMHeadModel"})},
                                   {"n_positions", 8},
                                   {"n_ctx", 8},
                                   {"n_inner", nullptr},
                                   {"activation_function", "gelu_new"},
                                   {"layer_norm_epsilon", 1e-5},
                                   {"tie_word_embeddings", true},
                                   {"eos_token_id", nullptr},
                                   {"dtype", "float32"}}) {
    INFO(key);
    CHECK(config.at(key) == value);
  }
  write(model_of(tiny_llama(
            [](auto& c) { c.rope_scaling = nn::RopeScalingKind::llama3, c.rope_factor = 8; })),
        folder / "llama");
  const json llama = config_in(folder / "llama");
  CHECK(llama.at("rope_parameters").at("rope_type") == "llama3");
  CHECK(llama.at("rope_parameters").at("factor") == 8);
  CHECK(llama.at("num_key_value_heads") == 2);
}

TEST_CASE("the end of a text is the one of the tokenizer", "[hf_out]") {
  const TempFolder folder;
  const Tokenizer bpe = Tokenizer::train_bpe("the cat the cat the mat", 260);
  write(model_of(with([](auto& c) { c.vocab_size = 260; }), bpe), folder / "out");
  CHECK(config_in(folder / "out").at("eos_token_id") == 259);
  const json file = json::parse(TempFolder::get(folder / "out/tokenizer_config.json"));
  CHECK(file.at("eos_token") == "<|endoftext|>");
  CHECK(file.at("model_max_length") == 8);
  CHECK(run::load(folder / "out").tokenizer.end_of_text() == 259);
}

TEST_CASE("halves are half the size, and a weight that is too large for f16 is refused",
          "[hf_out]") {
  const TempFolder folder;
  const run::TextModel model = model_of(tiny());
  for (const std::string name : {"f16", "bf16"}) {
    write(model, folder / name, "hf", stored_type(name));
    const auto file = open_safetensors(folder / name / "model.safetensors");
    CHECK(file->at("transformer.wte.weight").type == &stored_type(name));
    const Tensor ours = model.gpt.wte.weight, theirs = file->read("transformer.wte.weight");
    for (std::int64_t i = 0; i < ours.numel(); ++i) {
      CHECK(theirs.at(i) == Approx(ours.at(i)).epsilon(name == "f16" ? 5e-4 : 4e-3));
    }
  }
  Tensor weight = model.gpt.wte.weight;
  weight.mutable_data<float>()[3] = 7e4F;
  CHECK_THROWS_WITH(write(model, folder / "large", "hf", stored_type("f16")),
                    ContainsSubstring("'wte.weight' has the value 70000"));
  CHECK(!fs::exists(folder / "large"));
}

TEST_CASE("what GPT-2 cannot express is refused by name, and nothing is written", "[hf_out]") {
  const std::vector<std::pair<std::string, nn::DecoderConfig>> cases = {
      {"GPT2LMHeadModel cannot express a model with positions rotary",
       with([](auto& c) { c.positions = nn::Positions::rotary; })},
      {"norm unbiased", with([](auto& c) { c.norm = nn::NormKind::unbiased; })},
      {"residual_scalars true", with([](auto& c) { c.residual_scalars = true; })},
      {"ngrams 2", with([](auto& c) { c.ngrams = 2; })},
      {"residual_scalars true", tiny_llama([](auto& c) { c.residual_scalars = true; })},
      {"activation relu2", tiny_llama([](auto& c) { c.activation = nn::Activation::relu2; })},
      {"reads its tokenizer as Qwen2's", tiny_llama([](auto& c) { c.qkv_bias = true; })},
      {"reads its tokenizer as Qwen2's", tiny_llama([](auto& c) { c.qk_norm = true; })},
      {"transformers needs n_embd 20 to be divisible by n_head 3",
       tiny_llama([](auto& c) { c.n_embd = 20, c.n_head = 3, c.head_size = 8; })},
      {"qkv_bias true", tiny_llama([](auto& c) { c.qk_norm = true, c.qkv_bias = true; })}};
  const TempFolder folder;
  for (const auto& [message, config] : cases) {
    INFO(message);
    CHECK_THROWS_WITH(write(model_of(config), folder / "out"), ContainsSubstring(message));
    CHECK(folder.entries() == 0);
  }
  CHECK(run::export_obstacle(cases[8].second) == "as hf: " + cases[8].first);
  CHECK_THAT(run::export_obstacle(cases[3].second),
             ContainsSubstring("as hf: GPT2LMHeadModel cannot express a model with ngrams 2") &&
                 ContainsSubstring("; as gguf: GGUF's gpt2 cannot express a model with ngrams 2"));
  CHECK_THROWS_WITH(write(model_of(tiny()), folder / "out", "hf", stored_type("q8_0")),
                    ContainsSubstring("cannot store q8_0: choose f32, f16, bf16"));
}

TEST_CASE("models of Hugging Face's go out as they came in", "[hf_out]") {
  for (const std::string name : {"hf_gpt2", "hf_llama"}) {
    INFO(name);
    const TempFolder folder;
    write(run::load(golden_file(name)), folder / "out");
    const auto theirs = load_safetensors(golden_file(name) / "model.safetensors");
    const auto ours = load_safetensors(folder / "out/model.safetensors");
    CHECK(ours.tensors.size() == theirs.tensors.size());
    for (const auto& [tensor, t] : theirs.tensors) {
      INFO(tensor);
      CHECK(same_bits(t, ours.at(tensor)));
    }
    CHECK(TempFolder::get(folder / "out/tokenizer.json") ==
          TempFolder::get(golden_file(name) / "tokenizer.json"));
    CHECK(config_in(folder / "out").at("vocab_size") == 404);
  }
}

TEST_CASE("a generation config without ends passes, and config.json has them", "[hf_out]") {
  const TempFolder folder;
  fs::copy(golden_file("hf_llama"), folder / "in");
  json config = config_in(folder / "in");
  config["eos_token_id"] = {400, 0};
  folder.put("in/config.json", config.dump());
  const std::string generation = "{\"temperature\":  0.5}";
  folder.put("in/generation_config.json", generation);
  run::save_model(folder / "kept", run::load(folder / "in"));
  write(run::load(folder / "kept"), folder / "out");
  CHECK(TempFolder::get(folder / "out/generation_config.json") == generation);
  CHECK(config_in(folder / "out").at("eos_token_id") == json({400, 0}));
  CHECK(run::load(folder / "out").tokenizer.ends() == std::vector<data::Token>{400, 0});
}

TEST_CASE("texts begin with no token where no file names one", "[hf_out]") {
  const TempFolder folder;
  const std::string tokenizer = TempFolder::get(golden_file("hf_llama") / "tokenizer.json");
  write(model_of(with([](auto& c) { c.vocab_size = 401; }), Tokenizer::of_hf(tokenizer)),
        folder / "out");
  CHECK(config_in(folder / "out").at("bos_token_id").is_null());
  CHECK(config_in(folder / "out").at("eos_token_id") == 0);
  const json file = json::parse(TempFolder::get(folder / "out/tokenizer_config.json"));
  CHECK_FALSE(file.contains("bos_token"));
  CHECK(file.at("eos_token") == "<|endoftext|>");
}

TEST_CASE("the token before texts that config.json alone names goes out as it came in",
          "[hf_out]") {
  const TempFolder folder;
  fs::copy(golden_file("hf_llama"), folder / "in");
  fs::remove(folder / "in/generation_config.json");
  fs::remove(folder / "in/tokenizer_config.json");
  json config = config_in(folder / "in");
  config["bos_token_id"] = 7;
  config["eos_token_id"] = 2;
  folder.put("in/config.json", config.dump());
  folder.put("in/generation_config.json", R"({"eos_token_id": 2})");
  folder.put("in/tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  const run::TextModel model = run::load(folder / "in");
  write(model, folder / "out");
  CHECK(config_in(folder / "out").at("bos_token_id") == 7);
  CHECK(config_in(folder / "out").at("eos_token_id") == 2);
  // A run keeps it.
  run::save_model(folder / "kept", model);
  write(run::load(folder / "kept"), folder / "again");
  CHECK(config_in(folder / "again").at("bos_token_id") == 7);
  // A file that names it goes first, and no id that is no token is written.
  folder.put("in/generation_config.json", R"({"eos_token_id": 2, "bos_token_id": 5})");
  write(run::load(folder / "in"), folder / "other");
  CHECK(config_in(folder / "other").at("bos_token_id") == 5);
  config["bos_token_id"] = 1000;
  folder.put("in/config.json", config.dump());
  folder.put("in/generation_config.json", R"({"eos_token_id": 2})");
  write(run::load(folder / "in"), folder / "none");
  CHECK(config_in(folder / "none").at("bos_token_id").is_null());
}
