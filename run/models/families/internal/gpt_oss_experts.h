#pragma once

#include <memory>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::run {

// gpt-oss's files have the experts of a block in tensors of their own form: gate_up_proj (E, in,
// 2·hidden), whose even columns are the gate's and whose odd ones are what it multiplies, and
// down_proj (E, hidden, in), with biases beside them; or, in place of a matrix (E, in, out), its
// _blocks (E, out, in / 32, 16) and _scales (E, out, in / 32) of MXFP4, both u8.

// Files whose experts are gate_proj, up_proj and down_proj (E, out, in), as they are stored: those
// of MXFP4 in blocks as GGUF has them. The other tensors are the files'. Errors: shapes that do not
// fit; blocks without scales, or the other way round; a tensor that is there twice.
std::vector<std::shared_ptr<const TensorSource>> gpt_oss_experts_apart(
    const std::vector<std::shared_ptr<const TensorSource>>& files);

// A model's tensors as files have them.
std::vector<TensorToMake> gpt_oss_experts_joined(std::vector<TensorToMake> tensors);

}  // namespace tapegrad::run
