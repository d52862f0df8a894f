#pragma once

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/run/models/gguf_support.h"

namespace tapegrad::testing {

using Files = std::map<std::string, std::string>;

inline const std::string kChat =
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\u00e9{% endfor %}";

// Files of a model's folder of Hugging Face's beside its weights, with spellings, orders and
// keys that nobody here knows.
inline const Files kSettings = {
    {"tokenizer_config.json",
     R"({"zebra": [1, {"a": 1.50e2}],  "chat_template": "other", "pad_token": "<tool>",)"
     R"("bos_token": {"content": "<|endoftext|>", "lstrip": false},"unk_token": null,)"
     R"("model_max_length": 1000000000000000019884624838656, "tokenizer_class": "MyTokenizer"})"},
    {"special_tokens_map.json", "{\n  \"mask_token\":   \"<tool>\", \"extra\": []\n}\n\n"},
    {"generation_config.json",
     R"({ "eos_token_id":[0, 400],"temperature": 0.60,"top_k":20, "strange":null,"pad_token_id":400})"},
    {"chat_template.jinja", kChat + "\r\n\n"}};

// A tiny Llama in a folder of Hugging Face's, with these settings.
inline fs::path put_hf_model(const TempFolder& folder, const Files& settings = kSettings,
                             const std::string& name = "in") {
  fs::create_directories(folder / name);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::copy(golden_file("hf_llama") / file, folder / name / file);
  }
  for (const auto& [file, bytes] : settings) folder.put(name + "/" + file, bytes);
  return folder / name;
}

// The same as GGUF: keys that are said otherwise than here, or that nobody here knows.
inline fs::path put_gguf_model(const TempFolder& folder, const std::string& name = "in.gguf") {
  const GgufFile file(golden_file("gguf_llama.gguf"));
  GgufKeys keys = file.keys();
  const auto number = [](std::uint32_t type, std::size_t bytes, char first) {
    std::string value(bytes, '\0');
    value[0] = first;
    return GgufStored{type, value};
  };
  keys["general.name"] = std::string("A small model");
  keys["general.tags"] = std::vector<std::string>{"chat", "tiny"};
  keys["general.sampling.temp"] = 0.625;
  keys["general.sampling.top_k"] = number(5, 4, 40);  // i32
  keys["general.strange"] = number(11, 8, 7);         // i64
  keys["tokenizer.chat_template"] = kChat;
  keys["tokenizer.chat_template.tool_use"] = std::string("tools");
  keys["tokenizer.chat_templates"] = std::vector<std::string>{"tool_use"};
  keys["tokenizer.ggml.padding_token_id"] = std::int64_t{2};
  keys["tokenizer.ggml.scores"] = std::vector<double>{0.5, -1};
  keys["tokenizer.ggml.strange"] = number(0, 1, 9);  // u8
  keys["quantize.imatrix.file"] = std::string("matrix.dat");
  std::vector<GgufTensor> tensors;
  for (const auto& [tensor, entry] : file.entries()) {
    tensors.push_back({tensor, &stored_type("f32"), entry.shape,
                       [&file, t = std::string(tensor)] { return file.read(t, DType::f32); }});
  }
  write_gguf(folder / name, keys, tensors);
  return folder / name;
}

inline void export_as(const std::string& format, const run::TextModel& model, const fs::path& out,
                      const StoredType& type = stored_type("f32")) {
  run::export_model(model, run::export_format(format), out, type);
}

}  // namespace tapegrad::testing
