#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::run {

// How weights lie in memory for texts and losses alone, packed (see QuantizedMatrix): "stored", as
// the files have them, or a type that all matrices are converted to while they are read. f32, bf16
// and f16 give the texts of f32 if the files have no more digits.
inline constexpr std::string_view kStored = "stored";
std::vector<std::string> quantized_weights();  // all of these
// For nn::Params::quantize(): null for "stored". Error, naming all, if it is none of these.
const StoredType* quantized_type(std::string_view weights);
void quantize(const nn::Params& params, std::string_view weights);  // as quantized_type() says

}  // namespace tapegrad::run
