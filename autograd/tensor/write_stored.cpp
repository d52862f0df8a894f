#include "tapegrad/autograd/tensor/internal/write_stored.h"

#include <algorithm>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// Converts `t` and gives the bytes to `take`, in order. Pieces are whole blocks, also where a type
// has larger ones than any that there is.
template <class Take>
void convert(std::string_view name, const Tensor& t, const StoredType& type, const Take& take) {
  check(type.from_f32 != nullptr, "'{}' cannot be stored as {}, which is only read", name,
        type.name);
  const std::int64_t piece = std::max<std::int64_t>(1, (1 << 14) / type.block) * type.block;
  const std::int64_t pieces = 64;  // at a time
  const float* const from = t.data<float>();
  const auto bytes_of = [&](std::int64_t n) {
    return static_cast<std::size_t>(n / type.block * type.block_bytes);
  };
  std::vector<std::byte> stored(bytes_of(std::min(t.numel(), pieces * piece)));
  for (std::int64_t begin = 0; begin < t.numel(); begin += pieces * piece) {
    const std::int64_t n = std::min(pieces * piece, t.numel() - begin);
    parallel_for((n + piece - 1) / piece, 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first * piece; i < std::min(n, last * piece); i += piece) {
        const std::int64_t count = std::min(piece, n - i);
        const float* const values = from + begin + i;
        const std::int64_t fit = type.from_f32(values, count, stored.data() + bytes_of(i));
        if (fit < count) {
          fail("'{}' has the value {}, which {} cannot hold", name, values[fit], type.name);
        }
      }
    });
    take(std::string_view(reinterpret_cast<const char*>(stored.data()), bytes_of(n)));
  }
}

}  // namespace

void write_stored(FileWriter& file, std::string_view name, const Tensor& t,
                  const StoredType& type) {
  if (type.is(t.dtype())) return file.write(bytes_of(t));
  convert(name, t, type, [&](std::string_view bytes) { file.write(bytes); });
}

void check_fits(std::string_view name, const Tensor& t, const StoredType& type) {
  if (!type.is(t.dtype())) convert(name, t, type, [](std::string_view) {});
}

}  // namespace tapegrad
