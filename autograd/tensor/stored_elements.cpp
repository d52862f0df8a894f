#include "tapegrad/autograd/tensor/stored_elements.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "tapegrad/base/half.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// Elements that a thread reads at least.
constexpr std::int64_t kReadGrain = 1 << 16;

// Converts an element that a file holds to T.
template <class T, class Stored>
T widened(Stored x) {
  if constexpr (std::is_arithmetic_v<Stored>) {
    return static_cast<T>(x);
  } else {
    return static_cast<T>(to_float(x));
  }
}

// Reads elements that are stored from byte `at` of the file on. False if that fails.
template <class Stored, class T>
bool read_range(const InputFile& file, std::uint64_t at, std::size_t count, T* out) {
  if constexpr (std::is_same_v<Stored, T>) {
    return file.read(at, out, count * sizeof(T));
  } else {
    constexpr std::size_t kChunk = std::size_t{1} << 15;
    std::vector<Stored> chunk(std::min(kChunk, count));
    for (std::size_t i = 0; i < count; i += kChunk) {
      const std::size_t size = std::min(kChunk, count - i);
      if (!file.read(at + i * sizeof(Stored), chunk.data(), size * sizeof(Stored))) return false;
      std::transform(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(size), out + i,
                     widened<T, Stored>);
    }
    return true;
  }
}

template <class Stored, class T>
bool read_elements(const InputFile& file, std::uint64_t at, std::int64_t n, T* out) {
  std::atomic<bool> failed = false;
  // What the system has of the file in memory is copied as fast as all threads can.
  parallel_for(n, kReadGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::uint64_t from = at + static_cast<std::uint64_t>(begin) * sizeof(Stored);
    const auto count = static_cast<std::size_t>(end - begin);
    if (!read_range<Stored>(file, from, count, out + begin)) failed = true;
  });
  return !failed;
}

}  // namespace

bool read_stored(const InputFile& file, std::uint64_t at, std::string_view stored, Tensor& out) {
  bool done = false;
  const auto read = [&](auto kind, auto element) {
    using T = decltype(element);
    done = read_elements<decltype(kind)>(file, at, out.numel(), out.mutable_data<T>());
  };
  const auto read_floats = [&](auto kind) {
    dispatch(out.dtype(), [&](auto element) { read(kind, element); });
  };
  if (stored == "F32") read_floats(float{});
  if (stored == "F64") read_floats(double{});
  if (stored == "F16") read_floats(f16{});
  if (stored == "BF16") read_floats(bf16{});
  if (stored == "I32") read(std::int32_t{}, std::int32_t{});
  if (stored == "U8") read(std::uint8_t{}, std::uint8_t{});
  return done;
}

}  // namespace tapegrad
