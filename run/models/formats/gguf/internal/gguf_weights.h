#pragma once

#include <memory>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// A file's tensors by our names and in our shapes. Errors, with the file: a tensor is missing, is
// none of such a model, or has a shape that its name cannot have.
std::shared_ptr<const TensorSource> gguf_weights(std::shared_ptr<const GgufFile> file,
                                                 const Family& family,
                                                 const nn::DecoderConfig& config);

}  // namespace tapegrad::run
