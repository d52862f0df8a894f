#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "tapegrad/autograd/tensor/tensor_source.h"

namespace tapegrad::run {

// The files with the weights of a folder in Hugging Face's layout, under the names that
// transformers looks for, in its order: model.safetensors, those of model.safetensors.index.json,
// pytorch_model.bin, those of pytorch_model.bin.index.json. Error for a folder without any of them,
// which says what is there instead: files without their index, or an adapter.
std::vector<std::shared_ptr<const TensorSource>> open_hf_weights(
    const std::filesystem::path& folder);

// Error, with the model that it belongs to, if the folder has an adapter of PEFT's.
void refuse_peft_folder(const std::filesystem::path& folder);

}  // namespace tapegrad::run
