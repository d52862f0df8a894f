#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/hf/hf_folder.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/tests/run/models/hf_golden.h"
#include "tapegrad/tests/run/models/torch_out.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, Tensor>;

const std::vector<std::string> kGoldenFolders = {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"};

}  // namespace

TEST_CASE("models of Hugging Face's compute what transformers computes", "[hf_folder]") {
  for (const std::string& golden : kGoldenFolders) {
    INFO(golden);
    check_is_golden(run::load(golden_file(golden)), golden);
  }
}

TEST_CASE("ten steps of fine-tuning have the losses of PyTorch's", "[hf_folder]") {
  for (const std::string& golden : kGoldenFolders) {
    INFO(golden);
    check_fine_tuning(run::load(golden_file(golden)), expected_of(golden), 2e-5);
  }
}

TEST_CASE("a folder's config is read in full", "[hf_folder]") {
  const run::TextModel model = run::load(golden_file("hf_gpt2"));
  CHECK(model.gpt.config.n_inner == 40);
  CHECK(model.gpt.config.tied);
  // The model has more rows than the tokenizer tokens.
  CHECK(model.tokenizer.vocab_size() == 404);
  CHECK(model.tokenizer.token_bytes(403).empty());
}

TEST_CASE("a sliding window's loss is that of transformers' recipe", "[hf_folder]") {
  const run::TextModel model = run::load(golden_file("hf_gpt2"));
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
  const GoldenFolder folder;
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
  const GoldenFolder folder;
  Tensors tensors = folder.tensors;
  tensors.emplace("lm_head.weight", Tensor::ones({404, 16}));
  folder.write(tensors);
  const run::TextModel model = run::load(folder.path());
  CHECK(!model.gpt.config.tied);
  CHECK(model.gpt.lm_head.weight.at(0) == 1);
}

TEST_CASE("weights in several files are read by their index", "[hf_folder]") {
  const GoldenFolder folder;
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

TEST_CASE("weights of torch.save are read, one file or several", "[hf_folder]") {
  const GoldenFolder folder;
  const auto bin = [&](const char* name) { return folder.temp / name; };
  write_torch(bin("pytorch_model.bin"), folder.tensors);
  check_is_golden(run::load(folder.path()));
  fs::rename(bin("pytorch_model.bin"), bin("pytorch_model-00001-of-00001.bin"));
  const auto refused = [&](const std::string& message) {
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  };
  refused("pytorch_model.bin.index.json, which lists them, is missing: copy it");
  folder.temp.put("pytorch_model.bin.index.json",
                  json{{"weight_map", {{"x", "pytorch_model-00001-of-00001.bin"}}}}.dump());
  check_is_golden(run::load(folder.path()));
  // Weights in safetensors come first.
  Tensors other = folder.tensors;
  other.erase("transformer.wte.weight");
  folder.write(other);
  refused("wte.weight");
}

TEST_CASE("weights that another program has quantised are named, with a remedy", "[hf_folder]") {
  const auto refusal_with = [](const Tensors& more, const std::string& without) {
    const GoldenFolder folder("hf_llama");
    Tensors tensors = folder.tensors;
    tensors.erase(without);
    for (const auto& [name, t] : more) tensors.insert_or_assign(name, t);
    folder.write(tensors);
    try {
      run::load(folder.path());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string layer = "model.layers.0.mlp.down_proj", weight = layer + ".weight";
  const Tensor bytes = Tensor::zeros({8, 1}, DType::u8), words = Tensor::zeros({2, 4}, DType::i32);
  const std::string remedy = "open the original model, or save this one as floats";
  CHECK_THAT(
      refusal_with({{weight, bytes}, {weight + ".quant_state.bitsandbytes__nf4", bytes}}, weight),
      ContainsSubstring("'" + weight + "' is u8: 4-bit weights of bitsandbytes") &&
          ContainsSubstring(remedy));
  CHECK_THAT(refusal_with({{layer + ".qweight", words}, {layer + ".qzeros", words}}, weight),
             ContainsSubstring("weights of GPTQ or AWQ") && ContainsSubstring(remedy));
  CHECK_THAT(refusal_with({{layer + ".weight_packed", words}}, weight),
             ContainsSubstring("weights of compressed-tensors"));
  CHECK_THAT(refusal_with({{weight, words}}, weight),
             ContainsSubstring("'" + weight + "' is i32, not of floats"));
  const GoldenFolder folder("hf_llama");
  folder.write(folder.tensors);
  folder.configure("quantization_config", {{"quant_method", "bitsandbytes"}});
  CHECK_THROWS_WITH(
      run::load(folder.path()),
      ContainsSubstring("quantization_config 'bitsandbytes' is not supported: open") &&
          ContainsSubstring(remedy));
}

TEST_CASE("a folder without weights is named by what it has", "[hf_folder]") {
  const GoldenFolder folder;
  const auto refused = [&](const std::string& message) {
    CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring(message));
  };
  refused("neither model.safetensors nor pytorch_model.bin");
  folder.temp.put("adapter_config.json", R"({"base_model_name_or_path": "some/model"})");
  const std::string adapter = "an adapter here, and no model: open some/model, with --adapter ";
  refused(adapter);
  fs::remove(folder.temp / "config.json");
  refused(adapter);
  fs::copy_file(golden_file("hf_gpt2") / "config.json", folder.temp / "config.json");
  folder.write(folder.tensors, "model-00001-of-00002.safetensors");
  refused(
      "model-00001-of-00002.safetensors is one of several files, and "
      "model.safetensors.index.json, which lists them, is missing: copy it");

  folder.write(folder.tensors);
  fs::remove(folder.temp / "tokenizer.json");
  folder.temp.put("tokenizer.model", "\n\x0e\n\x05<unk>");
  refused("it cannot be read as a file of SentencePiece's");
  fs::rename(folder.temp / "tokenizer.model", folder.temp / "spiece.model");
  refused("spiece.model is SentencePiece's file of a class that changes ids");
}

TEST_CASE("buffers of rotary positions are left out wherever they stand", "[hf_folder]") {
  const GoldenFolder folder("hf_llama");
  Tensors tensors = folder.tensors;
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
        "rotary_emb.original_inv_freq", "model.rotary_emb_local.inv_freq",
        "model.rotary_emb.full_attention_inv_freq",
        "model.layers.1.self_attn.rotary_emb.cos_cached",
        "model.layers.1.self_attn.rotary_emb.sin_cached"}) {
    tensors.emplace(name, Tensor::ones({3}));
  }
  folder.write(tensors);
  check_is_golden(run::load(folder.path()), "hf_llama");
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
    fs::copy_file(golden_file("hf_gpt2") / "tokenizer.json", folder / "tokenizer.json",
                  fs::copy_options::overwrite_existing);
    folder.put("model.safetensors", size + header + bytes);
    const Tensor t = run::open_hf(folder / "").weights->read("ln_f.bias");
    CHECK(t.dtype() == DType::f32);
    CHECK(t.at(0) == 1.5);
    CHECK(t.at(1) == 1.5);
  }
}

TEST_CASE("tensors that are missing, unknown or of another shape are refused", "[hf_folder]") {
  const GoldenFolder folder;
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

TEST_CASE("a text ends at each token that the folder names, and goes out with them",
          "[hf_folder]") {
  const GoldenFolder folder;
  folder.write(folder.tensors);
  const SafeTensors expected = expected_of("hf_gpt2");
  const auto prompt = expected.at("prompt").values<std::int32_t>();
  const auto greedy = expected.at("greedy").values<std::int32_t>();
  const auto made = [&](const fs::path& path) {
    const run::TextModel model = run::load(path);
    return std::ssize(nn::stream(model.gpt, {prompt.begin(), prompt.end()},
                                 {.max_new_tokens = std::ssize(greedy),
                                  .greedy = true,
                                  .stop_tokens = model.tokenizer.ends()})
                          .tokens());
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

TEST_CASE("added tokens that the model has no row for are text to it", "[hf]") {
  const GoldenFolder folder("hf_llama");
  fs::copy_file(golden_file("hf_llama") / "model.safetensors", folder.temp / "model.safetensors");
  const std::int64_t rows = json::parse(TempFolder::get(folder.temp / "config.json"))["vocab_size"];
  json tokenizer = json::parse(TempFolder::get(folder.temp / "tokenizer.json"));
  const auto add = [&](std::int64_t id, const std::string& content) {
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
  };
  for (std::int64_t id = 401; id < rows; ++id) add(id, fmt::format("<{}>", id));
  add(rows, "<image>");
  add(rows + 1, "<end_of_image>");
  folder.temp.put("tokenizer.json", tokenizer.dump());
  const run::TextModel model = run::load(folder.path());
  CHECK(model.tokenizer.vocab_size() == rows);
  CHECK(model.tokenizer.encode("<image>", true) == model.tokenizer.encode("<image>"));
  check_is_golden(model, "hf_llama");
  // One that ends texts is needed.
  folder.temp.put("generation_config.json", json({{"eos_token_id", {0, rows + 1}}}).dump());
  CHECK_THROWS_WITH(run::load(folder.path()), ContainsSubstring("do not belong together"));
}
