#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using List = std::vector<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Small whole numbers, which repeat, and some NaN.
Tensor repeating(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  Tensor x = Tensor::empty(shape);
  float* values = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto v = static_cast<float>(rng.randint(9));
    values[i] = v == 0 ? static_cast<float>(kNaN) : v;
  }
  return x;
}

}  // namespace

TEST_CASE("sort keeps the order of equal elements, and NaN is the largest", "[sort]") {
  const Tensor x = vector({1, kNaN, 2, kNaN, 0, kNaN, 0}).to(GENERATE(DType::f32, DType::f64));
  const SortResult up = sort(x), down = sort(x, 0, true);
  CHECK(up.indices.dtype() == DType::i32);
  CHECK(list(up.indices) == List{4, 6, 0, 2, 1, 3, 5});
  CHECK(list(down.indices) == List{1, 3, 5, 2, 0, 4, 6});
  CHECK(up.values.at(0) == 0);
  CHECK(up.values.at(3) == 2);
  CHECK(std::isnan(up.values.at(4)));
  CHECK(std::isnan(down.values.at(0)));
}

TEST_CASE("topk is the beginning of sort", "[sort]") {
  const Tensor x = repeating({3, 500, 2}, 5);
  for (const int dim : {0, 1, -1}) {
    for (const bool largest : {true, false}) {
      const SortResult all = sort(x, dim, largest);
      for (std::int64_t k = 0; k <= std::min<std::int64_t>(x.dim(dim), 40); k += k < 3 ? 1 : 37) {
        INFO("dim " << dim << ", k " << k);
        const SortResult first = topk(x, k, dim, largest);
        CHECK(first.values.shape() == x.shape().with(dim, k));
        CHECK(same_bits(first.values, slice(all.values, dim, 0, k)));
        CHECK(list(first.indices) == list(slice(all.indices.to(DType::f64), dim, 0, k)));
      }
    }
  }
}

TEST_CASE("sort and cumsum do not depend on the number of threads", "[sort]") {
  const Tensor x = repeating({40, 7000}, 9), y = repeating({7000, 100}, 8);
  const auto results = [&](int threads) {
    const Threads limit(threads);
    return std::vector{sort(x).indices, topk(x, 9, 0).indices, cumsum(x, 1), cumsum(y, 0)};
  };
  const auto one = results(1), three = results(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("cumsum adds up in double", "[sort]") {
  const Tensor x = Tensor::full({100000}, 0.1);
  const double exact = 100000 * static_cast<double>(0.1F);
  CHECK(cumsum(x, 0).at(99999) == static_cast<double>(static_cast<float>(exact)));
}

TEST_CASE("cumprod multiplies in double and integers in i64, and its errors name it", "[sort]") {
  CHECK(list(cumprod(vector({1e30, 1e30, 0}).to(DType::f32), 0))[2] == 0);
  const Tensor counts = cumprod(Tensor::from<std::int32_t>({1 << 30, 4, -2}, {3}), 0);
  CHECK(counts.dtype() == DType::i64);
  CHECK(list(counts) == List{1073741824, 4294967296, -8589934592});
  CHECK_THROWS_WITH(cumprod(Tensor::full({2}, 5e18, DType::i64), 0),
                    ContainsSubstring("[cumprod] 5000000000000000000 and 5000000000000000000"));
  CHECK_THROWS_WITH(cumprod(Tensor::scalar(1), 1),
                    ContainsSubstring("[cumprod] there is no dimension 1 in ()"));
}

TEST_CASE("repeated indices of gather and index accumulate their gradients", "[sort]") {
  const Tensor x = vector({1, 2, 3, 4, 5, 6}).view({2, 3});
  Tape tape;
  tape.watch(x);
  const Tensor twice = gather(x, Tensor::from<std::int32_t>({2, 2, 0, 1, 1, 1}, {2, 3}), 1);
  CHECK(list(twice) == List{3, 3, 1, 5, 5, 5});
  const Tensor picked = index(x, {ids({1, 1, -2}), ids({0, 0, -1})});
  CHECK(list(picked) == List{4, 4, 3});
  const Tensor row = index(x, {Tensor::from<std::int32_t>({1}, {})});
  CHECK(list(row) == List{4, 5, 6});
  CHECK(list(select(x, 1, -1)) == List{3, 6});
  const Grads grads = tape.gradient({sum(twice), sum(picked)}, {x});
  CHECK(list(grads[0]) == List{1, 0, 3, 2, 3, 0});
}

TEST_CASE("indices that do not exist are errors", "[sort]") {
  const Tensor x = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH(select(x, 0, 2), ContainsSubstring("[select] there is no index 2"));
  CHECK_THROWS_WITH(select(x, 2, 0), ContainsSubstring("dimension 2"));
  CHECK_THROWS_WITH(select(Tensor::scalar(1), 0, 0), ContainsSubstring("[select]"));
  CHECK_THROWS_WITH(index(x, {ids({0}), ids({-4})}),
                    ContainsSubstring("no index -4 in dimension 1"));
  CHECK_THROWS_WITH(index(x, {}), ContainsSubstring("0 indices"));
  CHECK_THROWS_WITH(index(x, {vector({0})}), ContainsSubstring("must be i32"));
  CHECK_THROWS_WITH(index(x, {ids({0, 1}), ids({0, 1, 2})}), ContainsSubstring("[index]"));
  CHECK_THROWS_WITH(gather(x, Tensor::from<std::int32_t>({0, 3}, {2, 1}), 1),
                    ContainsSubstring("index 3 at position 1 is outside [0, 3)"));
  CHECK_THROWS_WITH(gather(x, ids({0, 0, 0, 0}).view({1, 4}), 1),
                    ContainsSubstring("does not fit"));
  CHECK_THROWS_WITH(gather(x, vector({0, 0}), 1), ContainsSubstring("must be i32"));
  CHECK_THROWS_WITH(topk(x, 4),
                    ContainsSubstring("[topk] k is 4, and dimension -1 of (2, 3) has 3"));
  CHECK_THROWS_WITH(topk(x, -1), ContainsSubstring("k is -1"));
  CHECK_THROWS_WITH(sort(x, 2), ContainsSubstring("dimension 2"));
  CHECK_THROWS_WITH(cumsum(x, -3), ContainsSubstring("dimension -3"));
}

TEST_CASE("errors of a dimension that is not there name the op", "[sort]") {
  const Tensor x = Tensor::ones({2, 3});
  const std::map<std::string, std::function<void(int)>> ops = {
      {"sum", [&](int dim) { sum(x, {dim}); }},
      {"mean", [&](int dim) { mean(x, {dim}); }},
      {"var", [&](int dim) { var(x, {dim}); }},
      {"max", [&](int dim) { max(x, dim); }},
      {"argmax", [&](int dim) { argmax(x, dim); }},
      {"sort", [&](int dim) { sort(x, dim); }},
      {"topk", [&](int dim) { topk(x, 1, dim); }},
      {"cumsum", [&](int dim) { cumsum(x, dim); }},
      {"gather",
       [&](int dim) {
         gather(x, ids({0, 0}), dim);
       }},
      {"select", [&](int dim) { select(x, dim, 0); }},
      {"permute",
       [&](int dim) {
         permute(x, {0, dim});
       }},
      {"transpose", [&](int dim) { transpose(x, 0, dim); }},
      {"slice", [&](int dim) { slice(x, dim, 0, 1); }},
      {"pad", [&](int dim) { pad(x, dim, 0, 5); }},
      {"concat",
       [&](int dim) {
         concat({x, x}, dim);
       }},
      {"split",
       [&](int dim) {
         split(x, {1, 1}, dim);
       }},
      {"softmax", [&](int dim) { softmax(x, dim); }},
      {"log_softmax", [&](int dim) { log_softmax(x, dim); }},
      {"log_sum_exp", [&](int dim) { log_sum_exp(x, dim); }},
  };
  for (const auto& [name, op] : ops) {
    const std::string rule = "[" + name + "] there is no dimension ";
    CHECK_THROWS_WITH(op(2), rule + "2 in (2, 3)");
    CHECK_THROWS_WITH(op(-3), rule + "-3 in (2, 3)");
  }
  CHECK_THROWS_WITH(max(Tensor::ones({0, 3}), 0), "[max] dimension 0 of (0, 3) is empty");
}
