#include <nlohmann/json.hpp>

#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/hf/hf_folder.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluate.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, Tensor>;

fs::path golden_folder(const std::string& name = "hf_gpt2") { return golden_file(name); }
const std::vector<std::string> kGoldenFolders = {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"};

// A copy of a golden folder that a test may change.
struct Folder {
  TempFolder temp;
  Tensors tensors;
  explicit Folder(const std::string& golden = "hf_gpt2")
      : tensors(load_safetensors((golden_folder(golden) / "model.safetensors").string()).tensors) {
    for (const char* name : {"config.json", "tokenizer.json"}) {
      fs::copy_file(golden_folder(golden) / name, temp / name);
    }
  }
  void write(const Tensors& to, const std::string& name = "model.safetensors") const {
    NamedTensors named(to.begin(), to.end());
    save_safetensors((temp / name).string(), named);
  }
  void configure(const std::string& key, const json& value) const {
    json config = json::parse(TempFolder::get(temp / "config.json"));
    config[key] = value;
    temp.put("config.json", config.dump());
  }
  fs::path path() const { return temp / ""; }
};

SafeTensors expected_of(const std::string& golden) {
  return load_safetensors((golden_folder(golden) / "expected.safetensors").string());
}

void check_is_golden(const run::TextModel& model, const std::string& golden = "hf_gpt2") {
  const SafeTensors expected = expected_of(golden);
  const Tensor& ids = expected.at("input_ids");
  CHECK(difference(model.gpt(ids), expected.at("logits"), 1e-5, 2e-5) == "");
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  Rng unused(0);
  CHECK(nn::generate(model.gpt, {prompt.begin(), prompt.end()},
                     {.max_new_tokens = std::ssize(greedy), .greedy = true},
                     unused) == nn::Tokens(greedy.begin(), greedy.end()));
}

}  // namespace

TEST_CASE("models of Hugging Face's compute what transformers computes", "[hf_folder]") {
  for (const std::string& golden : kGoldenFolders) {
    INFO(golden);
    check_is_golden(run::load(golden_folder(golden)), golden);
  }
}

TEST_CASE("ten steps of fine-tuning have the losses of PyTorch's", "[hf_folder]") {
  for (const std::string& golden : kGoldenFolders) {
    const run::TextModel model = run::load(golden_folder(golden));
    const SafeTensors expected = expected_of(golden);
    const Tensor& ids = expected.at("input_ids");
    const std::int64_t T = ids.dim(1);
    const Tensor inputs = columns(ids, 0, T - 1), targets = columns(ids, 1, T);
    optim::AdamW adamw(model.params.parameters(), {.beta2 = 0.95, .weight_decay = 0.1});
    for (const float loss : expected.at("fine_tuning").values<float>()) {
      Tape tape;
      const Tensor made = model.gpt.loss(inputs, targets);
      INFO(golden << ": " << made.item() << " " << loss);
      CHECK(std::abs(made.item() - static_cast<double>(loss)) <= 2e-5 * loss);
      tape.backward(made);
      adamw.step(1e-2, optim::measure_clipping(model.params.parameters(), 1.0).factor);
      adamw.zero_grad();
    }
  }
}

TEST_CASE("a folder's config is read in full", "[hf_folder]") {
  const run::TextModel model = run::load(golden_folder());
  CHECK(model.gpt.config.n_inner == 40);
  CHECK(model.gpt.config.tied);
  // The model has more rows than the tokenizer tokens.
  CHECK(model.tokenizer.vocab_size() == 404);
  CHECK(model.tokenizer.token_bytes(403).empty());
}

TEST_CASE("a sliding window's loss is that of transformers' recipe", "[hf_folder]") {
  const run::TextModel model = run::load(golden_folder());
  const json golden = golden_json("hf_gpt2/perplexity.json");
  const auto ids = golden.at("ids").get<std::vector<data::Token>>();
  for (const json& expected : golden.at("cases")) {
    INFO(expected);
    const auto loss = run::loss_of_tokens(
        model.gpt, model.tokenizer, ids,
        {.batch_size = 3, .block_size = 24, .stride = expected.at("stride").get<std::int64_t>()});
    REQUIRE(loss);
    // There the recipe leaves out the first token of each window behind the first.
    if (expected.at("stride") == 24) {
      CHECK(loss->tokens == std::ssize(ids) - 1);
      continue;
    }
    CHECK(loss->tokens == expected.at("tokens").get<std::int64_t>());
    CHECK(loss->loss == Approx(expected.at("mean").get<double>()).epsilon(2e-6));
  }
}

TEST_CASE("names with and without a prefix, masks and a head that is tied are read",
          "[hf_folder]") {
  const Folder folder;
  Tensors old;
  for (const auto& [name, t] : folder.tensors) {
    old.emplace(name.substr(std::string("transformer.").size()), t);
  }
  old.emplace("h.0.attn.bias", Tensor::ones({1, 1, 24, 24}));
  old.emplace("h.1.attn.masked_bias", Tensor::scalar(-1e4));
  old.emplace("lm_head.weight", old.at("wte.weight"));
  folder.write(old);
  const run::TextModel model = run::load(folder.path());
  CHECK(model.gpt.config.tied);
  check_is_golden(model);
}

TEST_CASE("a head that differs from the embedding is a head of its own", "[hf_folder]") {
  const Folder folder;
  Tensors tensors = folder.tensors;
  tensors.emplace("lm_head.weight", Tensor::ones({404, 16}));
  folder.write(tensors);
  const run::TextModel model = run::load(folder.path());
  CHECK(!model.gpt.config.tied);
  CHECK(model.gpt.lm_head.weight.at(0) == 1);
}

TEST_CASE("weights in several files are read by their index", "[hf_folder]") {
  const Folder folder;
  Tensors parts[2];
  json map;
  int i = 0;
  for (const auto& [name, t] : folder.tensors) {
    const int part = i++ % 2;
    parts[part].emplace(name, t);
    map[name] = part == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  folder.write(parts[0], "model-00001-of-00002.safetensors");
  folder.write(parts[1], "model-00002-of-00002.safetensors");
  const auto index = [&](const json& weight_map) {
    folder.temp.put("model.safetensors.index.json",
                    json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}.dump());
  };
  index(map);
  check_is_golden(run::load(folder.path()));
  map["transformer.wte.weight"] = "../model-00001-of-00002.safetensors";
  index(map);
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("is not the name of a file"));
  index(json::object());
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("names no file"));
  json many;
  for (int i = 0; i < 10'001; ++i) many[std::to_string(i)] = "a.safetensors";
  index(many);
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("more than 10000 members"));
  index({{"x", "missing.safetensors"}});
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("missing.safetensors"));
}

TEST_CASE("halves are widened to f32", "[hf_folder]") {
  // 1.5 in F16 and in BF16, as a tensor of two.
  const TempFolder folder;
  for (const auto& [dtype, bytes] : {std::pair("F16", std::string("\x00\x3E\x00\x3E", 4)),
                                     std::pair("BF16", std::string("\xC0\x3F\xC0\x3F", 4))}) {
    const std::string header = fmt::format(
        R"({{"transformer.ln_f.bias":{{"dtype":"{}","shape":[2],"data_offsets":[0,4]}}}})", dtype);
    std::string size(8, '\0');
    size[0] = static_cast<char>(header.size());
    folder.put("config.json", R"({"model_type": "gpt2"})");
    fs::copy_file(golden_folder() / "tokenizer.json", folder / "tokenizer.json",
                  fs::copy_options::overwrite_existing);
    folder.put("model.safetensors", size + header + bytes);
    const Tensor t = run::open_hf(folder / "").weights->read("ln_f.bias");
    CHECK(t.dtype() == DType::f32);
    CHECK(t.at(0) == 1.5);
    CHECK(t.at(1) == 1.5);
  }
}

TEST_CASE("tensors that are missing, unknown or of another shape are refused", "[hf_folder]") {
  const Folder folder;
  const auto refused = [&](const Tensors& tensors, const std::string& message) {
    folder.write(tensors);
    INFO(message);
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  };
  Tensors tensors = folder.tensors;
  tensors.erase("transformer.h.1.ln_2.bias");
  refused(tensors, "h.1.ln_2.bias");
  tensors = folder.tensors;
  tensors.emplace("score.weight", Tensor::ones({2, 16}));
  refused(tensors, "score.weight");
  tensors = folder.tensors;
  tensors.at("transformer.h.0.mlp.c_fc.weight") = Tensor::ones({40, 16});  // (out, in)
  refused(tensors, "h.0.mlp.c_fc.weight");
  tensors = folder.tensors;
  tensors.emplace("wte.weight", tensors.at("transformer.wte.weight"));
  refused(tensors, "is there twice");
}

TEST_CASE("a config that changes the result in a way unknown here is refused by name",
          "[hf_folder]") {
  const std::vector<std::pair<std::string, json>> faults = {
      {"model_type", "bloom"},
      {"quantization_config", {{"bits", 4}}},
      {"architectures", json::array({"GPT2ForSequenceClassification"})},
      {"activation_function", "silu"},
      {"scale_attn_by_inverse_layer_idx", true},
      {"scale_attn_weights", false},
      {"add_cross_attention", true},
      {"n_head", 3},
      {"n_layer", -1},
      {"n_layer", 1'000'000'000'000},
      {"n_embd", "16"},
      {"vocab_size", 3},
      {"tie_word_embeddings", "yes"}};
  for (const auto& [key, value] : faults) {
    const Folder folder;
    folder.write(folder.tensors);
    folder.configure(key, value);
    INFO(key << " " << value);
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(key));
  }
  // Not tied, but without a head: transformers would draw one.
  const Folder folder;
  folder.write(folder.tensors);
  folder.configure("tie_word_embeddings", false);
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("lm_head.weight"));
}

TEST_CASE("keys of Llama's family that change the result are honoured or refused by name",
          "[hf_folder]") {
  const json dynamic = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const std::vector<std::tuple<std::string, json, std::string>> faults = {
      {"hidden_act", "gelu", "hidden_act"},
      {"attention_bias", true, "attention_bias"},
      {"mlp_bias", true, "mlp_bias"},
      {"rope_interleaved", true, "rope_interleaved"},
      {"rope_parameters", dynamic, "rope_type 'dynamic'"},
      {"rope_parameters", {{"rope_type", "linear"}}, "factor"},
      {"rope_parameters", 3, "rope_parameters"},
      {"num_key_value_heads", 3, "n_kv_head"},
      {"num_attention_heads", 0, "n_head"},
      {"head_dim", 5, "channels per head"},
      {"head_dim", 4611686018427387908, "head_size"},
      {"hidden_size", nullptr, "hidden_size"},
      {"intermediate_size", -1, "n_inner"},
      {"rms_norm_eps", "small", "rms_norm_eps"},
      {"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}, "factor"}};
  for (const auto& [key, value, message] : faults) {
    const Folder folder("hf_llama");
    folder.write(folder.tensors);
    folder.configure(key, value);
    INFO(key << " " << value);
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  }
  // The spelling of transformers 4.
  const Folder folder("hf_llama");
  folder.write(folder.tensors);
  json scaling = golden_json("hf_llama/config.json").at("rope_parameters");
  scaling.erase("rope_theta");
  folder.configure("rope_parameters", nullptr);
  folder.configure("rope_theta", 1000);
  folder.configure("rope_scaling", scaling);
  check_is_golden(run::load(folder.path()), "hf_llama");
}

// scores.safetensors has the logits of the first row.
void check_scores(const fs::path& folder, const std::string& golden, const std::string& name) {
  INFO(name);
  static const SafeTensors file = load_safetensors(golden_file("scores.safetensors").string());
  const run::TextModel model = run::load(folder);
  const Tensor ids = expected_of(golden).at("input_ids").rows(0, 1);
  const Tensor& expected = file.at("model/" + name);
  CHECK(difference(model.gpt(ids), expected, 1e-5, 2e-5) == "");
  nn::KVCache cache;
  for (std::int64_t t = 0; t < ids.dim(1); ++t) {
    const Tensor next = model.gpt.last_logits(columns(ids, t, t + 1), cache);
    CHECK(difference(next, select(expected, 1, t), 1e-5, 2e-5) == "");
  }
}

TEST_CASE("where attention slides, logits are transformers' beyond the window", "[hf_folder]") {
  const Folder mistral("hf_llama");
  mistral.write(mistral.tensors);
  mistral.configure("model_type", "mistral");
  mistral.configure("architectures", json::array({"MistralForCausalLM"}));
  // The default window is 4,096, which hides nothing of 24 positions.
  check_is_golden(run::load(mistral.path()), "hf_llama");
  CHECK(run::load(mistral.path()).gpt.config.window == 0);
  mistral.configure("max_position_embeddings", 8192);
  CHECK(run::load(mistral.path()).gpt.config.window == 4096);
  mistral.configure("sliding_window", nullptr);
  CHECK(run::load(mistral.path()).gpt.config.window == 0);
  mistral.configure("max_position_embeddings", 24);
  mistral.configure("sliding_window", 5);
  CHECK(run::load(mistral.path()).gpt.config.window == 5);
  CHECK(run::load(mistral.path()).gpt.config.block_size == 24);
  check_scores(mistral.path(), "hf_llama", "mistral");
  mistral.configure("sliding_window", nullptr);
  check_is_golden(run::load(mistral.path()), "hf_llama");
  mistral.configure("sliding_window", 0);
  CHECK_THROWS_WITH(run::load(mistral.path()), ContainsSubstring("sliding_window 0"));

  const Folder qwen2("hf_qwen2");
  qwen2.write(qwen2.tensors);
  qwen2.configure("sliding_window", 4);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // use_sliding_window is false
  qwen2.configure("use_sliding_window", true);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // its layer_types are full
  qwen2.configure("layer_types", nullptr);
  check_is_golden(run::load(qwen2.path()), "hf_qwen2");  // max_window_layers is 28
  qwen2.configure("max_window_layers", 1);
  CHECK(run::load(qwen2.path()).gpt.config.window_pattern == "LS");
  check_scores(qwen2.path(), "hf_qwen2", "qwen2");
  qwen2.configure("layer_types", {"sliding_attention", "full_attention"});
  check_scores(qwen2.path(), "hf_qwen2", "qwen2_types");
  qwen2.configure("max_window_layers", 0);
  qwen2.configure("layer_types", nullptr);
  CHECK(run::load(qwen2.path()).gpt.config.window_pattern.empty());
  CHECK(run::load(qwen2.path()).gpt.config.window == 4);
  qwen2.configure("layer_types", {"full_attention"});
  CHECK_THROWS_WITH(run::load(qwen2.path()), ContainsSubstring("layer_types names 1 layers of 2"));
  qwen2.configure("layer_types", {"full_attention", "chunked_attention"});
  CHECK_THROWS_WITH(run::load(qwen2.path()), ContainsSubstring("'chunked_attention'"));
}

TEST_CASE("linear rotary positions have transformers' logits, in both spellings", "[hf_folder]") {
  const Folder folder("hf_llama");
  folder.write(folder.tensors);
  folder.configure("rope_parameters",
                   {{"rope_type", "linear"}, {"rope_theta", 1000.0}, {"factor", 2.5}});
  check_scores(folder.path(), "hf_llama", "linear");
  folder.configure("rope_parameters", nullptr);
  folder.configure("rope_theta", 1000);
  folder.configure("rope_scaling", {{"type", "linear"}, {"factor", 2.5}});
  check_scores(folder.path(), "hf_llama", "linear");
}

TEST_CASE("a text ends at each token that the folder names, and goes out with them",
          "[hf_folder]") {
  const Folder folder;
  folder.write(folder.tensors);
  const SafeTensors expected = expected_of("hf_gpt2");
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  const auto made = [&](const fs::path& path) {
    const run::TextModel model = run::load(path);
    Rng unused(0);
    return run::stream_text(model.gpt, model.tokenizer, {prompt.begin(), prompt.end()},
                            {.max_new_tokens = std::ssize(greedy), .greedy = true}, unused,
                            [](std::string_view) { return true; });
  };
  const auto first = std::find(greedy.begin(), greedy.end(), greedy[2]) - greedy.begin();
  REQUIRE(first < std::ssize(greedy));
  CHECK(made(folder.path()) == std::ssize(greedy));
  folder.temp.put("generation_config.json", json({{"eos_token_id", {0, greedy[2]}}}).dump());
  CHECK(made(folder.path()) == first);
  run::export_model(run::load(folder.path()), run::export_format("hf"), folder.temp / "out",
                    stored_type("f32"));
  CHECK(made(folder.temp / "out") == first);
  const auto file = [&](const std::string& name) {
    return json::parse(TempFolder::get(folder.temp / "out" / name));
  };
  CHECK(file("generation_config.json").at("eos_token_id") == json({0, greedy[2]}));
  CHECK(file("config.json").at("eos_token_id") == 0);
  CHECK(file("tokenizer_config.json").at("eos_token") == "<|endoftext|>");
  folder.configure("eos_token_id", 403);
  fs::remove(folder.temp / "generation_config.json");
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("eos_token_id 403 is no token"));
}
