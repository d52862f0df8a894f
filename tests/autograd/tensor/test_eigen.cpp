// Tensors as Eigen's matrices. Eigen is optional: without it, there is nothing to test.

#include "tapegrad/tests/catch.h"

#if __has_include(<Eigen/Core>)

#include "tapegrad/autograd/tensor/eigen.h"
#include "tapegrad/tests/autograd/support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a map of Eigen reads and writes the tensor's own elements, row by row", "[eigen]") {
  Tensor m = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto read = matrix_map<float>(m);
  CHECK((read.rows() == 2 && read.cols() == 3));
  CHECK(read.data() == m.data<float>());
  CHECK(read(1, 0) == 4);
  const std::uint32_t version = m.version();
  mutable_matrix_map<float>(m).row(1) *= 2;
  CHECK(list(m) == std::vector<double>{1, 2, 3, 8, 10, 12});
  CHECK(m.version() > version);
  Tensor row = m.view({-1}).rows(1, 4);  // which begins anywhere in memory
  mutable_vector_map<float>(row).setConstant(7);
  CHECK(list(m) == std::vector<double>{1, 7, 7, 7, 10, 12});
  CHECK(vector_map<float>(row).sum() == 21);
}

TEMPLATE_TEST_CASE("maps and tensors of Eigen have every dtype", "[eigen]", float, double,
                   std::int32_t, std::int64_t, std::uint8_t) {
  const Tensor m = Tensor::arange(6).view({2, 3}).to(dtype_of<TestType>());
  const Tensor twice = tensor_of(matrix_map<TestType>(m) + matrix_map<TestType>(m));
  CHECK(twice.dtype() == dtype_of<TestType>());
  CHECK(list(twice) == std::vector<double>{0, 2, 4, 6, 8, 10});
}

TEST_CASE("expressions of Eigen become tensors of their shape, whatever their order in memory",
          "[eigen]") {
  const Eigen::MatrixXd columns{{1, 2, 3}, {4, 5, 6}};
  const Tensor m = tensor_of(columns);
  CHECK(m.shape() == Shape{2, 3});
  CHECK(list(m) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(list(tensor_of(columns.transpose())) == std::vector<double>{1, 4, 2, 5, 3, 6});
  const Tensor product = tensor_of(matrix_map<double>(m) * matrix_map<double>(m).transpose());
  CHECK(list(product) == std::vector<double>{14, 32, 32, 77});
  CHECK(tensor_of(columns.rowwise().sum()).shape() == Shape{2});
  CHECK(list(tensor_of(columns.row(1))) == std::vector<double>{4, 5, 6});
  const Tensor large = tensor_of(columns.array() > 2);
  CHECK(large.dtype() == DType::boolean);
  CHECK(list(large) == std::vector<double>{0, 0, 1, 1, 1, 1});
  CHECK(tensor_of(Eigen::MatrixXf(0, 3)).shape() == Shape{0, 3});
  CHECK(matrix_map<float>(Tensor::empty({0, 3})).cols() == 3);
}

TEST_CASE("maps of Eigen name the shape and the dtype that do not fit", "[eigen]") {
  Tensor t = Tensor::ones({2, 3, 4}), m = Tensor::ones({2, 3});
  CHECK_THROWS_WITH(matrix_map<float>(t),
                    ContainsSubstring("[matrix_map] a tensor of f32 with shape (2, 3, 4) has 3 "
                                      "dimensions, not 2: view() makes a matrix of it"));
  CHECK_THROWS_WITH(mutable_matrix_map<float>(t), ContainsSubstring("[mutable_matrix_map]"));
  CHECK_THROWS_WITH(vector_map<float>(m), ContainsSubstring("[vector_map] a tensor of f32 with"));
  CHECK_THROWS_WITH(mutable_vector_map<float>(m), ContainsSubstring("view({-1}) makes a vector"));
  CHECK_THROWS_WITH(matrix_map<double>(m), ContainsSubstring("expected a tensor of f64, not of"));
  CHECK_THROWS_WITH(matrix_map<float>(Tensor()), ContainsSubstring("undefined tensor"));
}

#else

TEST_CASE("Eigen is missing", "[eigen]") {
  WARN("autograd/tensor/eigen.h is not tested: install libeigen3-dev");
}

#endif
