#include "tapegrad/autograd/packed/kernels.h"
#include "tapegrad/autograd/packed/vector_neon.h"

namespace tapegrad::packed {

const Multiply* const kNeonKernels = kernels_of<Neon>();

}  // namespace tapegrad::packed
