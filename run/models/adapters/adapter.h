#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/params.h"
#include "tapegrad/run/folder/file_names.h"

namespace tapegrad::run {

// LoRA adapters without the model that they belong to (nn/lora/lora.h), as other programs keep
// them:
//   PEFT        a folder with adapter_config.json and adapter_model.safetensors or .bin
//   llama.cpp   a GGUF file whose general.type is adapter
struct Adapter {
  nn::LoraOptions options;  // whose targets are the layers that have one
  // By our names: "layers.0.self_attn.q_proj.lora_A.weight" (rank, in) and "….lora_B.weight" (out,
  // rank).
  std::shared_ptr<const TensorSource> tensors;
};

// The adapters at a path, for a model of this config. Errors name the file and what is not as it
// should be: it is in neither form; it is for another architecture, or asks for what is not
// supported (DoRA, biases, embeddings, other modules that are saved whole);
// tensors are missing. Whether shapes fit is seen where the model is made.
Adapter open_adapter(const std::filesystem::path& path, const nn::DecoderConfig& config);

// Writes them in f32. `base` is what PEFT's file calls the model. Error, before anything is
// written, if the other program has no such model.
void write_peft(const std::filesystem::path& folder, const Adapter& adapter,
                const nn::DecoderConfig& config, const std::string& base);
void write_gguf_adapter(const std::filesystem::path& path, const Adapter& adapter,
                        const nn::DecoderConfig& config);

// Helpers that the two forms share.

// The layers that have an adapter: "layers.0.self_attn.q_proj".
std::vector<std::string> adapted_layers(const TensorSource& tensors);
// Their names behind the number of the block, "self_attn.q_proj", if each is there in all of
// n_layer blocks; else nothing.
std::optional<std::vector<std::string>> names_in_blocks(const std::vector<std::string>& layers,
                                                        int n_layer);

// A tensor of adapters, under the name that another file has for it. Its rows may be those of heads
// that are exchanged: see GgufTensorName.
struct AdapterPlace {
  std::string theirs;
  std::int64_t exchanged_heads = 0;
};
// The rank, alpha and scaling of a layer's adapter, "layers.0.self_attn.q_proj", whose first matrix
// has so many rows.
using OptionsOfLayer = std::function<nn::LoraOptions(const std::string& layer, std::int64_t rank)>;
// These tensors of a file by our names, as adapters of these options. Where layers differ, all get
// the largest rank, with zeros in the rows that a layer lacks, and B makes up for another scale:
// the same function. Errors: a layer has one matrix only; a rank is another one; there are none.
Adapter adapter_of(std::shared_ptr<const TensorSource> file,
                   std::map<std::string, AdapterPlace> places, const OptionsOfLayer& options_of,
                   int n_layer);

Adapter open_peft(const std::filesystem::path& folder, const nn::DecoderConfig& config);
Adapter open_gguf_adapter(const std::filesystem::path& path, const nn::DecoderConfig& config);

}  // namespace tapegrad::run
