#include "tapegrad/autograd/packed/kernels.h"
#include "tapegrad/autograd/packed/vector_avx512.h"

namespace tapegrad::packed {

const Multiply* const kAvx512Kernels = kernels_of<Avx512>();

}  // namespace tapegrad::packed
