#include "tapegrad/autograd/quantized/internal/kernels.h"
#include "tapegrad/autograd/quantized/kernels/internal/vector_plain.h"

namespace tapegrad::quantized {

const Multiply* const kPlainKernels = kernels_of<Plain>();

}  // namespace tapegrad::quantized
