#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr std::int64_t kSizes[4] = {2, 3, 4, 5};

// Every shape that broadcasts to kSizes: rank 0 to 4, any size replaced by 1.
std::vector<Shape> patterns() {
  std::vector<Shape> shapes;
  for (int rank = 0; rank <= 4; ++rank) {
    for (int ones = 0; ones < 1 << rank; ++ones) {
      Shape shape;
      for (int i = 0; i < rank; ++i) {
        shape.push_back((ones >> i & 1) != 0 ? 1 : kSizes[4 - rank + i]);
      }
      shapes.push_back(shape);
    }
  }
  return shapes;
}

// Where element i of a tensor of shape `to` comes from in one of shape `from`.
std::int64_t source(std::int64_t i, const Shape& to, const Shape& from) {
  std::int64_t offset = 0, stride = 1;
  for (int d = 1; d <= to.rank(); ++d) {
    if (d <= from.rank()) {
      if (from[-d] != 1) offset += i % to[-d] * stride;
      stride *= from[-d];
    }
    i /= to[-d];
  }
  return offset;
}

}  // namespace

TEST_CASE("every pattern of sizes 1 and n up to rank 4 broadcasts, and its gradient is summed back",
          "[broadcast]") {
  Rng rng(1);
  int pairs = 0;
  for (const Shape& as : patterns()) {
    for (const Shape& bs : patterns()) {
      ++pairs;
      const Tensor a = normal(rng, as), b = normal(rng, bs);
      Tape tape;
      tape.watch(a);
      tape.watch(b);
      const Tensor y = a * b + (a - b);
      const Shape shape = broadcast_shapes("test", as, bs);
      const Tensor dy = normal(rng, shape);
      const Grads grads = tape.gradient(y, {a, b}, {.seeds = {dy}});
      std::vector<double> out, da(static_cast<std::size_t>(a.numel())),
          db(static_cast<std::size_t>(b.numel()));
      for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const std::int64_t ia = source(i, shape, as), ib = source(i, shape, bs);
        out.push_back(a.at(ia) * b.at(ib) + (a.at(ia) - b.at(ib)));
        da[static_cast<std::size_t>(ia)] += dy.at(i) * (b.at(ib) + 1);
        db[static_cast<std::size_t>(ib)] += dy.at(i) * (a.at(ia) - 1);
      }
      INFO(as.str() << " and " << bs.str());
      REQUIRE(difference(y, Tensor::from(out, shape), 1e-14, 1e-14) == "");
      REQUIRE(difference(grads[0], Tensor::from(da, as), 1e-12, 1e-12) == "");
      REQUIRE(difference(grads[1], Tensor::from(db, bs), 1e-12, 1e-12) == "");
    }
  }
  CHECK(pairs == 31 * 31);
}

TEST_CASE("an empty tensor broadcasts against sizes of 1", "[broadcast]") {
  const Tensor a = Tensor::ones({4, 0}), b = Tensor::ones({4, 1});
  Tape tape;
  tape.watch(a);
  tape.watch(b);
  const Tensor y = a + b;
  CHECK(y.shape() == Shape{4, 0});
  const Grads grads = tape.gradient(y, {a, b}, {.seeds = {y}});
  CHECK(grads[0].shape() == Shape{4, 0});
  CHECK(same_bits(grads[1], Tensor::zeros({4, 1})));
  CHECK((Tensor::ones({0}) * Tensor::ones({3, 1})).shape() == Shape{3, 0});
}

TEST_CASE("shapes that do not broadcast are an error with both", "[broadcast]") {
  CHECK_THROWS_WITH(Tensor::ones({2, 3}) + Tensor::ones({2}),
                    "[add] shapes do not broadcast: (2, 3) and (2)");
  CHECK_THROWS_WITH(Tensor::ones({4, 0}) * Tensor::ones({4, 2}),
                    "[mul] shapes do not broadcast: (4, 0) and (4, 2)");
  CHECK_THROWS_WITH(Tensor::ones({2}) / Tensor::ones({2}, DType::f64),
                    "[div] dtypes differ: f32 and f64");
  CHECK_THROWS_WITH(broadcast_to(Tensor::ones({2, 3}), {3}),
                    "[broadcast_to] (2, 3) does not broadcast to (3)");
  CHECK_THROWS_WITH(sum_to(Tensor::ones({2, 3}), {2}),
                    ContainsSubstring("[sum_to] shapes do not broadcast: (2, 3) and (2)"));
  CHECK_THROWS_WITH(where(Tensor::ones({2}), Tensor::ones({2}), Tensor::ones({2})),
                    ContainsSubstring("[where] the condition must be bool or u8, not f32"));
  CHECK_THROWS_WITH(masked_fill(Tensor::ones({2}), Tensor::ones({3, 2}, DType::u8), 0),
                    ContainsSubstring("[masked_fill] mask (3, 2) does not broadcast to x (2)"));
}
