#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "tapegrad/autograd/tensor/dtype.h"
#include "tapegrad/autograd/tensor/print.h"
#include "tapegrad/autograd/tensor/shape.h"
#include "tapegrad/autograd/tensor/subscript.h"

namespace tapegrad {

class Rng;

// A handle on shared, contiguous, row-major data. Copying a Tensor copies the handle; two handles
// of the same tensor have the same id. Ops make new tensors; only mutable_data() changes one.
//
// There are no strides. view(), rows() and detach() share the data; everything else copies. A
// gradient flows through view(), rows(), clone(), to() and the subscripts, which tapes record as
// they record ops. It ends at detach(), and where a TapePause lives.
class Tensor {
 public:
  // No tensor: an absent bias, a gradient that does not exist. Anything but defined() is an Error,
  // except requires_grad(), which is false, and printing.
  Tensor() = default;

  static Tensor empty(const Shape& shape, DType dtype = DType::f32);  // contents unspecified
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32) {
    return full(shape, 0.0, dtype);
  }
  static Tensor ones(const Shape& shape, DType dtype = DType::f32) {
    return full(shape, 1.0, dtype);
  }
  // Error if the dtype does not hold the value: check_holds().
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  static Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
  // 0, 1, … from begin up to but not including end, in steps of `step`, which may be negative:
  // element i is begin + i·step, rounded once. Error if step is 0 or leads away from end, or if one
  // of the three is not finite.
  static Tensor arange(double begin, double end, double step = 1, DType dtype = DType::f32);
  static Tensor arange(double end) { return arange(0, end); }
  // `count` numbers from first to last, both included, at equal distances; one number is `first`.
  // Error if an end is not finite or count is below 0. f32 or f64.
  static Tensor linspace(double first, double last, std::int64_t count, DType dtype = DType::f32);
  // (n, columns): 1 where both indices are equal, else 0. `columns` left out stands for n.
  static Tensor eye(std::int64_t n, DType dtype = DType::f32) { return eye(n, n, dtype); }
  static Tensor eye(std::int64_t n, std::int64_t columns, DType dtype = DType::f32);
  // Standard normal numbers, and numbers in [low, high). With an Rng of Kind::torch these are the
  // numbers of torch.randn and of Tensor.uniform_ (torch.rand for 0 and 1) under the same seed.
  // f32 or f64.
  static Tensor randn(const Shape& shape, Rng& rng, DType dtype = DType::f32);
  static Tensor uniform(const Shape& shape, Rng& rng, double low = 0, double high = 1,
                        DType dtype = DType::f32);
  // Copies `values`, whose type is the dtype. Error unless there are as many as the shape has
  // elements.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    if constexpr (std::is_same_v<T, bool>) {
      return from_bits(values, shape);
    } else {
      return from(std::span<const T>(values), shape);
    }
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }

  // A tensor on memory of another owner, such as an array of NumPy's, which `owner` keeps valid
  // until no tensor uses it. As torch::from_blob. A tape notices writes by mutable_data(), not
  // those of the owner. Error if `data` is not aligned for the dtype.
  static Tensor from_blob(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> owner);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return get().shape; }
  std::int64_t dim(int i) const { return get().shape[i]; }
  int rank() const { return get().shape.rank(); }
  std::int64_t numel() const { return get().numel; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype()); }
  DType dtype() const { return get().dtype; }
  // Tells tensors apart: two tensors of the process have the same id only if one is the other, or
  // was made in its place by with_id(). Ids grow: a newer tensor has a larger one.
  std::uint64_t id() const { return get().id; }
  // The largest id that there is.
  static std::uint64_t newest_id();
  // The same data under a given id: for a tensor that is computed again in place of one that is
  // gone.
  Tensor with_id(std::uint64_t id) const;
  // The id of the tensor that view() and rows() have made this one from; without them, its own.
  std::uint64_t base_id() const { return get().base_id; }

  // The elements. Error if T is not the dtype. T is float, double, int32_t, int64_t, uint8_t or
  // bool. The bytes of a tensor of bool, 0 or 1, may also be read as uint8_t.
  template <class T>
  const T* data() const {
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      if (dtype() == DType::boolean) return static_cast<const T*>(raw(DType::boolean));
    }
    return static_cast<const T*>(raw(dtype_of<T>()));
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<std::size_t>(numel())};
  }
  // A copy of the elements. T as in data().
  template <class T>
  std::vector<T> to_vector() const {
    const std::span<const T> all = values<T>();
    return std::vector<T>(all.begin(), all.end());
  }
  // For writing. Raises the version of the data, so that a tape notices a change of a tensor that
  // it saved. Every tensor that shares the data sees the change.
  template <class T>
  T* mutable_data() {
    T* data = static_cast<T*>(raw(dtype_of<T>()));
    ++get().storage->version;
    return data;
  }
  std::uint32_t version() const { return get().storage->version; }
  // Gives back the memory of this tensor and of all that share it, for values that are somewhere
  // else, such as weights of which other processes have parts. The next access to the elements, by
  // any of these tensors, calls `absent` first. It restores the data, or throws, or returns other
  // memory for this access alone, as for a dry run, which does not care for values. The version
  // stays: what is restored must be what a tape has saved. No lock guards this: an op must ask for
  // addresses before its parallel loops. Error for the memory of another owner, and for a tensor
  // that is a part of what lies there.
  void release_data(std::function<void*()> absent);
  // Memory anew, contents unspecified, unless there is some.
  void restore_data();
  // The only element, converted to double. Error unless there is exactly one.
  double item() const;
  // Element i of the flattened tensor, converted to double.
  double at(std::int64_t i) const;
  // The element with one index for each dimension, as in at({1, -1}), converted to double. Negative
  // indices count from the end. The op `index` is recorded, this is not.
  double at(std::initializer_list<std::int64_t> indices) const;
  // A part of the tensor, by the ops slice and select, which are recorded: x[{all, Range(0, 5),
  // -1}] has all of dimension 0, elements 0 to 4 of dimension 1, and the last of dimension 2, which
  // is removed. Dimensions without a subscript stay whole. Copies; to write, use mutable_data().
  // Error naming the shape and the index for what does not exist.
  Tensor operator[](std::initializer_list<Subscript> subscripts) const;
  Tensor operator[](std::int64_t index) const;  // x[{index}]
  // As the function allclose of ops.h: |this − other| <= atol + rtol·|other| everywhere.
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;

  // A new tensor that shares the data under another shape with as many elements. One size may be
  // -1: it is computed from the others. Recorded, as the op `reshape`.
  Tensor view(const Shape& shape) const;
  // Rows [begin, end) of the first dimension, sharing the data. Recorded.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  // A new tensor on the same data that no tape tracks: gradients end here. Where it is written to,
  // backward of an op that has saved the data is an Error, as in PyTorch.
  Tensor detach() const { return share(shape(), 0); }
  // Recorded: a copy that gets no gradient is detach().clone().
  Tensor clone() const;
  // Converted; a clone if it has that dtype already. To bool, what is not 0 is 1. Elsewhere, values
  // are cut to whole numbers, and floats that do not fit are an Error. Recorded from floats to
  // floats; the gradient is converted back.
  Tensor to(DType dtype) const;
  // True if no other handle and no other tensor can see the data, so that it may be reused in
  // place.
  bool sole_owner() const {
    return impl_.use_count() == 1 && get().storage.use_count() == 1 && !get().storage->owner;
  }

  // Parameters: tracked by every tape, and given a grad() by Tape::backward.
  bool requires_grad() const { return defined() && impl_->requires_grad; }
  Tensor& set_requires_grad(bool on = true);
  // The gradient accumulated so far; undefined if there is none.
  Tensor grad() const;
  void set_grad(const Tensor& grad);
  void zero_grad() { get().grad.reset(); }

 private:
  struct Impl;

 public:
  // A handle that does not keep its tensor alive, as std::weak_ptr.
  class Weak {
   public:
    Weak() = default;
    explicit Weak(const Tensor& t) : impl_(t.impl_) {}
    // The tensor, or an undefined one if it is gone.
    Tensor lock() const { return Tensor(impl_.lock()); }

   private:
    std::weak_ptr<Impl> impl_;
  };

 private:
  struct Storage {
    explicit Storage(std::size_t bytes);
    Storage(void* data, std::size_t bytes, std::shared_ptr<void> owner);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    std::size_t bytes;
    std::byte* data;
    std::shared_ptr<void> owner;         // of memory that allocate() has not given; else null
    std::function<void*()> absent = {};  // see release_data(): called while `data` is null
    std::atomic<std::uint32_t> version{0};
  };

  struct Impl {
    Shape shape;
    std::int64_t numel = 0;
    DType dtype = DType::f32;
    bool requires_grad = false;
    std::uint64_t id = 0, base_id = 0;
    std::size_t offset = 0;  // bytes from the start of the storage
    std::shared_ptr<Storage> storage;
    std::shared_ptr<Impl> grad;
  };

  static Tensor from_bits(const std::vector<bool>& values, const Shape& shape);
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  static Tensor make(const Shape& shape, DType dtype, std::shared_ptr<Storage> storage,
                     std::size_t offset);
  // A new tensor of this shape on the data from element `first` on.
  Tensor share(const Shape& shape, std::int64_t first) const;
  // The same as a view: its base is this one's.
  Tensor unrecorded_view(const Shape& shape, std::int64_t first) const;
  Tensor unrecorded_clone() const;
  Tensor unrecorded_to(DType dtype) const;
  void* raw(DType expected) const {
    const Impl& impl = get();
    check(impl.dtype == expected, "expected a tensor of {}, not of {}", name_of(expected),
          name_of(impl.dtype));
    std::byte* data = impl.storage->data;
    if (data == nullptr && impl.storage->absent) data = fetch(*impl.storage);
    return data + impl.offset;
  }
  static std::byte* fetch(const Storage& storage);
  Impl& get() const {
    check(impl_ != nullptr, "an undefined tensor was used");
    return *impl_;
  }

  std::shared_ptr<Impl> impl_;
};

// Several tensors, as functions of tensors take them.
using Inputs = std::span<const Tensor>;

// `shape` with its one size of -1, if any, replaced so that the shape has `numel` elements. Error
// if no whole number fits, or if two sizes are -1.
Shape infer_shape(const Shape& shape, std::int64_t numel);

}  // namespace tapegrad
