// numpy's files, and archives of them. Deflate packs a byte into 1,032 at best.

#include "tapegrad/arrays/npy.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const bool is_archive = text.starts_with("PK");
  const auto path = fuzz::put("array", text);
  fuzz::accepts("array", [&] {
    std::size_t bytes = 0;
    if (is_archive) {
      for (const auto& [name, tensor] : arrays::load_npz(path)) bytes += tensor.bytes();
    } else {
      const Tensor tensor = arrays::load_npy(path);
      bytes = tensor.bytes();
      arrays::save_npy(fuzz::folder() / "again", tensor);
      const Tensor again = arrays::load_npy(fuzz::folder() / "again");
      if (again.shape() != tensor.shape()) fuzz::finding("another shape when saved");
    }
    if (bytes > 1032 * size) fuzz::finding("more elements than the file can hold");
  });
  return 0;
}
