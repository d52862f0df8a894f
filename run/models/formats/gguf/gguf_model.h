#pragma once

#include <filesystem>

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/foreign_model.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::run {

// Models in GGUF, the file of llama.cpp, of any stored type that ggml has, too. What would
// change the result and is not known here is an Error with the file and the key or the tensor:
// other architectures, other scalings of rotary positions, tokenizers that are not byte-level.

// True if it is a file that begins as GGUF does. It may be a link.
bool is_gguf_file(const std::filesystem::path& path);

// The architectures of the families. Of a model in several files, `path` is that of any of them.
ForeignModel open_gguf(const std::filesystem::path& path);

// Error if llama.cpp has no architecture that computes models of this config.
void check_gguf_config(const nn::DecoderConfig& config);
// Writes a file that llama.cpp runs, with the tokenizer. In f32, open_gguf() gives the same
// weights. Biases that llama.cpp demands and the model does not have are zeros; W_query, W_key and
// W_value become one tensor. A model whose tokenizer has no token to end texts gets one, see
// docs/interop.md. Error, before anything is written, for what llama.cpp cannot express.
Exported export_gguf(const TextModel& model, const std::filesystem::path& out,
                     const StoredType& type);
// True if weights of a file can be of this type.
bool is_gguf_type(const StoredType& type);

}  // namespace tapegrad::run
