#pragma once

#include <algorithm>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad {

// Which of n elements dropout keeps: each with probability 1 − p. What a generator of Kind::torch
// decides is F.dropout's draw, one double for each element, and is stored, a bit for each. Of one
// of Kind::philox only the place in its stream is kept, n/4 blocks of four words, and every
// decision is drawn when it is read: on any thread, in any order, as often as wanted.
class KeepMask {
 public:
  KeepMask() = default;  // keeps everything
  // Error unless 0 <= p <= 1. With 0 and 1 nothing is drawn, as in PyTorch.
  KeepMask(Rng& rng, std::int64_t n, double p);

  bool drops() const { return p_ > 0; }
  // The factor of what is kept: the reciprocal of what the dtype makes of 1 − p, as in PyTorch.
  double scale(DType dtype) const {
    if (p_ >= 1) return 0;
    return dtype == DType::f32 ? static_cast<double>(1 / static_cast<float>(1 - p_)) : 1 / (1 - p_);
  }
  // The stored decisions, undefined if none are stored.
  const Tensor& stored() const { return bits_; }
  // keep[i] = 1 where element first + i is kept, else 0.
  void read(std::int64_t first, std::span<std::uint8_t> keep) const;
  // All of them.
  Tensor to_tensor(const Shape& shape) const;
  // factors[i] = the scale where element first + i is kept, else 0.
  template <class T>
  void factors(std::int64_t first, std::int64_t n, T* factors) const;
  // y[i] = x[i] times that; y may be x.
  template <class T>
  void multiply(std::int64_t first, std::int64_t n, const T* x, T* y) const;
  // The factors of a matrix, column by column: element (r, c) is first + r·stride + c. Calls
  // f(c, factors of kRows rows) for each column c in [0, n); rows from `rows` on get anything.
  static constexpr std::int64_t kRows = 16;
  template <class T, class F>
  void columns(std::int64_t first, std::int64_t stride, std::int64_t rows, std::int64_t n,
               const F& f) const;

 private:
  static constexpr std::int64_t kPiece = 512;
  static constexpr std::int64_t kWords = 4;  // of a Philox block
  // Decisions of a row that read() draws at once, wherever in a block the first of them lies.
  static constexpr std::int64_t kStretch = 60;

  // True if each row of such a matrix begins with a Philox block.
  bool rows_begin_blocks(std::int64_t first, std::int64_t stride) const {
    return !bits_.defined() && p_ > 0 && p_ < 1 && first % kWords == 0 && stride % kWords == 0;
  }
  // keep[w·kRows + r] = 1 where element first + r·stride + w is kept, else 0, if they do.
  void read_blocks(std::int64_t first, std::int64_t stride,
                   std::uint32_t (&keep)[kWords * kRows]) const;
  // columns() if they do not.
  template <class T, class F>
  void columns_of_rows(std::int64_t first, std::int64_t stride, std::int64_t rows, std::int64_t n,
                       const F& f) const;

  double p_ = 0;
  Tensor bits_;                               // of Kind::torch
  std::uint64_t seed_ = 0, first_block_ = 0;  // of Kind::philox
};

template <class T>
void KeepMask::factors(std::int64_t first, std::int64_t n, T* factors) const {
  std::uint8_t keep[kPiece];
  const T factor = static_cast<T>(scale(dtype_of<T>()));
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    read(first + i, {keep, static_cast<std::size_t>(count)});
    for (std::int64_t k = 0; k < count; ++k) factors[i + k] = keep[k] != 0 ? factor : T{0};
  }
}

template <class T>
void KeepMask::multiply(std::int64_t first, std::int64_t n, const T* x, T* y) const {
  T piece[kPiece];
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    factors(first + i, count, piece);
    for (std::int64_t k = 0; k < count; ++k) y[i + k] = x[i + k] * piece[k];
  }
}

template <class T, class F>
void KeepMask::columns(std::int64_t first, std::int64_t stride, std::int64_t rows, std::int64_t n,
                       const F& f) const {
  if (!rows_begin_blocks(first, stride)) return columns_of_rows<T>(first, stride, rows, n, f);
  std::uint32_t keep[kWords * kRows];
  T factors[kWords * kRows];
  const T factor = static_cast<T>(scale(dtype_of<T>()));
  for (std::int64_t c = 0; c < n; c += kWords) {
    const std::int64_t words = std::min(kWords, n - c);
    read_blocks(first + c, stride, keep);
    for (std::int64_t i = 0; i < kWords * kRows; ++i) factors[i] = keep[i] != 0 ? factor : T{0};
    for (std::int64_t w = 0; w < words; ++w) f(c + w, factors + w * kRows);
  }
}

template <class T, class F>
void KeepMask::columns_of_rows(std::int64_t first, std::int64_t stride, std::int64_t rows,
                               std::int64_t n, const F& f) const {
  std::uint8_t keep[kRows][kStretch] = {};
  T factors[kRows];
  const T factor = static_cast<T>(scale(dtype_of<T>()));
  for (std::int64_t c = 0; c < n; c += kStretch) {
    const std::int64_t count = std::min(kStretch, n - c);
    for (std::int64_t r = 0; r < rows; ++r) {
      read(first + r * stride + c, {keep[r], static_cast<std::size_t>(count)});
    }
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t r = 0; r < kRows; ++r) factors[r] = keep[r][k] != 0 ? factor : T{0};
      f(c + k, factors);
    }
  }
}

}  // namespace tapegrad
