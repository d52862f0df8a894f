// LoRA adapters in files of their own: PEFT's and llama.cpp's, in and out.

#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/run/models/torch_out.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
namespace fs = std::filesystem;

namespace {

fs::path llama() { return golden_file("hf_llama"); }
fs::path lora() { return golden_file("hf_llama_lora"); }

// The golden model with the golden adapters beside quantised weights, for training.
struct QuantizedModel {
  run::OpenedModel opened = run::with_adapter(run::open_model(llama()), lora());
  nn::Params params = [&] {
    nn::Params made(opened.parts);
    made.quantize(nullptr, true);
    return made;
  }();
  nn::Decoder gpt = nn::make_decoder(params, opened.config, {.adapters = opened.tuning.adapters()});
};

std::map<std::string, Tensor> tensors_of(const run::Adapter& adapter) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, entry] : adapter.tensors->entries()) {
    all[name] = adapter.tensors->read(name);
  }
  return all;
}

void check_same(const run::Adapter& a, const run::Adapter& b) {
  CHECK(a.options.rank == b.options.rank);
  CHECK(a.options.scale() == Approx(b.options.scale()).epsilon(1e-7));
  CHECK(a.options.targets == b.options.targets);
  const auto ours = tensors_of(a), theirs = tensors_of(b);
  REQUIRE(ours.size() == theirs.size());
  for (const auto& [name, t] : ours) CHECK(same_bits(t, theirs.at(name)));
}

std::string refusal(const fs::path& path) {
  const nn::DecoderConfig config = run::open_model(llama()).config;
  try {
    run::open_adapter(path, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ten steps of AdamW on adapters over quantised weights have PyTorch's losses",
          "[golden][adapters]") {
  const SafeTensors expected = load_safetensors((lora() / "expected.safetensors").string());
  const Tensor ids = load_safetensors((llama() / "expected.safetensors").string()).at("input_ids");
  const QuantizedModel model;
  CHECK(model.params.parameters().size() == 12);
  const Tensor logits = model.gpt(ids);
  CHECK(max(abs(logits - expected.at("logits"))).item() < 1e-4);

  const std::int64_t B = ids.dim(0), T = ids.dim(1) - 1;
  const auto columns = [&](std::int64_t first) {
    std::vector<std::int32_t> some;
    for (std::int64_t b = 0; b < B; ++b) {
      const auto row = ids.rows(b, b + 1).values<std::int32_t>();
      some.insert(some.end(), row.begin() + first, row.begin() + first + T);
    }
    return Tensor::from(some, {B, T});
  };
  const Tensor inputs = columns(0), targets = columns(1);
  optim::AdamW adamw(model.params.parameters(), {.beta2 = 0.95, .weight_decay = 0.1});
  const auto losses = expected.at("losses").values<float>();
  for (const float loss : losses) {
    Tape tape;
    const Tensor made = model.gpt.loss(inputs, targets);
    CHECK(made.item() == Approx(loss).epsilon(1e-5));
    tape.backward(made);
    adamw.step(1e-2, optim::measure_clipping(model.params.parameters(), 1.0).factor);
    adamw.zero_grad();
  }
}

TEST_CASE("adapters come back from both forms with the same bits", "[adapters]") {
  const nn::DecoderConfig config = run::open_model(llama()).config;
  const run::Adapter golden = run::open_adapter(lora(), config);
  CHECK(golden.options.targets ==
        std::vector<std::string>{"*.mlp.down_proj", "*.self_attn.k_proj", "*.self_attn.q_proj"});
  const TempFolder folder;
  run::write_peft(folder / "peft", golden, config, "base");
  check_same(run::open_adapter(folder / "peft", config), golden);
  run::write_gguf_adapter(folder / "lora.gguf", golden, config);
  check_same(run::open_adapter(folder / "lora.gguf", config), golden);

  run::Adapter stabilised = golden;
  stabilised.options.scaling = nn::LoraScaling::rslora;
  run::write_peft(folder / "rs", stabilised, config, "base");
  check_same(run::open_adapter(folder / "rs", config), stabilised);
  run::write_gguf_adapter(folder / "rs.gguf", stabilised, config);
  check_same(run::open_adapter(folder / "rs.gguf", config), stabilised);
}

TEST_CASE("PEFT's files call layers as the model's family does", "[adapters]") {
  nn::DecoderConfig config;  // an LFM2's
  config.arch = nn::Architecture::llama;
  config.vocab_size = 60, config.block_size = 24, config.n_layer = 3;
  config.n_embd = 16, config.n_inner = 24, config.n_head = 4, config.n_kv_head = 2;
  config.qk_norm = config.tied = true;
  config.mixer_pattern = "CAC";
  Rng rng(1);
  std::map<std::string, Tensor> tensors;
  for (const auto& [layer, out] :
       {std::pair("layers.1.self_attn.o_proj", 16), std::pair("layers.0.mlp.gate_proj", 24),
        std::pair("layers.0.conv.in_proj", 48)}) {
    tensors[std::string(layer) + ".lora_A.weight"] = Tensor::randn({2, 16}, rng);
    tensors[std::string(layer) + ".lora_B.weight"] = Tensor::randn({out, 2}, rng);
  }
  const run::Adapter adapter{{.rank = 2, .alpha = 4}, memory_source(tensors, "adapter")};
  const TempFolder folder;
  run::write_peft(folder / "peft", adapter, config, "base");
  const SafeTensors file = load_safetensors((folder / "peft/adapter_model.safetensors").string());
  const std::string model = "base_model.model.model.layers.";
  CHECK(file.tensors.contains(model + "1.self_attn.out_proj.lora_A.weight"));
  CHECK(file.tensors.contains(model + "0.feed_forward.w1.lora_B.weight"));
  CHECK(file.tensors.contains(model + "0.conv.in_proj.lora_B.weight"));
  CHECK_THAT(TempFolder::get(folder / "peft/adapter_config.json"),
             ContainsSubstring("model.layers.0.feed_forward.w1"));
  const run::Adapter back = run::open_adapter(folder / "peft", config);
  CHECK(back.tensors->entries().size() == tensors.size());
  for (const auto& [name, t] : tensors) CHECK(same_bits(back.tensors->read(name), t));
}

namespace {

// The first ranks of a matrix A or B.
Tensor first_ranks(const Tensor& t, bool is_down, std::int64_t rank) {
  return is_down ? t.rows(0, rank).clone() : slice(t, 1, 0, rank);
}

// What the adapter of a layer adds to its weight.
Tensor addend(const run::Adapter& adapter, const std::string& layer) {
  return matmul(adapter.tensors->read(layer + ".lora_B.weight"),
                adapter.tensors->read(layer + ".lora_A.weight")) *
         adapter.options.scale();
}

}  // namespace

TEST_CASE("adapters whose ranks and scales differ from layer to layer add what PEFT adds",
          "[adapters]") {
  const nn::DecoderConfig config = run::open_model(llama()).config;
  const std::string layer0 = "layers.0.self_attn.q_proj", layer1 = "layers.1.self_attn.q_proj",
                    down = "layers.0.mlp.down_proj", key = "layers.1.self_attn.k_proj";
  const auto golden = load_safetensors((lora() / run::kPeftModelFile).string()).tensors;
  auto file = golden;
  std::map<std::string, Tensor> expected;  // of alpha / rank 4/3
  const auto product = [&](const std::string& layer, double scale) {
    const std::string name = "base_model.model.model." + layer;
    expected[layer] =
        matmul(file.at(name + ".lora_B.weight"), file.at(name + ".lora_A.weight")) * scale;
  };
  for (auto& [name, t] : file) {
    if (name.find("q_proj") != std::string::npos) {
      t = first_ranks(t, name.find("lora_A") != std::string::npos, 2);
    }
  }
  product(layer0, 10.0 / 2), product(layer1, 4.0 / 2);
  product(down, 7.0 / 3), product(key, 4.0 / 3);
  auto peft = nlohmann::json::parse(TempFolder::get(lora() / run::kPeftConfigFile));
  peft["rank_pattern"] = {{"q_proj", 2}, {"self_attn.q_proj", 9}};  // the first one counts
  peft["alpha_pattern"] = {
      {"^model.layers.0.self_attn.q_proj", 10}, {"down_proj", 7}, {"n_proj", 99}, {"^q_proj", 99}};
  const TempFolder folder;
  save_safetensors((folder / run::kPeftModelFile).string(), {file.begin(), file.end()});
  folder.put(run::kPeftConfigFile, peft.dump());
  const run::Adapter uneven = run::open_adapter(folder.path(), config);
  CHECK(uneven.options.rank == 3);
  for (const auto& [layer, sum] : expected) {
    INFO(layer);
    CHECK(difference(addend(uneven, layer), sum, 1e-6, 1e-6) == "");
  }
  // What comes out is one rank for all.
  run::write_peft(folder / "out", uneven, config, "base");
  check_same(run::open_adapter(folder / "out", config), uneven);

  // llama.cpp divides one alpha by each layer's own rank.
  run::Adapter own;
  own.options = {.rank = 3, .alpha = 6};
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, t] : file) tensors[name.substr(name.find("layers"))] = t;
  own.tensors = memory_source(tensors, "uneven");
  run::write_gguf_adapter(folder / "uneven.gguf", own, config);
  const run::Adapter read = run::open_adapter(folder / "uneven.gguf", config);
  product(layer0, 6.0 / 2), product(down, 6.0 / 3);
  for (const std::string& layer : {layer0, down}) {
    CHECK(difference(addend(read, layer), expected.at(layer), 1e-6, 1e-6) == "");
  }
}

TEST_CASE("adapters of torch.save are read where there is no file of safetensors", "[adapters]") {
  const nn::DecoderConfig config = run::open_model(llama()).config;
  const TempFolder folder;
  fs::copy_file(lora() / run::kPeftConfigFile, folder / run::kPeftConfigFile);
  write_torch(folder / "adapter_model.bin",
              load_safetensors((lora() / run::kPeftModelFile).string()).tensors);
  check_same(run::open_adapter(folder.path(), config), run::open_adapter(lora(), config));
  fs::remove(folder / "adapter_model.bin");
  CHECK_THAT(refusal(folder.path()), ContainsSubstring(std::string(run::kPeftModelFile)));
}

TEST_CASE("adapters that do not belong to a model are refused by file and cause", "[adapters]") {
  const TempFolder folder;
  const auto config = nlohmann::json::parse(TempFolder::get(lora() / run::kPeftConfigFile));
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = config;
    changed[key] = value;
    folder.put(run::kPeftConfigFile, changed.dump());
    return refusal(folder.path());
  };
  fs::copy_file(lora() / run::kPeftModelFile, folder / run::kPeftModelFile);
  CHECK(with("r", 3).empty());
  const std::string path = (folder / run::kPeftConfigFile).string();
  CHECK_THAT(with("peft_type", "IA3"), ContainsSubstring(path + ": peft_type 'IA3'"));
  CHECK_THAT(with("use_dora", true), ContainsSubstring("'use_dora' true is not supported"));
  CHECK_THAT(with("rank_pattern", {{"q_proj", 2}}), ContainsSubstring("which are not of rank 2"));
  CHECK_THAT(with("rank_pattern", {{"q_proj", "2"}}),
             ContainsSubstring("'q_proj' must be a whole"));
  CHECK_THAT(with("alpha_pattern", {{"q_proj", 0}}), ContainsSubstring("with an alpha of 0"));
  CHECK_THAT(with("alpha_pattern", {{"layers.[01].mlp", 2}}),
             ContainsSubstring("the pattern 'layers.[01].mlp' is not supported"));
  CHECK_THAT(with("alpha_pattern", 2), ContainsSubstring("'alpha_pattern' must be an object"));
  CHECK_THAT(with("bias", "all"), ContainsSubstring("'bias' \"all\" is not supported"));
  CHECK_THAT(with("init_lora_weights", "pissa_niter_16"),
             ContainsSubstring("'init_lora_weights' \"pissa_niter_16\" is not supported"));
  CHECK(with("init_lora_weights", "gaussian").empty());
  CHECK_THAT(with("layer_replication", {{0, 1}, {0, 2}}), ContainsSubstring("'layer_replication'"));
  CHECK_THAT(with("r", 4), ContainsSubstring("which are not of rank 4"));
  CHECK_THAT(with("r", 0), ContainsSubstring("a rank of 0"));
  CHECK_THAT(with("lora_alpha", "much"), ContainsSubstring("'lora_alpha' must be a number"));
  CHECK_THAT(refusal(folder / "nothing"), ContainsSubstring("there are no adapters"));
  CHECK_THAT(refusal(llama()), ContainsSubstring("has no adapters"));
  CHECK_THAT(refusal(golden_file("gguf_llama.gguf")), ContainsSubstring("not adapter"));

  // Of a model of another shape, and of another family.
  run::OpenedModel other = run::open_model(golden_file("hf_qwen3"));
  CHECK_THROWS_WITH(run::load(run::with_adapter(std::move(other), lora())),
                    ContainsSubstring(lora().string()));
  CHECK_THROWS_WITH(run::with_adapter(run::open_model(golden_file("hf_gpt2")), lora()),
                    ContainsSubstring("is no adapter of a linear layer of GPT2LMHeadModel"));
}
