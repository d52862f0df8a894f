// x[{all, Range(0, 5), -1}]: parts of tensors by subscripts.

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Elements = std::vector<double>;

Tensor numbered(const Shape& shape, DType dtype = DType::f64) {
  return Tensor::arange(0, static_cast<double>(shape.numel()), 1, dtype).view(shape);
}

}  // namespace

TEST_CASE("subscripts read parts of tensors", "[subscript]") {
  const Tensor x = numbered({2, 3, 4});
  CHECK(list(x[{all, Range(0, 2), -1}]) == Elements{3, 7, 15, 19});
  CHECK(x[{all, Range(0, 2), -1}].shape() == Shape{2, 2});
  CHECK(x[{1, 2, 3}].shape() == Shape{});
  CHECK((x[{1, 2, 3}].item()) == 23);
  CHECK(list(x[{-1, 0}]) == Elements{12, 13, 14, 15});
  CHECK(list(x[1][2]) == Elements{20, 21, 22, 23});
  CHECK(list(x[{0, Range(-1), Range(1, -1)}]) == Elements{9, 10});
  CHECK(list(x[{0, Range(2, Range::kToTheEnd), 0}]) == Elements{8});
  CHECK(x[{all, Range(1, 1)}].shape() == Shape{2, 0, 4});
  CHECK(x[{all, Range(3)}].shape() == Shape{2, 0, 4});
  CHECK(list(x[{all, all, 0}]) == list(select(x, 2, 0)));
  for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::boolean, DType::f32}) {
    const Tensor part = numbered({2, 2}, DType::i32).to(dtype)[{all, 1}];
    CHECK(part.dtype() == dtype);
    CHECK(list(part) == Elements{1, dtype == DType::boolean ? 1.0 : 3.0});
  }
  Tensor copy = x[{all}];
  copy += 1;
  CHECK(x.at(0) == 0);
  const std::int64_t last = x.dim(0) - 1;
  CHECK((x[{last, 0, 0}].item()) == 12);
}

TEST_CASE("subscripts that do not exist are errors that name shape and index", "[subscript]") {
  const Tensor x = numbered({2, 3, 4});
  CHECK_THROWS_WITH((x[{all, 3}]), "[index] there is no index 3 in dimension 1 of (2, 3, 4)");
  CHECK_THROWS_WITH((x[{0, -4}]), "[index] there is no index -4 in dimension 1 of (2, 3, 4)");
  CHECK_THROWS_WITH(x[2], "[index] there is no index 2 in dimension 0 of (2, 3, 4)");
  CHECK_THROWS_WITH((x[{0, all, Range(1, 5)}]),
                    "[index] elements 1 to 5 do not exist in dimension 2 of (2, 3, 4)");
  CHECK_THROWS_WITH((x[{Range(-3)}]), ContainsSubstring("[index] elements -3 to 2"));
  CHECK_THROWS_WITH((x[{Range(1, 0)}]), ContainsSubstring("[index] elements 1 to 0"));
  CHECK_THROWS_WITH((x[{0, 0, 0, 0}]), "[index] 4 subscripts for shape (2, 3, 4)");
  CHECK_THROWS_WITH(Tensor::scalar(1)[0], "[index] 1 subscripts for shape ()");
}

TEST_CASE("gradients flow through subscripts to the elements that were read", "[subscript]") {
  Tensor x = numbered({2, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(x[{all, Range(1, 3)}] * 2.0) + sum(x[{-1, 1}]) + sum(x[0]);
  tape.backward(y);
  CHECK(list(x.grad()) == Elements{1, 3, 3, 0, 3, 2});
}
