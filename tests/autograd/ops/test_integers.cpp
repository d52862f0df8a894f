// Integers and truth values: what ops make of them, with the dtypes and numbers of PyTorch.

#include <limits>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Numbers = std::vector<double>;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

Tensor wide(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
Tensor truths(const std::vector<bool>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

TEST_CASE("i64 and bool come from vectors and spans, and become them", "[integers]") {
  const std::vector<std::int64_t> numbers{1, kMost, kLeast};
  const Tensor n = Tensor::from(std::span<const std::int64_t>(numbers), {3, 1});
  CHECK(n.dtype() == DType::i64);
  CHECK(n.bytes() == 24);
  CHECK(n.to_vector<std::int64_t>() == numbers);
  CHECK_THROWS_WITH(n.to_vector<std::int32_t>(), "expected a tensor of i32, not of i64");
  const std::vector<bool> bits{true, false, true};
  Tensor b = Tensor::from(bits, {3});
  CHECK(b.dtype() == DType::boolean);
  CHECK(name_of(b.dtype()) == "bool");
  CHECK(b.bytes() == 3);
  CHECK(b.to_vector<bool>() == bits);
  CHECK(b.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 0, 1});
  CHECK_THROWS_WITH(b.mutable_data<std::uint8_t>(), "expected a tensor of u8, not of bool");
  CHECK_THROWS_WITH(b.set_requires_grad(), ContainsSubstring("bool cannot have a gradient"));
  CHECK(Tensor::from({true, false}, {2}).dtype() == DType::boolean);
  CHECK_THROWS_WITH(Tensor::from(bits, {2}), ContainsSubstring("3 values do not fill"));
  CHECK(same_bits(vector({0, 0.5, -2, NAN}).to(DType::boolean), truths({false, true, true, true})));
  CHECK(list(truths({true, false}).to(DType::f32)) == Numbers{1, 0});
  CHECK(Tensor::arange(0, 3, 1, DType::i64).dtype() == DType::i64);
  CHECK_THROWS_WITH(Tensor::arange(0, 3, 1, DType::boolean),
                    ContainsSubstring("bool does not hold 0 to 2"));
}

TEST_CASE("two integers meet in the wider dtype, and truth values count", "[integers]") {
  const Tensor b = truths({true, false}), u = ids({200, 1}).to(DType::u8), i = ids({-1, 5}),
               l = wide({std::int64_t{1} << 40, 2});
  const auto dtype = [](const Tensor& x, const Tensor& y) {
    CHECK((y * x).dtype() == (x * y).dtype());
    return (x + y).dtype();
  };
  CHECK(dtype(b, b) == DType::boolean);
  CHECK(dtype(b, u) == DType::u8);
  CHECK(dtype(u, i) == DType::i32);
  CHECK(dtype(b, i) == DType::i32);
  CHECK(dtype(i, l) == DType::i64);
  CHECK(dtype(b, l) == DType::i64);
  CHECK(list(i + l) == Numbers{0x1p40 - 1, 7});
  CHECK(list(l - b) == Numbers{0x1p40 - 1, 2});
  CHECK(list(l * i) == Numbers{-0x1p40, 10});
  CHECK(list(truths({true, true, false}) + truths({true, false, false})) == Numbers{1, 1, 0});
  CHECK(list(truths({true, true, false}) * truths({true, false, false})) == Numbers{1, 0, 0});
  CHECK((b + 1).dtype() == DType::i64);
  CHECK(list(b + 1) == Numbers{2, 1});
  CHECK(list(-l) == Numbers{-0x1p40, -2});
  CHECK((l / i).dtype() == DType::f64);
  CHECK(list(ids({1, 3}) / 2) == Numbers{0.5, 1.5});
  Tensor counter = wide({1, 2});
  counter += b;
  counter *= 3;
  CHECK(list(counter) == Numbers{6, 6});
}

TEST_CASE("integers that do not fit or do not meet are errors that name the op", "[integers]") {
  CHECK_THROWS_WITH(wide({kMost}) + 1,
                    "[add] 9223372036854775807 and 1 give a number that i64 does not hold");
  CHECK_THROWS_WITH(wide({kLeast}) - 1, ContainsSubstring("[sub]"));
  CHECK_THROWS_WITH(wide({kMost}) * 2, ContainsSubstring("[mul]"));
  CHECK_THROWS_WITH(-wide({kLeast}), ContainsSubstring("[neg]"));
  CHECK_THROWS_WITH(ids({200}).to(DType::u8) + 100,
                    "[add] 200 and 100 give 300, which u8 does not hold");
  CHECK_THROWS_WITH(truths({true}) - truths({true}),
                    ContainsSubstring("[sub] this op does not work in bool"));
  CHECK_THROWS_WITH(wide({1}) + Tensor::ones({1}),
                    "[add] dtypes differ: i64 and f32; convert one of them, as in "
                    "x.to(DType::f32)");
  CHECK_THROWS_WITH(vector({1}) * truths({true}), ContainsSubstring("as in x.to(DType::f64)"));
  CHECK_THROWS_WITH(eq(wide({1}), vector({1})), ContainsSubstring("[eq] dtypes differ"));
  CHECK_THROWS_WITH(wide({1}) + 0.5, ContainsSubstring("0.5 is no number of a tensor of i64"));
  CHECK_THROWS_WITH(wide({1}) + 0x1p63, ContainsSubstring("is no number of a tensor of i64"));
  Tensor narrow = ids({1});
  CHECK_THROWS_WITH(narrow += wide({1}), ContainsSubstring("[+=] dtypes differ: i32 and i64"));
}

TEST_CASE("comparisons of i64 are exact, and a mean of truths is a share", "[integers]") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // which f64 rounds to 2^53
  CHECK(list(eq(wide({large}), wide({large - 1}))) == Numbers{0});
  CHECK(list(gt(wide({large}), 0x1p53)) == Numbers{1});
  CHECK(list(wide({2, 3}) < 2.5) == Numbers{1, 0});
  CHECK(list(wide({2, 3}) < INFINITY) == Numbers{1, 1});
  CHECK(list(eq(wide({2, 3}), NAN)) == Numbers{0, 0});
  CHECK(list(ids({-1, 3}) > wide({-2, 4})) == Numbers{1, 0});
  CHECK(list(logical_not(truths({true, false}))) == Numbers{0, 1});
  CHECK(mean(eq(ids({1, 2, 3, 4}), wide({1, 0, 3, 4}))).item() == 0.75);
  CHECK(wide({1, 2}).allclose(ids({1, 2})));
  CHECK(vector({1, 2}).allclose(vector({1, 2 + 1e-9})));
  CHECK_FALSE(vector({1, 2}).allclose(vector({1, 2.1})));
  CHECK(vector({1, 2}).allclose(vector({1, 2.1}), 0, 0.2));
}

TEST_CASE("sums of integers are i64, and refuse to overflow", "[integers]") {
  const Tensor x = Tensor::arange(0, 24, 1, DType::i32).view({2, 3, 4});
  for (const std::vector<int>& dims :
       {std::vector<int>{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {-1, 0, 1}}) {
    for (const bool keepdim : {false, true}) {
      const Tensor sums = sum(x, dims, keepdim), as_f64 = sum(x.to(DType::f64), dims, keepdim);
      CHECK(sums.dtype() == DType::i64);
      CHECK(same_bits(sums.to(DType::f64), as_f64));
    }
  }
  CHECK(sum(truths({true, false, true})).item() == 2);
  CHECK(sum(truths({true, false, true})).dtype() == DType::i64);
  CHECK(sum(Tensor::full({1000}, 255, DType::u8)).item() == 255'000);
  CHECK(list(sum(wide({kMost, -1}))) == Numbers{static_cast<double>(kMost - 1)});
  CHECK(list(sum(Tensor::zeros({0, 2}, DType::i64), {0})) == Numbers{0, 0});
  CHECK(sum(Tensor::zeros({2, 0}, DType::i64), {0}).shape() == Shape{0});
  CHECK(sum(Tensor::scalar(3, DType::i32)).dtype() == DType::i64);
  CHECK_THROWS_WITH(sum(wide({kMost, 1})),
                    ContainsSubstring("[sum] 9223372036854775807 and 1 give a number that i64"));
  CHECK(prod(wide({3, 4})).item() == 12);
}

TEST_CASE("running sums of integers are i64, and refuse to overflow", "[integers]") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  const Tensor sums = cumsum(wide({large, -1, 2}), 0);
  CHECK(sums.to_vector<std::int64_t>() == std::vector<std::int64_t>{large, large - 1, large + 1});
  CHECK(list(cumsum(truths({true, false, true}), 0)) == Numbers{1, 1, 2});
  CHECK(cumsum(truths({true}), 0).dtype() == DType::i64);
  CHECK(list(cumsum(ids({1, 2, 3, 4}).view({2, 2}), 0)) == Numbers{1, 2, 4, 6});
  CHECK(list(cumsum(Tensor::full({3}, 200, DType::u8), 0)) == Numbers{200, 400, 600});
  CHECK(cumsum(Tensor::zeros({0}, DType::i32), 0).shape() == Shape{0});
  CHECK_THROWS_WITH(cumsum(wide({kMost, 1}), 0),
                    ContainsSubstring("[cumsum] 9223372036854775807 and 1 give a number"));
}

TEST_CASE("abs, clamp, maximum and minimum take integers", "[integers]") {
  CHECK(list(abs(ids({-3, 0, 4}))) == Numbers{3, 0, 4});
  CHECK(abs(ids({-3})).dtype() == DType::i32);
  CHECK(list(abs(Tensor::full({1}, 200, DType::u8))) == Numbers{200});
  CHECK_THROWS_WITH(abs(wide({kLeast})), ContainsSubstring("[abs]"));
  CHECK_THROWS_WITH(abs(truths({true})), ContainsSubstring("[abs] this op does not work in bool"));
  CHECK(list(clamp(ids({-3, 1, 9}), 0, 4)) == Numbers{0, 1, 4});
  CHECK(clamp(ids({-3}), 0, 4).dtype() == DType::i32);
  CHECK(list(clamp(wide({-3, 9}), -INFINITY, 4)) == Numbers{-3, 4});
  CHECK(list(clamp(wide({-3, 9}), 0, INFINITY)) == Numbers{0, 9});
  CHECK(clamp(truths({true}), 0, 2).dtype() == DType::i64);
  CHECK_THROWS_WITH(clamp(ids({1}), 0.5, 2), ContainsSubstring("0.5 is no number"));
  CHECK_THROWS_WITH(clamp(Tensor::full({1}, 2, DType::u8), 0, 300), ContainsSubstring("300"));
  const Tensor both = maximum(ids({1, 5}), wide({kMost, 2}));
  CHECK(both.to_vector<std::int64_t>() == std::vector<std::int64_t>{kMost, 5});
  CHECK(minimum(ids({1, 5}), wide({kMost, kLeast})).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, kLeast});
  CHECK(list(maximum(truths({true, false}), truths({false, false}))) == Numbers{1, 0});
  CHECK(maximum(truths({true}), truths({false})).dtype() == DType::boolean);
  CHECK(maximum(ids({1, 2}).view({2, 1}), ids({0, 3})).shape() == Shape{2, 2});
  CHECK_THROWS_WITH(maximum(ids({1}), vector({1})), ContainsSubstring("[maximum] dtypes differ"));
}

TEST_CASE("sum_to of integers is i64, whatever there is to sum", "[integers]") {
  CHECK(sum_to(truths({true, false}), {2}).dtype() == DType::i64);
  CHECK(list(sum_to(truths({true, false}), {2})) == Numbers{1, 0});
  CHECK(sum_to(truths({true, true}).view({1, 2}), {2}).dtype() == DType::i64);
  CHECK(sum_to(truths({true, true}), {1}).item() == 2);
  CHECK(sum_to(ids({1, 2}), {2}).dtype() == DType::i64);
}

TEST_CASE("integers are sorted, and their largest and smallest are found", "[integers]") {
  const std::int64_t large = std::int64_t{1} << 60;  // where f64 has only every 256th number
  const Tensor x = wide({large + 1, 5, large + 2, 5});
  const auto [values, places] = sort(x);
  CHECK(values.to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 5, large + 1, large + 2});
  CHECK(list(places) == Numbers{1, 3, 0, 2});
  CHECK(topk(x, 1).values.to_vector<std::int64_t>()[0] == large + 2);
  CHECK(argmax(x, 0).item() == 2);
  CHECK(max(x).values<std::int64_t>()[0] == large + 2);
  CHECK(min(x).item() == 5);
  CHECK(min(x.view({2, 2}), 0).values.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{large + 1, 5});
  CHECK(min(x.view({2, 2}), 1, true).indices.shape() == Shape{2, 1});
  CHECK(min(ids({7}).view({}), 0).values.item() == 7);
  CHECK(argmax(truths({false, true, true}), 0).item() == 1);
  CHECK(list(sort(truths({true, false, true}), 0, true).values) == Numbers{1, 1, 0});
  CHECK(max(ids({3, 250}).to(DType::u8)).item() == 250);
  CHECK_THROWS_WITH(max(Tensor::zeros({0}, DType::i64)), ContainsSubstring("[max] an empty"));
}

TEST_CASE("truths and i64 move, choose and point", "[integers]") {
  const Tensor m = truths({true, false, true, false, false, true}).view({2, 3});
  CHECK(list(transpose(m, 0, 1)) == Numbers{1, 0, 0, 0, 1, 1});
  CHECK(list(slice(m, 1, -2, -1)) == Numbers{0, 0});
  CHECK(transpose(m, 0, 1).dtype() == DType::boolean);
  CHECK(concat({truths({true}), ids({4}), wide({5})}, 0).dtype() == DType::i64);
  CHECK(list(concat({truths({true}), ids({4}), wide({5})}, 0)) == Numbers{1, 4, 5});
  CHECK_THROWS_WITH(concat({ids({1}), vector({1})}, 0), ContainsSubstring("[concat]"));
  CHECK(stack({ids({4}), wide({5})}).dtype() == DType::i64);
  CHECK(list(where(m, ids({1}), wide({2}))) == Numbers{1, 2, 1, 2, 2, 1});
  CHECK(where(m, ids({1}), wide({2})).dtype() == DType::i64);
  CHECK_THROWS_WITH(where(ids({1}), m, m), "[where] the condition must be bool or u8, not i32");
  const Tensor x = vector({10, 20, 30, 40, 50, 60}).view({2, 3});
  CHECK(list(masked_select(x, m)) == Numbers{10, 30, 60});
  CHECK(list(nonzero(m)) == Numbers{0, 0, 0, 2, 1, 2});
  CHECK(list(masked_fill(x, m, -1)) == Numbers{-1, 20, -1, 40, 50, -1});
  CHECK(list(gather(x, wide({2, 0}), 1)) == Numbers{30, 40});
  CHECK(list(gather_rows(x, wide({1}))) == Numbers{40, 50, 60});
  CHECK(list(index(x, {wide({0, 1}), ids({-1, 0})})) == Numbers{30, 40});
  CHECK(list(one_hot(wide({1}), 2)) == Numbers{0, 1});
  CHECK(list(scatter_add(x, wide({0, 0}), vector({1, 2}), 1)) == Numbers{11, 20, 30, 42, 50, 60});
  CHECK(list(index_add(x, 0, wide({1}), vector({1, 1, 1}).view({1, 3}))) ==
        Numbers{10, 20, 30, 41, 51, 61});
  CHECK(cross_entropy(x, wide({2, 2})).item() == cross_entropy(x, ids({2, 2})).item());
  CHECK_THROWS_WITH(gather_rows(x, wide({2})), ContainsSubstring("id 2 at position 0"));
  CHECK_THROWS_WITH(gather_rows(x, wide({std::int64_t{1} << 32})),
                    "[gather_rows] ids may be up to 2147483647, not 4294967296");
  CHECK_THROWS_WITH(gather(x, m, 1), "[gather] the index must be i32 or i64, not bool");
}
