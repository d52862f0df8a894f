#include "tapegrad/autograd/tensor/tensor.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

constexpr std::int64_t kGrain = 32768;

std::atomic<std::uint64_t> last_id{0};

// Error for the first float whose whole number To does not hold: its conversion would be undefined.
// Floats that a narrower one does not hold become infinite.
template <class From, class To>
void convert_elements(std::span<const From> in, To* out) {
  std::atomic<bool> all_fit = true;
  parallel_for(static_cast<std::int64_t>(in.size()), kGrain,
               [&, from = in.data()](std::int64_t begin, std::int64_t end) {
                 if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
                   const auto fits = [](From v) {
                     return holds(dtype_of<To>(), static_cast<double>(v));
                   };
                   if (!std::all_of(from + begin, from + end, fits)) {
                     all_fit = false;
                     return;
                   }
                 }
                 for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(from[i]);
               });
  if (all_fit) return;
  for (const From v : in) check_holds("to", dtype_of<To>(), static_cast<double>(v));
}

}  // namespace

Tensor::Storage::Storage(std::size_t size)
    : bytes(size), data(static_cast<std::byte*>(allocate(size))) {}
Tensor::Storage::Storage(void* memory, std::size_t size, std::shared_ptr<void> keeper)
    : bytes(size), data(static_cast<std::byte*>(memory)), owner(std::move(keeper)) {}
Tensor::Storage::~Storage() {
  if (owner == nullptr && data != nullptr) deallocate(data, bytes);
}

Tensor Tensor::make(const Shape& shape, DType dtype, std::shared_ptr<Storage> storage,
                    std::size_t offset) {
  auto impl = std::make_shared<Impl>();
  impl->shape = shape;
  impl->numel = shape.numel();
  impl->dtype = dtype;
  impl->id = impl->base_id = ++last_id;
  impl->offset = offset;
  impl->storage = std::move(storage);
  return Tensor(std::move(impl));
}

std::uint64_t Tensor::newest_id() { return last_id; }

Tensor Tensor::with_id(std::uint64_t id) const {
  Tensor t = detach();
  t.get().id = t.get().base_id = id;
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  const std::int64_t n = shape.numel();
  const std::size_t most = std::numeric_limits<std::size_t>::max() / size_of(dtype);
  check(n <= std::int64_t{1} << 44 && static_cast<std::uint64_t>(n) <= most,
        "a tensor of shape {} is too large", shape);
  const std::size_t bytes = static_cast<std::size_t>(n) * size_of(dtype);
  return make(shape, dtype, std::make_shared<Storage>(bytes), 0);
}

Tensor Tensor::from_blob(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> owner) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  check(owner != nullptr, "[from_blob] memory needs an owner that keeps it valid");
  check(data != nullptr || bytes == 0, "[from_blob] no memory for a tensor of shape {}", shape);
  check(reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0,
        "[from_blob] the address is not a multiple of {}, the size of {}", size_of(dtype),
        name_of(dtype));
  return make(shape, dtype, std::make_shared<Storage>(data, bytes, std::move(owner)), 0);
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor t = empty(shape, dtype);
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T number = number_as<T>("full", value);
    T* out = t.mutable_data<T>();
    parallel_for(t.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(out + begin, out + end, number);
    });
  });
  return t;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  check(static_cast<std::int64_t>(values.size()) == shape.numel(),
        "{} values do not fill a tensor of shape {}", values.size(), shape);
  Tensor t = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}
template Tensor Tensor::from(std::span<const float>, const Shape&);
template Tensor Tensor::from(std::span<const double>, const Shape&);
template Tensor Tensor::from(std::span<const std::int32_t>, const Shape&);
template Tensor Tensor::from(std::span<const std::uint8_t>, const Shape&);
template Tensor Tensor::from(std::span<const std::int64_t>, const Shape&);
template Tensor Tensor::from(std::span<const bool>, const Shape&);

Tensor Tensor::from_bits(const std::vector<bool>& values, const Shape& shape) {
  const auto bytes = std::make_unique<bool[]>(values.size());
  std::copy(values.begin(), values.end(), bytes.get());
  return from(std::span<const bool>(bytes.get(), values.size()), shape);
}

double Tensor::item() const {
  check(numel() == 1, "item() needs a tensor of one element, not of shape {}", shape());
  return at(0);
}

double Tensor::at(std::int64_t i) const {
  check(i >= 0 && i < numel(), "there is no element {} in a tensor of shape {}", i, shape());
  double value = 0;
  dispatch_all(dtype(), [&](auto zero) { value = static_cast<double>(data<decltype(zero)>()[i]); });
  return value;
}

double Tensor::at(std::initializer_list<std::int64_t> indices) const {
  check(static_cast<int>(indices.size()) == rank(), "{} indices for an element of shape {}",
        indices.size(), shape());
  std::int64_t flat = 0;
  int dim = 0;
  for (const std::int64_t index : indices) {
    const std::int64_t size = shape()[dim++];
    check(index >= -size && index < size, "there is no index {} in dimension {} of {}", index,
          dim - 1, shape());
    flat = flat * size + (index < 0 ? index + size : index);
  }
  return at(flat);
}

Shape infer_shape(const Shape& shape, std::int64_t numel) {
  int unknown = -1;
  Shape known = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) continue;
    check(unknown < 0, "[reshape] only one size of {} may be -1", shape);
    unknown = i;
    known[i] = 1;
  }
  if (unknown < 0) return shape;
  const std::int64_t rest = known.numel();
  check(rest > 0 && numel % rest == 0, "[reshape] {} elements do not fit shape {}", numel, shape);
  return known.with(unknown, numel / rest);
}

Tensor Tensor::share(const Shape& shape, std::int64_t first) const {
  return make(shape, dtype(), get().storage,
              get().offset + static_cast<std::size_t>(first) * size_of(dtype()));
}

Tensor Tensor::unrecorded_view(const Shape& shape, std::int64_t first) const {
  Tensor view = share(shape, first);
  view.get().base_id = base_id();
  return view;
}

Tensor Tensor::unrecorded_clone() const {
  Tensor copy = empty(shape(), dtype());
  const std::size_t size = size_of(dtype());
  const auto* const from = static_cast<const std::byte*>(raw(dtype()));
  std::byte* const to = copy.get().storage->data;
  parallel_for(numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin) * size;
    std::memcpy(to + first, from + first, static_cast<std::size_t>(end - begin) * size);
  });
  return copy;
}

Tensor Tensor::unrecorded_to(DType wanted) const {
  if (wanted == dtype()) return unrecorded_clone();
  Tensor result = empty(shape(), wanted);
  dispatch_all(dtype(), [&](auto from) {
    dispatch_all(wanted, [&](auto to) {
      convert_elements(values<decltype(from)>(), result.mutable_data<decltype(to)>());
    });
  });
  return result;
}

void Tensor::release_data(std::function<void*()> absent) {
  Storage& storage = *get().storage;
  check(storage.owner == nullptr, "[release_data] the memory is of another owner");
  check(storage.bytes == bytes(), "[release_data] the tensor has a part of its memory alone");
  if (storage.bytes == 0) return;
  if (storage.data != nullptr) deallocate(std::exchange(storage.data, nullptr), storage.bytes);
  storage.absent = std::move(absent);
}

void Tensor::restore_data() {
  Storage& storage = *get().storage;
  if (storage.data == nullptr) storage.data = static_cast<std::byte*>(allocate(storage.bytes));
}

std::byte* Tensor::fetch(const Storage& storage) {
  auto* const elsewhere = static_cast<std::byte*>(storage.absent());
  return storage.data != nullptr ? storage.data : elsewhere;
}

Tensor& Tensor::set_requires_grad(bool on) {
  check(!on || is_float(dtype()), "a tensor of {} cannot have a gradient", name_of(dtype()));
  get().requires_grad = on;
  return *this;
}

Tensor Tensor::grad() const { return Tensor(get().grad); }

void Tensor::set_grad(const Tensor& grad) {
  if (grad.defined()) {
    check(grad.shape() == shape() && grad.dtype() == dtype(),
          "a gradient must have its tensor's shape and dtype: {} {} for {} {}", grad.shape(),
          name_of(grad.dtype()), shape(), name_of(dtype()));
  }
  get().grad = grad.impl_;
}

}  // namespace tapegrad
