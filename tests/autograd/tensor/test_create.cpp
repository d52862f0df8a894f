#include "tapegrad/base/random.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("randn and uniform give PyTorch's numbers for the same seed", "[create]") {
  // torch.manual_seed(1337): randn(2, 3), randn(20) in float64, rand(2, 2), uniform_(-2, 5) of 3.
  Rng rng(1337);
  const Tensor a = Tensor::randn({2, 3}, rng);
  CHECK(a.shape() == Shape{2, 3});
  CHECK(list(a) == list(Tensor::from<float>({-2.025992155F, -2.065508842F, -1.205362797F,
                                             -0.912224114F, -1.250221848F, 0.803233743F},
                                            {6})));
  const Tensor b = Tensor::randn({20}, rng, DType::f64);
  CHECK(b.at(0) == Approx(-0.176739948).epsilon(1e-8));
  CHECK(b.at(19) == Approx(-0.662120426).epsilon(1e-8));
  CHECK(list(Tensor::uniform({2, 2}, rng)) ==
        list(Tensor::from<float>({0.742663503F, 0.594547987F, 0.522639275F, 0.097918332F}, {4})));
  CHECK(list(Tensor::uniform({3}, rng, -2, 5)) ==
        list(Tensor::from<float>({-1.846650839F, 1.803528309F, -1.509740949F}, {3})));
}

TEST_CASE("arange counts from begin to before end", "[create]") {
  CHECK(list(Tensor::arange(4)) == std::vector<double>{0, 1, 2, 3});
  CHECK(list(Tensor::arange(5, -5, -2.5)) == std::vector<double>{5, 2.5, 0, -2.5});
  CHECK(Tensor::arange(0, 1, 0.1).numel() == 10);
  CHECK(Tensor::arange(0, 1, 0.1).at(9) == static_cast<double>(0.9F));
  CHECK(Tensor::arange(3, 3).shape() == Shape{0});
  const Tensor ids = Tensor::arange(250, 256, 1, DType::u8);
  CHECK(ids.dtype() == DType::u8);
  CHECK(list(ids) == std::vector<double>{250, 251, 252, 253, 254, 255});
  CHECK(list(Tensor::arange(-3, 3, 2, DType::i32)) == std::vector<double>{-3, -1, 1});
}

TEST_CASE("eye has ones where both indices are equal", "[create]") {
  CHECK(list(Tensor::eye(2)) == std::vector<double>{1, 0, 0, 1});
  CHECK(list(Tensor::eye(2, 3, DType::i32)) == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK(list(Tensor::eye(3, 1, DType::f64)) == std::vector<double>{1, 0, 0});
  CHECK(Tensor::eye(3, 0).shape() == Shape{3, 0});
}

TEST_CASE("tensors that cannot be made are errors", "[create]") {
  Rng rng(1);
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(Tensor::arange(0, 5, 0), ContainsSubstring("[arange] the step is 0"));
  CHECK_THROWS_WITH(Tensor::arange(0, 5, -1), ContainsSubstring("do not lead from 0 to 5"));
  CHECK_THROWS_WITH(Tensor::arange(0, inf), ContainsSubstring("must be finite"));
  CHECK_THROWS_WITH(Tensor::arange(0, 1e300, 1e-300), ContainsSubstring("too long"));
  CHECK_THROWS_WITH(Tensor::arange(0, 257, 1, DType::u8), ContainsSubstring("u8 does not hold"));
  CHECK_THROWS_WITH(Tensor::arange(-1, 2, 1, DType::u8), ContainsSubstring("u8 does not hold"));
  CHECK_THROWS_AS(Tensor::eye(-1), Error);
  CHECK_THROWS_AS(Tensor::eye(std::int64_t{1} << 40), Error);
  CHECK_THROWS_WITH(Tensor::randn({2}, rng, DType::i32), ContainsSubstring("f32 or f64, not i32"));
  CHECK_THROWS_AS(Tensor::uniform({2}, rng, 1, 0), Error);
}

TEST_CASE("an element is read by its indices", "[create]") {
  const Tensor x = Tensor::arange(24).view({2, 3, 4});
  CHECK(x.at({1, 2, 3}) == 23);
  CHECK(x.at({0, -1, 1}) == 9);
  CHECK(Tensor::arange(3).at({2}) == 2);
  CHECK(Tensor::scalar(7).at({}) == 7);
  CHECK_THROWS_WITH(x.at({1, 3, 0}), ContainsSubstring("index 3 in dimension 1 of (2, 3, 4)"));
  CHECK_THROWS_WITH(x.at({1, 2}), ContainsSubstring("2 indices for an element"));
}

TEST_CASE("a number that the dtype does not hold is an error with op, number and dtype",
          "[create]") {
  const auto full = [](double value, DType dtype) {
    return Tensor::full({1}, value, dtype).item();
  };
  CHECK_THROWS_WITH(full(1e10, DType::i32), "[full] i32 does not hold 10000000000");
  CHECK_THROWS_WITH(full(NAN, DType::i64), "[full] i64 does not hold nan");
  CHECK_THROWS_WITH(full(INFINITY, DType::i64), "[full] i64 does not hold inf");
  CHECK_THROWS_WITH(full(0x1p63, DType::i64), ContainsSubstring("i64 does not hold"));
  CHECK_THROWS_WITH(full(300, DType::u8), "[full] u8 does not hold 300");
  CHECK_THROWS_WITH(full(-1, DType::u8), "[full] u8 does not hold -1");
  CHECK_THROWS_WITH(full(1e300, DType::f32), ContainsSubstring("f32 does not hold 1e+300"));
  CHECK_THROWS_WITH(Tensor::scalar(256, DType::u8), ContainsSubstring("u8 does not hold 256"));
  CHECK(full(-0.5, DType::u8) == 0);
  CHECK(full(-2147483648.5, DType::i32) == -2147483648.0);
  CHECK(full(2.7, DType::i32) == 2);
  CHECK(full(-2.7, DType::i32) == -2);
  CHECK(full(255.9, DType::u8) == 255);
  CHECK(full(-0x1p63, DType::i64) == -0x1p63);
  CHECK(full(2.5, DType::boolean) == 1);
  CHECK(full(INFINITY, DType::f32) == INFINITY);
  CHECK(full(1e-300, DType::f32) == 0);
  CHECK(full(3.4028235e38, DType::f32) == static_cast<double>(3.4028235e38F));
  Tensor whole = Tensor::zeros({1}, DType::i32), few = Tensor::zeros({1}, DType::u8);
  const Tensor mask = Tensor::ones({1}, DType::boolean), real = Tensor::zeros({1});
  CHECK_THROWS_WITH(fill(whole, 1e10), ContainsSubstring("10000000000"));
  CHECK_THROWS_WITH(masked_fill(few, mask, 300), "[masked_fill] u8 does not hold 300");
  CHECK_THROWS_WITH(masked_fill(real, mask, -1e300), "[masked_fill] f32 does not hold -1e+300");
  CHECK_THROWS_WITH(clamp(real, -1, 1e300), "[clamp] f32 does not hold 1e+300");
  CHECK_THROWS_WITH(few + 300, ContainsSubstring("300 is no number of a tensor of u8"));
  CHECK_THROWS_WITH(Tensor::arange(0, 5e9, 1e9, DType::i32),
                    ContainsSubstring("[arange] i32 does not hold 0 to"));
  CHECK_THROWS_WITH(Tensor::arange(0, 1e300, 1e299), ContainsSubstring("f32 does not hold"));
  CHECK_THROWS_WITH(Tensor::linspace(0, 1e300, 3), "[linspace] f32 does not hold 1e+300");
  // As operands of f32, they are infinite, as in PyTorch.
  CHECK((real + 1e300).item() == INFINITY);
  CHECK((real < 1e300).item() == 1);
}

TEST_CASE("a float that an integer dtype does not hold is not converted, but named", "[create]") {
  const DType from = GENERATE(DType::f32, DType::f64);
  const auto converted = [=](double value, DType dtype) {
    std::vector<double> values(100'000, 1);
    values[70'000] = value;
    values[99'999] = -1e30;  // not the first
    return vector(values).to(from).to(dtype);
  };
  CHECK_THROWS_WITH(converted(1e10, DType::i32), "[to] i32 does not hold 10000000000");
  CHECK_THROWS_WITH(converted(NAN, DType::i64), "[to] i64 does not hold nan");
  CHECK_THROWS_WITH(converted(-INFINITY, DType::u8), "[to] u8 does not hold -inf");
  CHECK_THROWS_WITH(converted(-1, DType::u8), "[to] u8 does not hold -1");
  CHECK(list(vector({-0.5, 255.9}).to(DType::u8)) == std::vector<double>{0, 255});
  CHECK(list(vector({-2.7, 2.7}).to(DType::i64)) == std::vector<double>{-2, 2});
  CHECK(list(vector({NAN, 0, 1e300}).to(DType::boolean)) == std::vector<double>{1, 0, 1});
  CHECK(vector({1e300}).to(DType::f32).item() == INFINITY);
}
