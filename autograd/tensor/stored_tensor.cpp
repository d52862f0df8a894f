#include "tapegrad/autograd/tensor/stored_tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// Elements that a thread reads at least, and that are converted at a time.
constexpr std::int64_t kReadGrain = 1 << 16, kChunk = 1 << 15;

// The conversion of a type to T; null if there is none.
template <class T>
auto conversion(const StoredType& type) -> void (*)(const std::byte*, std::int64_t, T*) {
  if constexpr (std::is_same_v<T, float>) return type.to_f32;
  if constexpr (std::is_same_v<T, double>) return type.to_f64;
  if constexpr (std::is_same_v<T, std::int32_t>) return type.to_i32;
  return nullptr;
}

// Makes bytes of a file, which may be any, those of bool: 0 or 1.
template <class T>
void as_elements([[maybe_unused]] T* read, [[maybe_unused]] std::int64_t n) {
  if constexpr (std::is_same_v<T, bool>) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(read);
    for (std::int64_t i = 0; i < n; ++i) bytes[i] = bytes[i] != 0;
  }
}

}  // namespace

StoredTensor::StoredTensor(const StoredType& type, const Shape& shape, Read read, std::string label)
    : type_(&type), shape_(shape), read_(std::move(read)), label_(std::move(label)) {
  const auto bytes = stored_bytes(type, shape);
  check(bytes.has_value(), "{} of shape {} cannot be of {}", label_, shape, type.name);
  bytes_ = *bytes;
}

StoredTensor::StoredTensor(const StoredType& type, const Shape& shape, const InputFile& file,
                           std::uint64_t at, std::string label)
    : StoredTensor(
          type, shape,
          [&file, at](std::uint64_t offset, std::byte* to, std::size_t bytes) {
            return file.read(at + offset, to, bytes);
          },
          std::move(label)) {}

StoredTensor::StoredTensor(const Tensor& t, std::string label)
    : StoredTensor(
          stored_type(t.dtype()), t.shape(),
          [t](std::uint64_t offset, std::byte* to, std::size_t bytes) {
            std::memcpy(to, bytes_of(t).data() + offset, bytes);
            return true;
          },
          std::move(label)) {
  in_memory_ = t;
}

bool StoredTensor::read(std::uint64_t offset, std::byte* to, std::size_t bytes) const {
  return offset <= bytes_ && bytes <= bytes_ - offset && (bytes == 0 || read_(offset, to, bytes));
}

void StoredTensor::read_or_fail(std::uint64_t offset, void* to, std::size_t bytes) const {
  check(read(offset, static_cast<std::byte*>(to), bytes), "reading it failed");
}

Tensor StoredTensor::widened(DType as) const {
  try {
    Tensor t = Tensor::empty(shape_, as);
    dispatch_all(as, [&](auto zero) {
      using T = decltype(zero);
      T* const out = t.mutable_data<T>();
      check(type_->is(as) || conversion<T>(*type_) != nullptr, "{} cannot be read as {}",
            type_->name, name_of(as));
      transposed_ ? fill_transposed(out) : fill(out);
    });
    return t;
  } catch (const Error& error) {
    fail("{}: {}", label_, error.what());
  }
}

template <class T>
void StoredTensor::fill(T* out) const {
  const auto convert = conversion<T>(*type_);
  const bool as_is = type_->is(dtype_of<T>());
  const std::int64_t block = type_->block, chunk = std::max<std::int64_t>(1, kChunk / block);
  const auto bytes_of_blocks = [&](std::int64_t blocks) {
    return static_cast<std::size_t>(blocks * type_->block_bytes);
  };
  // The parts of a file that the system has in memory are copied as fast as all threads can.
  const std::int64_t grain = std::max<std::int64_t>(1, kReadGrain / block);
  parallel_for(shape_.numel() / block, grain, [&](std::int64_t begin, std::int64_t end) {
    if (as_is) {
      read_or_fail(bytes_of_blocks(begin), out + begin, bytes_of_blocks(end - begin));
      return as_elements(out + begin, end - begin);
    }
    std::vector<std::byte> stored(bytes_of_blocks(std::min(chunk, end - begin)));
    for (std::int64_t b = begin; b < end; b += chunk) {
      const std::int64_t count = std::min(chunk, end - b);
      read_or_fail(bytes_of_blocks(b), stored.data(), bytes_of_blocks(count));
      convert(stored.data(), count * block, out + b * block);
    }
  });
}

template <class T>
void StoredTensor::fill_transposed(T* out) const {
  const std::int64_t size = shape_[-1] * shape_[-2], count = shape_.rank() == 3 ? shape_[0] : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    fill_matrix(static_cast<std::uint64_t>(i * size * type_->block_bytes), out + i * size);
  }
}

// Of the matrix that begins at a byte. A stored row is a column here. A tile of them at a time:
// what they write to a row stands side by side.
template <class T>
void StoredTensor::fill_matrix(std::uint64_t first_byte, T* out) const {
  constexpr std::int64_t kTile = 64;
  const std::int64_t columns = shape_[-2], rows = shape_[-1];  // as stored
  const auto convert = conversion<T>(*type_);
  const bool as_is = type_->is(dtype_of<T>());
  const auto row_bytes = static_cast<std::uint64_t>(columns * type_->block_bytes);
  parallel_for((rows + kTile - 1) / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t most = std::min(kTile, rows) * columns;
    std::vector<std::byte> stored(as_is ? 0 : static_cast<std::size_t>(most * type_->block_bytes));
    const std::unique_ptr<T[]> tile(new T[static_cast<std::size_t>(most)]);
    for (std::int64_t first = begin * kTile; first < std::min(rows, end * kTile); first += kTile) {
      const std::int64_t count = std::min(kTile, rows - first);
      const std::uint64_t at = first_byte + static_cast<std::uint64_t>(first) * row_bytes;
      const auto bytes = static_cast<std::size_t>(static_cast<std::uint64_t>(count) * row_bytes);
      if (as_is) {
        read_or_fail(at, tile.get(), bytes);
        as_elements(tile.get(), count * columns);
      } else {
        read_or_fail(at, stored.data(), bytes);
        convert(stored.data(), count * columns, tile.get());
      }
      for (std::int64_t k = 0; k < columns; ++k) {
        for (std::int64_t r = 0; r < count; ++r) {
          out[k * rows + first + r] = tile[static_cast<std::size_t>(r * columns + k)];
        }
      }
    }
  });
}

bool StoredTensor::same_bytes(const StoredTensor& other) const {
  if (type_ != other.type_ || shape_ != other.shape_ || transposed_ != other.transposed_) {
    return false;
  }
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;
  std::vector<std::byte> ours(std::min(kChunk, bytes_)), theirs(ours.size());
  for (std::uint64_t at = 0; at < bytes_; at += kChunk) {
    const auto size = static_cast<std::size_t>(std::min(kChunk, bytes_ - at));
    read_or_fail(at, ours.data(), size);
    other.read_or_fail(at, theirs.data(), size);
    if (std::memcmp(ours.data(), theirs.data(), size) != 0) return false;
  }
  return true;
}

StoredTensor StoredTensor::transposed() const {
  check((shape_.rank() == 2 || shape_.rank() == 3) && type_->block == 1,
        "{} of shape {} and type {} cannot be transposed as it is stored", label_, shape_,
        type_->name);
  StoredTensor t = *this;
  t.shape_ = shape_.with(-1, shape_[-2]).with(-2, shape_[-1]);
  t.transposed_ = !transposed_;
  return t;
}

StoredTensor StoredTensor::rows(std::int64_t count, RowPlace place) const {
  check(shape_.rank() > 0 && shape_[0] > 0 && !transposed_ &&
            (shape_.rank() > 1 || type_->block == 1),
        "{} of shape {} and type {} has no rows that can move as they are stored", label_, shape_,
        type_->name);
  const std::uint64_t row = bytes_ / static_cast<std::uint64_t>(shape_[0]);
  const auto read = [from = *this, row, place = std::move(place)](
                        std::uint64_t offset, std::byte* to, std::size_t bytes) {
    while (bytes > 0) {
      const std::uint64_t within = offset % row;
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, row - within));
      const auto source =
          static_cast<std::uint64_t>(place(static_cast<std::int64_t>(offset / row)));
      if (!from.read(source * row + within, to, size)) return false;
      offset += size, to += size, bytes -= size;
    }
    return true;
  };
  StoredTensor t(*type_, shape_.with(0, count), read, label_);
  t.in_memory_ = in_memory_;
  return t;
}

StoredTensor StoredTensor::first_rows(std::int64_t count) const {
  check(shape_.rank() > 0 && !transposed_ && count <= shape_[0],
        "{} of shape {} has no first {} rows as it is stored", label_, shape_, count);
  StoredTensor t(*type_, shape_.with(0, count), read_, label_);
  t.in_memory_ = in_memory_;
  return t;
}

StoredTensor StoredTensor::part(std::int64_t i) const {
  check(shape_.rank() > (transposed_ ? 2 : 1) && i >= 0 && i < shape_[0],
        "{} of shape {} has no part {} as it is stored", label_, shape_, i);
  const std::uint64_t at =
      bytes_ / static_cast<std::uint64_t>(shape_[0]) * static_cast<std::uint64_t>(i);
  StoredTensor t(
      *type_, shape_.without(0),
      [from = *this, at](std::uint64_t offset, std::byte* to, std::size_t bytes) {
        return from.read(at + offset, to, bytes);
      },
      fmt::format("{}, part {}", label_, i));
  t.in_memory_ = in_memory_;
  t.transposed_ = transposed_;
  return t;
}

StoredTensor StoredTensor::stack(std::vector<StoredTensor> parts, std::string label) {
  check(!parts.empty(), "{} has no parts", label);
  const StoredTensor& first = parts.front();
  for (const StoredTensor& part : parts) {
    check(part.type_ == first.type_ && part.shape_ == first.shape_ && !part.transposed_,
          "{} cannot be one tensor: a part is {} of shape {}, another {} of shape {}", label,
          first.type_->name, first.shape_, part.type_->name, part.shape_);
  }
  const StoredType& type = *first.type_;
  const Shape shape = first.shape_.inserted(0, std::ssize(parts));
  const std::uint64_t size = first.bytes_;
  const auto read = [size, parts = std::move(parts)](std::uint64_t offset, std::byte* to,
                                                     std::size_t bytes) {
    while (bytes > 0) {
      const std::uint64_t within = offset % size;
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, size - within));
      if (!parts[static_cast<std::size_t>(offset / size)].read(within, to, count)) return false;
      offset += count, to += count, bytes -= count;
    }
    return true;
  };
  return {type, shape, read, std::move(label)};
}

std::string_view bytes_of(const Tensor& t) {
  const char* bytes = nullptr;
  dispatch_all(t.dtype(),
               [&](auto zero) { bytes = reinterpret_cast<const char*>(t.data<decltype(zero)>()); });
  return {bytes, t.bytes()};
}

}  // namespace tapegrad
