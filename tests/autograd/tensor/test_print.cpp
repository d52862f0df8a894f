#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <sstream>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

// 0, 1, 2, … as a tensor.
template <class T>
Tensor count_up(const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), T{0});
  return Tensor::from(values, shape);
}

std::string text_of(const Tensor& t) { return fmt::format("{}", t); }

}  // namespace

TEST_CASE("a tensor prints as its values, shape and dtype", "[print]") {
  const Tensor t = Tensor::from<float>({1, 2.5F, 3, -4}, {2, 2});
  const std::string expected =
      "tensor([[ 1.0000,  2.5000],\n"
      "        [ 3.0000, -4.0000]], shape=(2, 2), dtype=f32)";
  CHECK(text_of(t) == expected);
  std::ostringstream out;
  out << t;
  CHECK(out.str() == expected);
  CHECK(text_of(t.to(DType::f64)) ==
        "tensor([[ 1.0000,  2.5000],\n"
        "        [ 3.0000, -4.0000]], shape=(2, 2), dtype=f64)");
  CHECK(text_of(t.rows(1, 2)) == "tensor([[ 3., -4.]], shape=(1, 2), dtype=f32)");
}

TEST_CASE("scalars, empty and undefined tensors print", "[print]") {
  CHECK(text_of(Tensor::scalar(0.5)) == "tensor(0.5000, shape=(), dtype=f32)");
  CHECK(text_of(Tensor::zeros({0})) == "tensor([], shape=(0), dtype=f32)");
  CHECK(text_of(Tensor::zeros({2, 0, 3}, DType::f64)) == "tensor([], shape=(2, 0, 3), dtype=f64)");
  CHECK(text_of(Tensor()) == "tensor(undefined)");
}

TEST_CASE("integers print without a point, whole floats with one", "[print]") {
  CHECK(text_of(Tensor::from<std::int32_t>({INT32_MIN, -1, 7}, {3})) ==
        "tensor([-2147483648,          -1,           7], shape=(3), dtype=i32)");
  CHECK(text_of(Tensor::from<std::uint8_t>({0, 255}, {2})) ==
        "tensor([  0, 255], shape=(2), dtype=u8)");
  CHECK(text_of(Tensor::from<std::int64_t>({INT64_MAX, INT64_MIN, 9007199254740993}, {3})) ==
        "tensor([ 9223372036854775807, -9223372036854775808,     9007199254740993], shape=(3), "
        "dtype=i64)");
  CHECK(text_of(Tensor::from({true, false}, {2})) ==
        "tensor([ true, false], shape=(2), dtype=bool)");
  CHECK(text_of(Tensor::from<float>({0, 10, -3}, {3})) ==
        "tensor([ 0., 10., -3.], shape=(3), dtype=f32)");
  CHECK(text_of(Tensor::zeros({2})) == "tensor([0., 0.], shape=(2), dtype=f32)");
}

TEST_CASE("floats of a wide range print in scientific notation", "[print]") {
  CHECK(text_of(Tensor::from<float>({1, 0.0001F}, {2})) ==
        "tensor([1.0000e+00, 1.0000e-04], shape=(2), dtype=f32)");
  CHECK(text_of(Tensor::from<double>({0.00005, 0}, {2})) ==
        "tensor([5.0000e-05, 0.0000e+00], shape=(2), dtype=f64)");
  CHECK(text_of(Tensor::from<double>({-2e9, 1.5e9}, {2})) ==
        "tensor([-2.0000e+09,  1.5000e+09], shape=(2), dtype=f64)");
  CHECK(text_of(Tensor::from<float>({1.5F, 1500}, {2})) ==
        "tensor([   1.5000, 1500.0000], shape=(2), dtype=f32)");
  CHECK(text_of(Tensor::from<float>({1.5F, 1501}, {2})) ==
        "tensor([1.5000e+00, 1.5010e+03], shape=(2), dtype=f32)");
}

TEST_CASE("infinities and NaN print, and do not decide the notation", "[print]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(text_of(Tensor::from<float>({0.25F, kInfinity, -kInfinity, nan}, {4})) ==
        "tensor([0.2500,    inf,   -inf,    nan], shape=(4), dtype=f32)");
  CHECK(text_of(Tensor::from<float>({nan, kInfinity}, {2})) ==
        "tensor([nan, inf], shape=(2), dtype=f32)");
}

TEST_CASE("a tensor of rank 3 has an empty line between its matrices", "[print]") {
  CHECK(text_of(count_up<std::int32_t>({2, 2, 2})) ==
        "tensor([[[0, 1],\n"
        "         [2, 3]],\n"
        "\n"
        "        [[4, 5],\n"
        "         [6, 7]]], shape=(2, 2, 2), dtype=i32)");
}

TEST_CASE("above 1,000 elements, long dimensions show three at each end", "[print]") {
  CHECK(text_of(count_up<std::int32_t>({1001})) ==
        "tensor([   0,    1,    2, ...,  998,  999, 1000], shape=(1001), dtype=i32)");
  CHECK(text_of(count_up<std::int32_t>({7, 300})) ==
        "tensor([[   0,    1,    2, ...,  297,  298,  299],\n"
        "        [ 300,  301,  302, ...,  597,  598,  599],\n"
        "        [ 600,  601,  602, ...,  897,  898,  899],\n"
        "        ...,\n"
        "        [1200, 1201, 1202, ..., 1497, 1498, 1499],\n"
        "        [1500, 1501, 1502, ..., 1797, 1798, 1799],\n"
        "        [1800, 1801, 1802, ..., 2097, 2098, 2099]], shape=(7, 300), dtype=i32)");
  CHECK(text_of(count_up<std::int32_t>({2, 6, 1})).find("...") == std::string::npos);
  CHECK(text_of(count_up<std::int32_t>({1000})).find("...") == std::string::npos);
  const std::string text = text_of(count_up<std::int32_t>({6, 200}));
  CHECK(text.find("[ 600,  601") != std::string::npos);  // a dimension of 6 shows all
  // What is not shown does not decide the notation.
  Tensor hidden = Tensor::full({2000}, 0.5);
  hidden.mutable_data<float>()[1000] = 1e20F;
  CHECK(text_of(hidden) ==
        "tensor([0.5000, 0.5000, 0.5000, ..., 0.5000, 0.5000, 0.5000], shape=(2000), dtype=f32)");
}

TEST_CASE("rows that are longer than a line are broken", "[print]") {
  CHECK(text_of(Tensor::full({11}, 0.5)) ==
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,\n"
        "        0.5000, 0.5000], shape=(11), dtype=f32)");
}
