#include "tapegrad/autograd/quantized/kernels.h"
#include "tapegrad/autograd/quantized/kernels/vector_neon.h"

namespace tapegrad::quantized {

const Multiply* const kNeonKernels = kernels_of<Neon>();

}  // namespace tapegrad::quantized
