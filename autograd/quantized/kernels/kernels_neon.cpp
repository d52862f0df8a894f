#include "tapegrad/autograd/quantized/internal/kernels.h"
#include "tapegrad/autograd/quantized/kernels/internal/vector_neon.h"

namespace tapegrad::quantized {

const Multiply* const kNeonKernels = kernels_of<Neon>();

}  // namespace tapegrad::quantized
