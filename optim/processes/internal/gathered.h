#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/optim/internal/shares.h"

namespace tapegrad::optim {

// Tensors for checkpoints, which rank 0 writes, of parts that all ranks have.

// The kept part of a fragment: as many elements of a tensor with `kept` elements as the fragment is
// of its parameter.
struct KeptPart {
  std::int64_t begin, size;
};
KeptPart part_of(const Fragment& f, std::int64_t kept, std::int64_t elements);

// (all) The tensor of that shape for a parameter of so many elements, on rank 0; on others an
// undefined tensor. `fragments` are all of the parameter, in the order of the buckets, and `part`
// is what belongs to those of this rank. Null: there is one process.
Tensor gather_fragments(Processes* processes, std::vector<Fragment> fragments,
                        std::int64_t elements, std::span<const float> part, const Shape& shape);
// (all) The tensors that all ranks have of one shape, side by side along a new first dimension, on
// rank 0.
Tensor gather_ranks(Processes* processes, const Tensor& own);
// Adds tensors that rank 0 has.
void add_whole(std::vector<TensorToMake>& tensors, const NamedTensors& whole);

}  // namespace tapegrad::optim
