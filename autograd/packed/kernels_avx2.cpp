#include "tapegrad/autograd/packed/kernels.h"
#include "tapegrad/autograd/packed/vector_avx2.h"

namespace tapegrad::packed {

const Multiply* const kAvx2Kernels = kernels_of<Avx2>();

}  // namespace tapegrad::packed
