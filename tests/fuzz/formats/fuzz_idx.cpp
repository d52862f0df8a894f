// Arrays in MNIST's format, plain or packed by gzip.

#include "tapegrad/arrays/idx.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("images", fuzz::text_of(data, size));
  fuzz::accepts("images", [&] {
    if (arrays::load_idx(path).bytes() > 1032 * size) {
      fuzz::finding("more elements than the file can hold");
    }
  });
  return 0;
}
