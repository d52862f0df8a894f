#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {

// A model that another program has made, by our names and in our layout. Its weights are read from
// its files when they are asked for.
struct ForeignModel {
  nn::DecoderConfig config;  // dropout is 0, whatever the file says: it is the run's choice
  data::Tokenizer tokenizer;
  std::shared_ptr<const TensorSource> weights;
  ModelSettings settings = {};
};

// Opens a file or folder in any of the formats of this folder. Nothing if it is in none of them;
// Error if it is, but is broken or not supported.
std::optional<ForeignModel> open_foreign(const std::filesystem::path& path);
// True if it is in one of them, be it broken or not. Reads its first bytes at most.
bool is_foreign(const std::filesystem::path& path);

}  // namespace tapegrad::run
