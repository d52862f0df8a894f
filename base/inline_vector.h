#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// A list that needs heap memory only if it has more than N elements. For the short lists of every
// recorded op: T is made cheaply by default, and small.
template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  explicit InlineVector(std::size_t size, const T& value = T()) {
    while (size_ < size) push_back(value);
  }
  InlineVector(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  InlineVector(const InlineVector&) = default;
  InlineVector& operator=(const InlineVector&) = default;
  InlineVector(InlineVector&& other) noexcept
      : few_(std::move(other.few_)),
        many_(std::move(other.many_)),
        size_(std::exchange(other.size_, 0)) {}
  InlineVector& operator=(InlineVector&& other) noexcept {
    few_ = std::move(other.few_);
    many_ = std::move(other.many_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  void push_back(T value) {
    if (size_ < N) {
      few_[size_] = std::move(value);
    } else {
      if (size_ == N) {  // nothing is held twice
        std::vector<T> all;
        all.reserve(2 * N);
        std::move(few_.begin(), few_.end(), std::back_inserter(all));
        many_ = std::move(all);
      }
      many_.push_back(std::move(value));
    }
    ++size_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return size_ <= N ? few_.data() : many_.data(); }
  T* data() { return size_ <= N ? few_.data() : many_.data(); }
  const T* begin() const { return data(); }
  T* begin() { return data(); }
  const T* end() const { return data() + size_; }
  T* end() { return data() + size_; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& back() const { return data()[size_ - 1]; }
  T& back() { return data()[size_ - 1]; }
  bool operator==(const InlineVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<T, N> few_{};  // all elements, while there are at most N
  std::vector<T> many_;     // all elements, once there are more
  std::size_t size_ = 0;
};

}  // namespace tapegrad
