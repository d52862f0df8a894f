#include "tapegrad/arrays/idx.h"

#include <algorithm>
#include <optional>

#include "tapegrad/arrays/internal/byte_source.h"

namespace tapegrad::arrays {
namespace {

std::optional<DType> dtype_of_code(unsigned char code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

// Elements are in big-endian order.
template <class T>
void read_reversed(ByteSource& source, T* to, std::int64_t count) {
  source.read(to, sizeof(T) * static_cast<std::size_t>(count));
  if constexpr (sizeof(T) > 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      char* const bytes = reinterpret_cast<char*>(to + i);
      std::reverse(bytes, bytes + sizeof(T));
    }
  }
}

}  // namespace

Tensor load_idx(const std::filesystem::path& path) {
  ByteSource source = ByteSource::of_file(path);
  unsigned char magic[4];
  source.read(magic, sizeof magic);
  check(magic[0] == 0 && magic[1] == 0, "{}: it does not begin as an IDX file does", source.name());
  const std::optional<DType> dtype = dtype_of_code(magic[2]);
  check(dtype.has_value(), "{}: its type is 0x{:02X}; read are 0x08, 0x0C, 0x0D and 0x0E",
        source.name(), magic[2]);
  check(magic[3] <= Shape::kMaxRank, "{}: its array has {} dimensions; {} are the most",
        source.name(), magic[3], +Shape::kMaxRank);
  Shape shape;
  for (int i = 0; i < magic[3]; ++i) {
    std::int32_t dim = 0;
    read_reversed(source, &dim, 1);
    shape.push_back(static_cast<std::uint32_t>(dim));
  }
  source.check_room(shape, size_of(*dtype));
  Tensor tensor = Tensor::empty(shape, *dtype);
  dispatch_all(*dtype, [&](auto zero) {
    using T = decltype(zero);
    read_reversed(source, tensor.mutable_data<T>(), tensor.numel());
  });
  source.check_end();
  return tensor;
}

}  // namespace tapegrad::arrays
