#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/run/models/formats/gguf/gguf_model.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

namespace tapegrad::testing {

namespace fs = std::filesystem;

inline const std::string kCorpus =
    "the cat, naïve; 中文字符 and 👍🏽!\nI'll say: 3.14 é\n";

inline nn::DecoderConfig tiny(const data::Tokenizer& tokenizer) {
  nn::DecoderConfig c;
  c.vocab_size = tokenizer.vocab_size();
  c.block_size = 16, c.n_layer = 2, c.n_head = 2, c.n_embd = 8;
  return c;
}

// Weights so large that each shows in the logits.
inline run::TextModel model_of(const data::Tokenizer& tokenizer, const nn::DecoderConfig& config) {
  Rng rng(3);
  nn::Params params(rng);
  nn::Decoder gpt(params, config);
  for (const auto& [name, t] : params.tensors()) {
    Tensor values = normal(rng, t.shape(), DType::f32, 0.4), into = t;
    std::copy_n(values.data<float>(), t.numel(), into.mutable_data<float>());
  }
  return {std::move(params), std::move(gpt), tokenizer};
}

inline data::Tokenizer small_bpe() {
  return data::Tokenizer::train_bpe(std::string_view(kCorpus + kCorpus + kCorpus), 270);
}

inline data::Tokenizer golden_tokenizer(const std::string& style) {
  const auto golden = golden_json("tokenizers.json");
  return data::Tokenizer::of_hf(golden.at(style).at("file").get<std::string>());
}

// Qwen2's tokenizer as its makers have it: no added token is found in what NFC makes of a text.
inline nlohmann::json qwen2_file() {
  auto file = nlohmann::json::parse(golden_tokenizer("qwen2").hf_json());
  for (auto& added : file.at("added_tokens")) added["normalized"] = false;
  return file;
}

inline Tensor some_ids(const run::TextModel& model) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < 12; ++i) {
    values.push_back(static_cast<std::int32_t>(i * 7 % model.gpt.config.vocab_size));
  }
  return Tensor::from(values, {1, 12});
}

// A GGUF file with other keys or tensors, and what is said of it.
struct Edited {
  TempFolder folder;
  GgufFile file;
  GgufKeys keys = file.keys();
  std::vector<GgufTensor> tensors;
  explicit Edited(const fs::path& path = golden_file("gguf_gpt2.gguf")) : file(path) {
    for (const auto& [name, entry] : file.entries()) {
      tensors.push_back({name, &stored_type("f32"), entry.shape,
                         [this, tensor = std::string(name)] { return file.read(tensor); }});
    }
  }
  run::TextModel load() const {
    write_gguf(folder / "edited.gguf", keys, tensors);
    return run::load(folder / "edited.gguf");
  }
  std::string complaint() const {
    try {
      load();
      return "";
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK_THAT(text, ContainsSubstring((folder / "edited.gguf").string()));
      return text;
    }
  }
};

}  // namespace tapegrad::testing
