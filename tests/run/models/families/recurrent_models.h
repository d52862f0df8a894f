#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tapegrad/tests/run/models/families/golden_family.h"
#include "tapegrad/tests/run/models/gguf_support.h"

// Models with Mamba-2 or gated delta nets in place of attention, in GGUF.

namespace tapegrad::testing {

using Heads = std::vector<std::int64_t>;

// A golden model's config and tokenizer, with sizes that llama.cpp can compute.
inline run::TextModel with_config(const std::string& name,
                                  const std::function<void(nn::DecoderConfig&)>& change) {
  const GoldenFamily golden(name);
  const run::TextModel model = golden.load();
  nn::DecoderConfig c = model.gpt.config;
  change(c);
  return model_of(model.tokenizer, c);
}

// From Hugging Face's layout to GGUF and back: the same logits to the bit, and the same file once
// more.
inline void check_both_ways(const run::TextModel& drawn, const std::string& type = "f32") {
  const TempFolder out;
  export_to("hf", drawn, out / "hf", type);
  const run::TextModel model = run::load(out / "hf");
  const Tensor ids = some_ids(model);
  const Tensor logits = model.gpt(ids);
  export_to("gguf", model, out / "model.gguf");
  const run::TextModel back = run::load(out / "model.gguf");
  CHECK(same_bits(back.gpt(ids), logits));
  export_to("gguf", back, out / "again.gguf");
  CHECK(TempFolder::get(out / "again.gguf") == TempFolder::get(out / "model.gguf"));
  export_to("hf", back, out / "hf2");
  CHECK(same_bits(run::load(out / "hf2").gpt(ids), logits));
}

// A file with one key changed, and what is said of it.
inline std::string with_key(const fs::path& file, const std::string& key, const GgufValue& value) {
  Edited edited(file);
  edited.keys[key] = value;
  return edited.complaint();
}

inline std::string without_key(const fs::path& file, const std::string& key) {
  Edited edited(file);
  edited.keys.erase(key);
  return edited.complaint();
}

// The same for a tensor.
inline std::string with_tensor(const fs::path& file, const std::string& name, const Tensor& t) {
  Edited edited(file);
  for (GgufTensor& tensor : edited.tensors) {
    if (tensor.name == name) tensor.shape = t.shape(), tensor.values = [t] { return t; };
  }
  return edited.complaint();
}

}  // namespace tapegrad::testing
