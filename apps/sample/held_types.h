#pragma once

#include <string>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::sampling {

// The types of a source's tensors by their shares of the bytes, the largest first, and how many
// bits a weight takes: "q4_k 62.1 %, q6_k 37.5 %, f32 0.4 %; 5.1 bits a weight". Tensors that are
// computed when they are read do not count. Empty if all are f32.
std::string held_types(const TensorSource& weights);

// Says on stderr which matrices of a model that was packed as the type of --weights are of another
// one, if there are any. Null stands for "stored", which says nothing.
void note_other_types(const StoredType* asked, const nn::Params& params);

}  // namespace tapegrad::sampling
