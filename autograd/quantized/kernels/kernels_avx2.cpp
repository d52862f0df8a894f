#include "tapegrad/autograd/quantized/internal/kernels.h"
#include "tapegrad/autograd/quantized/kernels/internal/vector_avx2.h"

namespace tapegrad::quantized {

const Multiply* const kAvx2Kernels = kernels_of<Avx2>();

}  // namespace tapegrad::quantized
