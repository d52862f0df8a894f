#include "tapegrad/autograd/quantized/kernels.h"
#include "tapegrad/autograd/quantized/kernels/vector_plain.h"

namespace tapegrad::quantized {

const Multiply* const kPlainKernels = kernels_of<Plain>();

}  // namespace tapegrad::quantized
