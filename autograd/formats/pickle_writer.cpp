#include "tapegrad/autograd/formats/pickle_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace tapegrad {
namespace {

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

std::string PickleWriter::take() {
  bytes_ += '.';
  return std::move(bytes_);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    bytes_ += 'J';
    bytes_ += bytes_of(static_cast<std::int32_t>(value));
  } else {
    bytes_ += "\x8a\x08";
    bytes_ += bytes_of(value);
  }
}

void PickleWriter::number(double value) {
  auto big = std::bit_cast<std::array<char, 8>>(value);
  std::reverse(big.begin(), big.end());
  bytes_ += 'G';
  bytes_.append(big.data(), big.size());
}

void PickleWriter::text(std::string_view utf8) {
  bytes_ += 'X';
  bytes_ += bytes_of(static_cast<std::uint32_t>(utf8.size()));
  bytes_ += utf8;
}

void PickleWriter::begin_ordered_dict() { bytes_ += "ccollections\nOrderedDict\n)R("; }

void PickleWriter::tensor(std::string_view key, const std::vector<std::int64_t>& shape) {
  const auto tuple = [&](const std::vector<std::int64_t>& numbers) {
    begin_tuple();
    for (const std::int64_t n : numbers) integer(n);
    end_tuple();
  };
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0; elements *= shape[i]) strides[i] = elements;
  bytes_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
  text("storage");
  bytes_ += "ctorch\nFloatStorage\n";
  text(key);
  text("cpu");
  integer(elements);
  bytes_ += "tQ";  // the persistent id of the storage
  integer(0);
  tuple(shape);
  tuple(strides);
  boolean(false);
  begin_ordered_dict();
  end_dict();
  bytes_ += "tR";
}

}  // namespace tapegrad
