#pragma once

#include <memory>
#include <string>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/nn/decoder_config.h"

namespace tapegrad::run {

// Other views of a source of tensors, of which nothing is copied.

// The tensors of a model with the first config.block_size of its learned positions, if it has any.
std::shared_ptr<const TensorSource> first_positions(std::shared_ptr<const TensorSource> source,
                                                    const nn::DecoderConfig& config);
// The tensors of both. Error, naming both sources, if one name is in both.
std::shared_ptr<const TensorSource> joined(std::shared_ptr<const TensorSource> one,
                                           std::shared_ptr<const TensorSource> other);

// The adapters among the tensors of a source: see nn/lora/lora.h.
std::shared_ptr<const TensorSource> adapters_among(std::shared_ptr<const TensorSource> source);

// A text that tells whether a source has the same tensors: their names, types, shapes and bytes. It
// is read once, by all threads, at about a gigabyte per second and thread.
std::string fingerprint_of(const TensorSource& source);

}  // namespace tapegrad::run
