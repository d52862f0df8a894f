#include "tapegrad/autograd/tensor/stored_type.h"

#include <fmt/ranges.h>

namespace tapegrad {

const std::vector<StoredType>& stored_types() {
  static const std::vector<StoredType> all = [] {
    std::vector<StoredType> types;
    for (const auto rows : {detail::element_types(), detail::block_types(),
                            detail::super_block_types(), detail::short_block_types()}) {
      types.insert(types.end(), rows.begin(), rows.end());
    }
    return types;
  }();
  return all;
}

const StoredType& stored_type(std::string_view name) {
  for (const StoredType& type : stored_types()) {
    if (type.name == name) return type;
  }
  fail("there is no stored type '{}', only {}", name,
       names_of(stored_types_where([](const StoredType&) { return true; })));
}

const StoredType& stored_type(DType dtype) { return stored_type(name_of(dtype)); }

std::string names_of(const std::vector<const StoredType*>& types) {
  std::vector<std::string_view> names;
  for (const StoredType* type : types) names.push_back(type->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::uint64_t> stored_bytes(const StoredType& type, const Shape& shape) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (type.block > 1 && (shape.rank() == 0 || shape[-1] % type.block != 0)) return std::nullopt;
  std::uint64_t elements = 1;
  for (const std::int64_t dim : shape) {
    if (dim == 0) return 0;
  }
  for (const std::int64_t dim : shape) {
    const auto size = static_cast<std::uint64_t>(dim);
    if (size > kMost / elements) return std::nullopt;
    elements *= size;
  }
  const std::uint64_t blocks = elements / static_cast<std::uint64_t>(type.block);
  const auto bytes = static_cast<std::uint64_t>(type.block_bytes);
  if (blocks > kMost / bytes) return std::nullopt;
  return blocks * bytes;
}

}  // namespace tapegrad
