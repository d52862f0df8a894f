#include "tapegrad/autograd/quantized/internal/kernels.h"
#include "tapegrad/autograd/quantized/kernels/internal/vector_avx512.h"

namespace tapegrad::quantized {

const Multiply* const kAvx512Kernels = kernels_of<Avx512>();

}  // namespace tapegrad::quantized
