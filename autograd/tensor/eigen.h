#pragma once

// Tensors as Eigen's matrices and vectors, without copying, and Eigen's expressions as tensors. For
// programs that use Eigen (version 3.4 or later) beside this library, which does not need it:
//
//   const Tensor gram = tensor_of(matrix_map<double>(x).transpose() * matrix_map<double>(x));

#include <Eigen/Core>
#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

template <class T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace detail {

// Error unless t has `rank` dimensions.
inline void check_map(const Tensor& t, std::string_view map, int rank, std::string_view remedy) {
  check(t.rank() == rank, "[{}] a tensor of {} with shape {} has {} dimensions, not {}: {}", map,
        name_of(t.dtype()), t.shape(), t.rank(), rank, remedy);
}

}  // namespace detail

// The elements of t, a matrix (rows, columns), as Eigen's expressions read them. T is the C++ type
// of its dtype, as in Tensor::data(). The map is valid as long as a handle of the data exists.
// Error for another shape or dtype.
template <class T>
Eigen::Map<const RowMajorMatrix<T>> matrix_map(const Tensor& t) {
  detail::check_map(t, "matrix_map", 2, "view() makes a matrix of it");
  return {t.data<T>(), t.dim(0), t.dim(1)};
}
// For writing, as Tensor::mutable_data().
template <class T>
Eigen::Map<RowMajorMatrix<T>> mutable_matrix_map(Tensor& t) {
  detail::check_map(t, "mutable_matrix_map", 2, "view() makes a matrix of it");
  return {t.mutable_data<T>(), t.dim(0), t.dim(1)};
}

// The elements of t (N) as a column.
template <class T>
Eigen::Map<const Eigen::VectorX<T>> vector_map(const Tensor& t) {
  detail::check_map(t, "vector_map", 1, "view({-1}) makes a vector of it");
  return {t.data<T>(), t.numel()};
}
template <class T>
Eigen::Map<Eigen::VectorX<T>> mutable_vector_map(Tensor& t) {
  detail::check_map(t, "mutable_vector_map", 1, "view({-1}) makes a vector of it");
  return {t.mutable_data<T>(), t.numel()};
}

// A tensor of the values of a matrix, an array or an expression of them, whose scalar type is that
// of a dtype: (rows, columns), or (N) if it is a vector by its type.
template <class Derived>
Tensor tensor_of(const Eigen::DenseBase<Derived>& x) {
  using T = typename Derived::Scalar;
  constexpr bool is_vector = Derived::IsVectorAtCompileTime;
  Tensor t = Tensor::empty(is_vector ? Shape{x.size()} : Shape{x.rows(), x.cols()}, dtype_of<T>());
  Eigen::Map<RowMajorMatrix<T>>(t.mutable_data<T>(), x.rows(), x.cols()) = x.derived();
  return t;
}

}  // namespace tapegrad
