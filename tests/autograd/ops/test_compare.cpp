#include <limits>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using List = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("comparisons give masks, and NaN differs from everything", "[compare]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Tensor a = vector({1, 2, 3, kNaN, -kInf, 0.0}).to(dtype);
  const Tensor b = vector({2, 2, 2, kNaN, kInf, -0.0}).to(dtype);
  CHECK(eq(a, b).dtype() == DType::boolean);
  CHECK(list(eq(a, b)) == List{0, 1, 0, 0, 0, 1});
  CHECK(list(ne(a, b)) == List{1, 0, 1, 1, 1, 0});
  CHECK(list(lt(a, b)) == List{1, 0, 0, 0, 1, 0});
  CHECK(list(le(a, b)) == List{1, 1, 0, 0, 1, 1});
  CHECK(list(gt(a, b)) == List{0, 0, 1, 0, 0, 0});
  CHECK(list(ge(a, b)) == List{0, 1, 1, 0, 0, 1});
  CHECK(list(eq(a, 2)) == List{0, 1, 0, 0, 0, 0});
  CHECK(list(ne(a, 2)) == List{1, 0, 1, 1, 1, 1});
  CHECK(list(lt(a, 2)) == List{1, 0, 0, 0, 1, 1});
  CHECK(list(le(a, 2)) == List{1, 1, 0, 0, 1, 1});
  CHECK(list(gt(a, 2)) == List{0, 0, 1, 0, 0, 0});
  CHECK(list(ge(a, 2)) == List{0, 1, 1, 0, 0, 0});
}

TEST_CASE("comparisons broadcast, take integers, and choose in where", "[compare]") {
  const Tensor column = vector({1, 2, 3}).view({3, 1});
  CHECK(list(gt(column, vector({1, 2}))) == List{0, 0, 1, 0, 1, 1});
  CHECK(list(eq(ids({1, 2147483647, -5}), 2147483647)) == List{0, 1, 0});
  CHECK(list(lt(ids({2, 3}), 2.5)) == List{1, 0});
  CHECK(list(eq(ids({2, 3}), ids({2, 2}))) == List{1, 0});
  CHECK(list(eq(Tensor::from<float>({0.1F}, {1}), 0.1)) == List{1});  // as in PyTorch
  CHECK(lt(Tensor::zeros({0, 3}), 1).shape() == Shape{0, 3});
  const Tensor x = vector({-1, 2});
  CHECK(list(where(gt(x, 0), x, x * 0.5)) == List{-0.5, 2});
  CHECK_THROWS_WITH(eq(column, vector({1, 2}).to(DType::f32)),
                    ContainsSubstring("[eq] dtypes differ: f64 and f32"));
  CHECK_THROWS_WITH(lt(vector({1, 2}), vector({1, 2, 3})), ContainsSubstring("[lt]"));
}

TEST_CASE("in-place ops change the data that tensors share", "[in_place]") {
  Tensor x = vector({1, 2, 3, 4}).view({2, 2});
  const Tensor same = x, view = x.detach();
  x += vector({10, 20});
  CHECK(list(view) == List{11, 22, 13, 24});
  x -= 1;
  CHECK(list(same) == List{10, 21, 12, 23});
  x *= x;
  CHECK(list(x) == List{100, 441, 144, 529});
  x /= vector({100, 1}).view({2, 1});
  CHECK(list(x) == List{1, 4.41, 144, 529});
  Tensor row = x.rows(1, 2);
  row *= 0;
  CHECK(list(x) == List{1, 4.41, 0, 0});
}

TEST_CASE("an in-place op that reads what it writes uses the old elements", "[in_place]") {
  for (const int threads : {1, 3}) {
    const Threads limit(threads);
    Tensor x = Tensor::ones({3, 40000}, DType::f64);
    x += x.rows(0, 1);
    CHECK(sum(ne(x, 2).to(DType::f64)).item() == 0);
    Tensor y = Tensor::arange(0, 120000, 1, DType::f64).view({3, 40000});
    Tensor low = y.rows(0, 2);
    low += y.rows(1, 3);
    CHECK(y.at({0, 5}) == 5 + 40005);
    CHECK(y.at({1, 5}) == 40005 + 80005);
  }
}

TEST_CASE("in-place ops are errors where a tape looks", "[in_place]") {
  Rng rng(1);
  Tensor w = parameter(rng, {2}), plain = vector({1, 2}), watched = vector({1, 2});
  const Tensor before = w.clone();
  {
    Tape tape;
    tape.watch(watched);
    Tensor result = w * 2;
    const auto error = ContainsSubstring("[+=] a live tape tracks a tensor of shape (2)");
    CHECK_THROWS_WITH(w += plain, error);
    CHECK_THROWS_WITH(plain += w, error);
    CHECK_THROWS_WITH(watched += 1, error);
    CHECK_THROWS_WITH(result += 1, error);
    CHECK(same_bits(w, before));
    plain += 1;
    CHECK(list(plain) == List{2, 3});
    const TapePause pause;
    w += plain;
  }
  CHECK(same_bits(w, before + vector({2, 3})));
  w -= 1;  // by hand, as an optimiser does
  CHECK(same_bits(w, before + vector({2, 3}) - 1));
}

TEST_CASE("a tape notices that a tensor it saved was changed in place", "[in_place]") {
  Rng rng(1);
  const Tensor w = parameter(rng, {2});
  Tensor factor = vector({1, 2});
  Tape tape;
  const Tensor y = sum(w * factor);
  factor += 1;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[mul] a tensor of shape (2)"));
}

TEST_CASE("in-place ops need b to fit a", "[in_place]") {
  Tensor x = vector({1, 2});
  CHECK_THROWS_WITH(x += vector({1, 2, 3}), ContainsSubstring("[+=]"));
  CHECK_THROWS_WITH(x *= Tensor::zeros({3, 2}, DType::f64),
                    ContainsSubstring("[*=] (3, 2) does not broadcast to (2)"));
  CHECK_THROWS_WITH(x -= vector({1, 2}).to(DType::f32), ContainsSubstring("[-=] dtypes differ"));
  Tensor mask = Tensor::zeros({2}, DType::u8);
  CHECK_THROWS_WITH(mask /= mask, ContainsSubstring("u8"));
  CHECK(list(x) == List{1, 2});
}
