#include "tapegrad/autograd/packed/kernels.h"
#include "tapegrad/autograd/packed/vector_plain.h"

namespace tapegrad::packed {

const Multiply* const kPlainKernels = kernels_of<Plain>();

}  // namespace tapegrad::packed
