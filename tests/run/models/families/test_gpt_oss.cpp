// gpt-oss in files: experts in a form of their own, in floats and in MXFP4.

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/run/models/gguf_support.h"
#include "tapegrad/tests/run/models/hf_golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

// Two blocks, whose experts are rows of whole blocks of MXFP4.
nn::DecoderConfig small_config(const data::Tokenizer& tokenizer) {
  nn::DecoderConfig c;
  c.arch = nn::Architecture::llama;
  c.vocab_size = tokenizer.vocab_size(), c.block_size = 16, c.n_layer = 2, c.n_head = 4;
  c.n_embd = 32, c.n_inner = 64, c.head_size = 6, c.n_kv_head = 2, c.tied = false;
  c.bias = c.mlp_bias = c.attention_sinks = true;
  c.window = 5, c.window_pattern = "SL";
  c.activation = nn::Activation::clamped_swiglu;
  c.moe = {.experts = 3, .top_k = 2, .router_bias = true};
  return c;
}

void export_to(const std::string& format, const run::TextModel& model, const fs::path& out,
               const std::string& type = "f32") {
  run::export_model(model, run::export_format(format), out, stored_type(type), true);
}

// A model in Hugging Face's layout, and its tensors.
struct Folder {
  TempFolder temp;
  std::map<std::string, Tensor> tensors;

  Folder() {
    const data::Tokenizer tokenizer = small_bpe();
    export_to("hf", model_of(tokenizer, small_config(tokenizer)), temp / "model");
    tensors = load_safetensors((temp / "model/model.safetensors").string()).tensors;
  }
  fs::path path() const { return temp / "model"; }
  void write() const {
    save_safetensors((temp / "model/model.safetensors").string(),
                     NamedTensors(tensors.begin(), tensors.end()));
  }
  void configure(const std::string& key, const json& value) const {
    json config = json::parse(TempFolder::get(path() / "config.json"));
    config[key] = value;
    temp.put("model/config.json", config.dump());
  }
  std::string complaint() const {
    write();
    try {
      run::load(path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

const std::string kMlp = "model.layers.0.mlp.experts.";

// Blocks and scales at random in place of the matrices of `name`, which become what they stand for.
// Returns both.
std::pair<Tensor, Tensor> random_mxfp4(Rng& rng, Tensor& matrices) {
  constexpr float kNumbers[] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};
  const std::int64_t E = matrices.dim(0), in = matrices.dim(1), out = matrices.dim(2);
  Tensor blocks = Tensor::zeros({E, out, in / 32, 16}, DType::u8),
         scales = Tensor::zeros({E, out, in / 32}, DType::u8);
  auto* const bytes = blocks.mutable_data<std::uint8_t>();
  auto* const powers = scales.mutable_data<std::uint8_t>();
  float* const numbers = matrices.mutable_data<float>();
  for (std::int64_t i = 0; i < scales.numel(); ++i) {
    powers[i] = static_cast<std::uint8_t>(123 + rng.randint(4));
  }
  for (std::int64_t i = 0; i < blocks.numel(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(rng.randint(256));
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t element = 2 * i + half, e = element / (out * in), row = element / in % out,
                         column = element % in;
      numbers[(e * in + column) * out + row] =
          std::ldexp(kNumbers[bytes[i] >> (4 * half) & 15], powers[element / 32] - 127);
    }
  }
  return {blocks, scales};
}

}  // namespace

TEST_CASE("a gpt-oss's experts leave as they came, bit by bit", "[gpt_oss]") {
  const fs::path golden = golden_file("families/gpt_oss");
  const TempFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(golden / file, folder / file);
  }
  folder.put("tokenizer.json", TempFolder::get(golden_file("hf_gpt2/tokenizer.json")));
  export_to("hf", run::load(folder / ""), folder / "out", "bf16");
  const auto before = open_safetensors((folder / "model.safetensors").string()),
             after = open_safetensors((folder / "out/model.safetensors").string());
  CHECK(after->entries().size() == before->entries().size());
  for (const auto& [name, entry] : before->entries()) {
    INFO(name);
    CHECK(after->stored(name).same_bytes(before->stored(name)));
  }
}

TEST_CASE("experts of MXFP4 are the numbers that they stand for, widened or as they are stored",
          "[gpt_oss]") {
  Folder floats, blocks;
  Rng rng(5);
  for (const std::string block : {"0", "1"}) {
    for (const std::string part : {"gate_up_proj", "down_proj"}) {
      const std::string name = "model.layers." + block + ".mlp.experts." + part;
      const auto [four_bits, scales] = random_mxfp4(rng, floats.tensors.at(name));
      blocks.tensors.erase(name);
      blocks.tensors[name + "_blocks"] = four_bits, blocks.tensors[name + "_scales"] = scales;
    }
  }
  floats.write(), blocks.write();
  blocks.configure("quantization_config", {{"quant_method", "mxfp4"}});
  const run::TextModel expected = run::load(floats.path()), model = run::load(blocks.path());
  const Tensor ids = some_ids(expected);
  CHECK(difference(model.gpt(ids), expected.gpt(ids), 0, 0) == "");

  const run::TextModel packed = run::load_quantized(run::open_model(blocks.path()));
  const nn::Experts& experts = packed.gpt.h[1].experts;
  const nn::Experts& whole = expected.gpt.h[1].experts;
  for (const auto& [own, theirs] :
       {std::pair(&experts.c_gate, &whole.c_gate), std::pair(&experts.c_fc, &whole.c_fc),
        std::pair(&experts.c_proj, &whole.c_proj)}) {
    REQUIRE(own->weight.quantized.size() == 3);
    for (std::size_t e = 0; e < 3; ++e) {
      const QuantizedMatrix& matrix = *own->weight.quantized[e].quantized;
      CHECK(matrix.type().name == "mxfp4");
      CHECK(difference(matrix.dequantized(),
                       select(theirs->weight.tensor, 0, static_cast<std::int64_t>(e)), 0, 0) == "");
    }
  }
  // Floats, which lie turned in the file, can be packed, too.
  const run::TextModel of_floats = run::load_quantized(run::open_model(floats.path()), "f32");
  CHECK(difference(of_floats.gpt(ids), expected.gpt(ids), 1e-4, 1e-5) == "");
}

TEST_CASE("files of gpt-oss that are broken are refused by name", "[gpt_oss]") {
  const auto complaint = [](const std::function<void(Folder&)>& change) {
    Folder folder;
    change(folder);
    return folder.complaint();
  };
  const std::string gate = kMlp + "gate_up_proj", down = kMlp + "down_proj";
  CHECK(complaint([](Folder&) {}) == "");
  CHECK_THAT(complaint([&](Folder& f) { f.tensors.erase(gate); }),
             ContainsSubstring("layers.0.mlp.experts.gate_proj.weight"));
  CHECK_THAT(complaint([&](Folder& f) {
               f.tensors[gate] = Tensor::zeros({3, 32, 7});
             }),
             ContainsSubstring("is not one of gpt-oss's experts"));
  CHECK_THAT(complaint([&](Folder& f) {
               f.tensors[down + "_bias"] = Tensor::zeros({3, 31});
             }),
             ContainsSubstring("has shape (3, 31), but the model needs (3, 32)"));
  const Tensor scales = Tensor::zeros({3, 32, 2}, DType::u8),
               blocks = Tensor::zeros({3, 32, 2, 16}, DType::u8);
  CHECK_THAT(complaint([&](Folder& f) { f.tensors[down + "_blocks"] = blocks; }),
             ContainsSubstring("down_proj_blocks' is there, and no '"));
  CHECK_THAT(complaint([&](Folder& f) { f.tensors[down + "_scales"] = scales; }),
             ContainsSubstring("down_proj_scales' is there, and no '"));
  const auto with_blocks = [&](Folder& f) {
    f.tensors[down + "_blocks"] = blocks, f.tensors[down + "_scales"] = scales;
  };
  CHECK_THAT(complaint(with_blocks), ContainsSubstring("is there twice"));
  CHECK_THAT(complaint([&](Folder& f) {
               with_blocks(f), f.tensors.erase(down);
               f.tensors[down + "_scales"] = scales.to(DType::i32);
             }),
             ContainsSubstring("of i32 and (3, 32, 2): MXFP4 is"));
  CHECK_THAT(complaint([](Folder& f) {
               f.configure("quantization_config", {{"quant_method", "awq"}});
             }),
             ContainsSubstring("quantization_config 'awq' is not supported"));
  CHECK_THAT(complaint([](Folder& f) { f.configure("swiglu_limit", 6.0); }),
             ContainsSubstring("swiglu_limit 6 is not supported, only 7"));
}

TEST_CASE("a gpt-oss goes to GGUF and comes back", "[gpt_oss]") {
  const data::Tokenizer tokenizer = small_bpe();
  nn::DecoderConfig c = small_config(tokenizer);
  c.rope_scaling = nn::RopeScalingKind::yarn, c.rope_factor = 4, c.rope_original_positions = 8;
  c.rope_base = 100;
  const run::TextModel model = model_of(tokenizer, c);
  const TempFolder folder;
  const fs::path file = folder / "model.gguf";
  export_to("gguf", model, file);
  const Tensor ids = some_ids(model);
  CHECK(difference(run::load(file).gpt(ids), model.gpt(ids), 0, 0) == "");
  export_to("gguf", model, file, "f16");
  const GgufFile gguf(file);
  CHECK(std::get<std::string>(gguf.keys().at("general.architecture")) == "gpt-oss");
  for (const auto& [key, value] :
       {std::pair("attention.sliding_window", 5), std::pair("expert_feed_forward_length", 64),
        std::pair("expert_count", 3), std::pair("attention.key_length", 6)}) {
    INFO(key);
    CHECK(std::get<std::int64_t>(gguf.keys().at(std::string("gpt-oss.") + key)) == value);
  }
  CHECK(gguf.at("blk.1.attn_sinks.weight").shape == Shape{4});
  CHECK(gguf.at("blk.0.ffn_gate_exps.bias").type->name == "f32");
  CHECK(gguf.at("blk.0.ffn_gate_exps.weight").type->name == "f16");
  CHECK(gguf.contains("blk.0.post_attention_norm.weight"));
  Edited edited(file);
  CHECK(edited.complaint() == "");
  edited.keys.erase("gpt-oss.attention.sliding_window");
  CHECK_THAT(edited.complaint(),
             ContainsSubstring("there is no 'gpt-oss.attention.sliding_window"));

  const auto refused = [&](const std::function<void(nn::DecoderConfig&)>& change,
                           const std::string& why) {
    nn::DecoderConfig other = c;
    change(other);
    CHECK_THROWS_WITH(export_to("gguf", model_of(tokenizer, other), file), ContainsSubstring(why));
  };
  refused([](auto& o) { o.attention_sinks = false; }, "attention_sinks false, only with true");
  refused([](auto& o) { o.rope_truncate = false; },
          "rope_truncate false, only with true: llama.cpp has no key for it");
  refused([](auto& o) { o.bias = false; }, "llama.cpp wants biases in attention");
  refused([](auto& o) { o.window = 0, o.window_pattern.clear(); }, "needs a window");
  refused([](auto& o) { o.window_pattern = "LS"; },
          "llama.cpp wants a window in each second block");
}
