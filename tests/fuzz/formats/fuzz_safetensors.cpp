// Models and optimiser states.

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::put("model.safetensors", fuzz::text_of(data, size));
  fuzz::accepts("model.safetensors", [&] {
    const SafeTensors file = load_safetensors(path);
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes();
    // f16 and bf16 become floats of twice their size.
    if (bytes > 2 * size) fuzz::finding("more tensors than bytes");
  });
  return 0;
}
