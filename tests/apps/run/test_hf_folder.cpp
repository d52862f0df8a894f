#include <nlohmann/json.hpp>

#include "tapegrad/nn/generate.h"
#include "tapegrad/run/evaluate.h"
#include "tapegrad/run/formats/hf_folder.h"
#include "tapegrad/run/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, Tensor>;

fs::path golden_folder() { return golden_file("hf_gpt2"); }

// A copy of the golden folder that a test may change.
struct Folder {
  TempFolder temp;
  Tensors tensors = load_safetensors((golden_folder() / "model.safetensors").string()).tensors;
  Folder() {
    for (const char* name : {"config.json", "tokenizer.json"}) {
      fs::copy_file(golden_folder() / name, temp / name);
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

void check_is_golden(const run::TextModel& model) {
  const SafeTensors expected =
      load_safetensors((golden_folder() / "expected.safetensors").string());
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

TEST_CASE("a GPT-2 of Hugging Face's computes what transformers computes", "[hf_folder]") {
  const run::TextModel model = run::load(golden_folder());
  check_is_golden(model);
  CHECK(model.gpt.config().n_inner == 40);
  CHECK(model.gpt.config().tied);
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
  CHECK(model.gpt.config().tied);
  check_is_golden(model);
}

TEST_CASE("a head that differs from the embedding is a head of its own", "[hf_folder]") {
  const Folder folder;
  Tensors tensors = folder.tensors;
  tensors.emplace("lm_head.weight", Tensor::ones({404, 16}));
  folder.write(tensors);
  const run::TextModel model = run::load(folder.path());
  CHECK(!model.gpt.config().tied);
  CHECK(model.gpt.head().weight.at(0) == 1);
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
      {"model_type", "llama"},
      {"architectures", json::array({"GPT2ForSequenceClassification"})},
      {"activation_function", "silu"},
      {"scale_attn_by_inverse_layer_idx", true},
      {"scale_attn_weights", false},
      {"add_cross_attention", true},
      {"layer_norm_epsilon", -1},
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
