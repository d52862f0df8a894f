#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/formats/tensor_source.h"

namespace tapegrad::run {

// The files with the weights of a folder in Hugging Face's layout, under the names that
// transformers looks for, in its order: model.safetensors, those of model.safetensors.index.json,
// pytorch_model.bin, those of pytorch_model.bin.index.json. Error for a folder without any of them,
// which says what is there instead: files without their index, or an adapter.
std::vector<std::shared_ptr<const TensorSource>> open_hf_weights(
    const std::filesystem::path& folder);

// What to do with weights that another program has quantised, for messages.
inline constexpr std::string_view kQuantisedRemedy =
    "open the original model, or save this one as floats: in transformers, "
    "model.dequantize().save_pretrained(...)";

// The tensors of a file of safetensors or of torch.save, by the end of its name.
std::shared_ptr<const TensorSource> open_weights(const std::filesystem::path& path);

// Error, which says what it is, for a tensor that is not of floats.
void check_is_float(const TensorSource& file, const std::string& tensor);

// Error, with the model that it belongs to, if the folder has an adapter of PEFT's.
void refuse_peft_folder(const std::filesystem::path& folder);

}  // namespace tapegrad::run
