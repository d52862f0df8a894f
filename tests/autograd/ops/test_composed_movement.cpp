// Ops that only move elements: where these come from, in any dtype.

#include <limits>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

// 0, 1, 2, … of that shape.
Tensor counted_up(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::arange(0, static_cast<double>(shape.numel()), 1, dtype).view(shape);
}

void check_is(const Tensor& x, const Shape& shape, const std::vector<double>& values) {
  REQUIRE(x.shape() == shape);
  const Tensor wide = x.to(DType::f64);
  CHECK(std::vector<double>(wide.values<double>().begin(), wide.values<double>().end()) == values);
}

Tensor whole(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

}  // namespace

TEST_CASE("what moves elements moves those of every dtype", "[arrange]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::i64}) {
    CAPTURE(name_of(dtype));
    const Tensor x = counted_up({2, 3}, dtype);
    const auto is = [&](const Tensor& y, const Shape& shape, const std::vector<double>& values) {
      CHECK(y.dtype() == dtype);
      check_is(y, shape, values);
    };
    is(transpose(x, 0, 1), {3, 2}, {0, 3, 1, 4, 2, 5});
    is(concat({x, x}, 1), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
    is(slice(x, 1, -2, -1), {2, 1}, {1, 4});
    is(pad(x, 0, 1, 4), {4, 3}, {0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0});
    is(split(x, {1, 2}, 1)[1], {2, 2}, {1, 2, 4, 5});
    is(select(x, 0, -1), {3}, {3, 4, 5});
    is(index(x, {whole({1, 0}, {2}), whole({-1, 0}, {2})}), {2}, {5, 0});
    is(gather_rows(x, whole({1, 1}, {2})), {2, 3}, {3, 4, 5, 3, 4, 5});
    is(gather(x, whole({2, 0}, {2}), 1), {2}, {2, 3});
    is(broadcast_to(slice(x, 1, 0, 1), {2, 2}), {2, 2}, {0, 0, 3, 3});
    is(where(x > 2, x, Tensor::full({}, 9, dtype)), {2, 3}, {9, 9, 9, 3, 4, 5});
    is(index_select(x, 1, whole({2, 2, 0}, {3})), {2, 3}, {2, 2, 0, 5, 5, 3});
    is(stack({x, x}, 1), {2, 2, 3}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
    is(stack({x, x}, -1), {2, 3, 2}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
    is(repeat(x, {2, 1, 2}), {2, 2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5,  //
                                         0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
    is(repeat(x, {0, 1}), {0, 3}, {});
    is(flip(x, 1), {2, 3}, {2, 1, 0, 5, 4, 3});
    is(flip(x, 0), {2, 3}, {3, 4, 5, 0, 1, 2});
    is(roll(x, 1, 1), {2, 3}, {2, 0, 1, 5, 3, 4});
    is(roll(x, -4, -1), {2, 3}, {1, 2, 0, 4, 5, 3});
    is(roll(x, std::numeric_limits<std::int64_t>::min(), 0), {2, 3}, {0, 1, 2, 3, 4, 5});
    is(tril(x), {2, 3}, {0, 0, 0, 3, 4, 0});
    is(tril(x, 1), {2, 3}, {0, 1, 0, 3, 4, 5});
    is(triu(x), {2, 3}, {0, 1, 2, 0, 4, 5});
    is(triu(x, -1), {2, 3}, {0, 1, 2, 3, 4, 5});
    is(triu(x, 2), {2, 3}, {0, 0, 2, 0, 0, 0});
  }
}

TEST_CASE("dimensions of one come and go", "[arrange]") {
  const Tensor x = counted_up({1, 3, 1});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 1, 3, 1});
  CHECK(unsqueeze(x, -1).shape() == Shape{1, 3, 1, 1});
  CHECK(unsqueeze(Tensor::scalar(1), 0).shape() == Shape{1});
  CHECK(squeeze(x).shape() == Shape{3});
  CHECK(squeeze(x, -1).shape() == Shape{1, 3});
  CHECK(squeeze(x, 1).shape() == Shape{1, 3, 1});
  CHECK(flatten(counted_up({2, 3, 4})).shape() == Shape{24});
  CHECK(flatten(counted_up({2, 3, 4}), 1).shape() == Shape{2, 12});
  CHECK(flatten(counted_up({2, 3, 4}), 0, 1).shape() == Shape{6, 4});
  CHECK(flatten(Tensor::scalar(1)).shape() == Shape{1});
}

TEST_CASE("chunks have one size, and the last may be smaller", "[arrange]") {
  const auto sizes = [](std::int64_t n, int count) {
    std::vector<std::int64_t> all;
    for (const Tensor& part : chunk(counted_up({n}), count)) all.push_back(part.dim(0));
    return all;
  };
  CHECK(sizes(6, 3) == std::vector<std::int64_t>{2, 2, 2});
  CHECK(sizes(7, 3) == std::vector<std::int64_t>{3, 3, 1});
  CHECK(sizes(4, 3) == std::vector<std::int64_t>{2, 2});  // as torch.chunk
  CHECK(sizes(0, 2) == std::vector<std::int64_t>{0, 0});
  check_is(chunk(counted_up({2, 3}), 2, 1)[1], {2, 1}, {2, 5});
}

TEST_CASE("a part of shape (0) fits any other parts of a concatenation", "[arrange]") {
  const Tensor x = counted_up({2, 3}), nothing = Tensor::zeros({0}, x.dtype());
  check_is(concat({nothing, x, nothing, x}, 1), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  check_is(concat({nothing, nothing}, 0), {0}, {});
  const Tensor ids = Tensor::from<std::int32_t>({1, 2}, {2});
  CHECK(concat({Tensor::zeros({0}, DType::i64), ids}, 0).dtype() == DType::i64);
  CHECK_THROWS_WITH(concat({Tensor::zeros({0}, DType::f64), ids}, 0),
                    ContainsSubstring("[concat]"));
  CHECK_THROWS_WITH(concat({ids, Tensor::zeros({0}, DType::f64)}, 0),
                    ContainsSubstring("[concat]"));
  Tape tape;
  tape.watch(x);
  tape.watch(nothing);
  const Grads grads = tape.gradient(sum(concat({x, nothing}, 0)), {x, nothing});
  check_is(grads[0], {2, 3}, {1, 1, 1, 1, 1, 1});
  CHECK_FALSE(grads[1].defined());
}

TEST_CASE("the smallest element, and the smaller of two", "[arrange]") {
  const Tensor x = Tensor::from({3.0F, 1.0F, 2.0F, 1.0F, 5.0F, 4.0F}, {2, 3});
  CHECK(min(x).item() == 1);
  const MaxResult rows = min(x, 1);
  check_is(rows.values, {2}, {1, 1});
  check_is(rows.indices, {2}, {1, 0});
  CHECK(min(x, 0, true).values.shape() == Shape{1, 3});
  check_is(minimum(x, Tensor::scalar(2)), {2, 3}, {2, 1, 2, 1, 2, 2});
  CHECK(std::isnan(minimum(Tensor::scalar(NAN), Tensor::scalar(1)).item()));
}

TEST_CASE("whole numbers are added, subtracted, multiplied and counted", "[arrange]") {
  const Tensor a = whole({1, -2, 2'000'000'000}, {3});
  check_is(a + whole({3}, {1}), {3}, {4, 1, 2'000'000'003});
  check_is(a - 1, {3}, {0, -3, 1'999'999'999});
  check_is(whole({7, -7}, {2, 1}) * whole({1, 2}, {2}), {2, 2}, {7, 14, -7, -14});
  CHECK_THROWS_WITH(a * 2, ContainsSubstring("[mul] 2000000000 and 2 give 4000000000, which i32"));
  CHECK_THROWS_WITH(a + a.to(DType::f32), ContainsSubstring("[add] dtypes differ: i32 and f32"));
  CHECK(sum(a + a.to(DType::i32) * 0).item() == 1'999'999'999);
  CHECK(sum(whole({2'000'000'000, 2'000'000'000}, {2})).item() == 4e9);
  check_is(sum(a.view({1, 3}), {0}), {3}, {1, -2, 2'000'000'000});
  CHECK(mean(eq(a, whole({1, -2, 3}, {3}))).item() == Approx(2.0 / 3));
  check_is(a > 0, {3}, {1, 0, 1});
  check_is(a <= whole({1, -3, 5}, {3}), {3}, {1, 0, 0});
  check_is(one_hot(whole({2, 0}, {2}), 3), {2, 3}, {0, 0, 1, 1, 0, 0});
}

TEST_CASE("moves that do not fit are refused by name", "[arrange]") {
  const Tensor x = counted_up({2, 3});
  CHECK_THROWS_WITH(slice(x, 1, -4, 3), ContainsSubstring("[slice] elements -4 to 3 do not exist"));
  CHECK_THROWS_WITH(slice(x, 1, -1, -2), ContainsSubstring("[slice] elements -1 to -2"));
  CHECK_THROWS_WITH(stack({}, 0), ContainsSubstring("[stack] there is nothing"));
  CHECK_THROWS_WITH(stack({x, counted_up({3, 2})}), ContainsSubstring("[stack] shapes differ"));
  CHECK_THROWS_WITH(unsqueeze(x, 3), ContainsSubstring("[unsqueeze] there is no dimension 3"));
  CHECK_THROWS_WITH(squeeze(x, 2), ContainsSubstring("[squeeze] there is no dimension 2"));
  CHECK_THROWS_WITH(flatten(x, 1, 0), ContainsSubstring("[flatten] dimension 1 is behind 0"));
  CHECK_THROWS_WITH(chunk(x, 0), ContainsSubstring("[chunk] 0 parts"));
  CHECK_THROWS_WITH(repeat(x, {2}), ContainsSubstring("[repeat] 1 numbers for the 2 dimensions"));
  CHECK_THROWS_WITH(repeat(x, {2, -1}), ContainsSubstring("[repeat] -1 times"));
  CHECK_THROWS_WITH(flip(x, 2), ContainsSubstring("[flip] there is no dimension 2"));
  CHECK_THROWS_WITH(roll(x, 1, 2), ContainsSubstring("[roll] there is no dimension 2"));
  CHECK_THROWS_WITH(tril(counted_up({3})), ContainsSubstring("[tril] (3) has no matrices"));
  CHECK_THROWS_WITH(index_select(x, 0, whole({0, 2}, {2})),
                    ContainsSubstring("id 2 at position 1"));
  CHECK_THROWS_WITH(index_select(x, 0, whole({0}, {1, 1})),
                    ContainsSubstring("[index_select] ids must have one dimension"));
  CHECK_THROWS_WITH(one_hot(whole({3}, {1}), 3), ContainsSubstring("[one_hot] id 3 is outside"));
  CHECK_THROWS_WITH(split(x, {-1, 4}, 1), ContainsSubstring("[split] a part of -1 elements"));
  CHECK_THROWS_AS(repeat(x, {std::numeric_limits<std::int64_t>::max(), 2}), Error);
  const Tensor ids = whole({1, 2}, {2});
  CHECK_THROWS_WITH(ids * 0.5, ContainsSubstring("0.5 is no number of a tensor of i32"));
  CHECK_THROWS_WITH(ids + 1e10, ContainsSubstring("is no number of a tensor of i32"));
  CHECK_THROWS_WITH(min(Tensor::zeros({0})), ContainsSubstring("[min] an empty tensor"));
  CHECK_THROWS_WITH(where(x > 1, x, x.to(DType::i32)), ContainsSubstring("[where] dtypes differ"));
}
