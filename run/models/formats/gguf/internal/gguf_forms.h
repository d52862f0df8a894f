#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"

namespace tapegrad::run {

// Tensors of GGUF files as ours, and ours as files have them: numbers, shapes and parts. See
// GgufTensorName.

// True if the elements or the shape of one differ: it is computed, and no quantised one.
bool is_computed(const GgufName& name);

// The shape of ours of which a file has a tensor, or one of several parts. Error, with `file`, if
// the file's shape is none of those of the name's form.
Shape our_shape(const GgufName& name, const Shape& theirs, std::string_view file);
// The inverse of our_shape().
Shape file_shape(const GgufName& name, const Shape& ours);

// A tensor of a file with our elements and shape. Error, with `file`, for rates that are not below
// 0. What file_tensor() has made of ours gives the same exponentials again, to the bit.
Tensor our_tensor(const GgufName& name, const Tensor& theirs, std::string_view file);
// What a file has of a tensor of ours, whose rows and columns stay where they are.
Tensor file_tensor(const GgufName& name, const Tensor& ours);

// Rows or columns of a tensor of a file in our order, and in the file's those of ours, one tensor
// or several.
Tensor our_order(const GgufName& name, const Tensor& theirs, const nn::DecoderConfig& config);
Tensor file_order(const std::vector<GgufName>& names, const std::vector<Tensor>& ours,
                  const nn::DecoderConfig& config);
// The same for elements as they are stored. Columns: of whole blocks, see can_move().
StoredTensor our_order(const GgufName& name, const StoredTensor& theirs,
                       const nn::DecoderConfig& config);
// False for columns whose heads are no whole blocks of the type.
bool can_move(const GgufName& name, const StoredType& type, const nn::DecoderConfig& config);

// Parts (…, m, n) as one tensor (…, k·m, n), whose elements stay as they are stored. Error, with
// the label, if they have different types or shapes.
StoredTensor joined_parts(std::vector<StoredTensor> parts, const std::string& label);

}  // namespace tapegrad::run
