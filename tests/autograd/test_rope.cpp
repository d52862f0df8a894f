#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("rope turns channel i with channel i + D/2 by position times base^(-2i/D)", "[rope]") {
  const std::int64_t T = 3, D = 6;
  Rng rng(1);
  const Tensor x = normal(rng, {2, T, 2 * D});
  const Tensor y = rope(x, D, {.first = 4, .base = 100});
  for (std::int64_t row = 0; row < 2 * T; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t i = 0; i < D / 2; ++i) {
        const std::int64_t low = row * 2 * D + head * D + i, high = low + D / 2;
        const double angle =
            static_cast<double>(4 + row % T) *
            std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(D));
        CHECK(y.at(low) == Approx(x.at(low) * std::cos(angle) - x.at(high) * std::sin(angle)));
        CHECK(y.at(high) == Approx(x.at(high) * std::cos(angle) + x.at(low) * std::sin(angle)));
      }
    }
  }
}

TEST_CASE("scores of turned rows depend on how far they are apart alone", "[rope]") {
  Rng rng(2);
  const Tensor q = normal(rng, {1, 8}), k = normal(rng, {1, 8});
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    return sum(rope(q, 8, {.first = at_q}) * rope(k, 8, {.first = at_k})).item();
  };
  CHECK(score(7, 3) == Approx(score(1004, 1000)).epsilon(1e-10));
  CHECK(score(7, 3) != Approx(score(8, 3)).epsilon(1e-3));
}

TEST_CASE("rope leaves position 0 and what lies beyond its channels as they are", "[rope]") {
  Rng rng(3);
  const Tensor x = normal(rng, {2, 12}, DType::f32);
  const Tensor y = rope(x, 4, {.channels = 8});
  CHECK(same_bits(y.rows(0, 1), x.rows(0, 1)));
  const auto beyond = [](const Tensor& t) { return slice(t, 1, 8, 12); };
  CHECK(same_bits(beyond(y), beyond(x)));
  CHECK_FALSE(same_bits(slice(y.rows(1, 2), 1, 0, 4), slice(x.rows(1, 2), 1, 0, 4)));
  CHECK_FALSE(same_bits(slice(y.rows(1, 2), 1, 4, 8), slice(x.rows(1, 2), 1, 4, 8)));
}

TEST_CASE("rope's result does not depend on the number of threads", "[rope]") {
  Rng rng(4);
  const Tensor x = normal(rng, {4, 200, 96}, DType::f32);
  const Threads one(1);
  const Tensor expected = rope(x, 16);
  const Threads three(3);
  CHECK(same_bits(rope(x, 16), expected));
}

TEST_CASE("what rope cannot turn is an error that names it", "[rope]") {
  const Tensor x = Tensor::zeros({2, 3, 12});
  CHECK_THROWS_WITH(rope(x, 3), ContainsSubstring("[rope]") && ContainsSubstring("not 3"));
  CHECK_THROWS_WITH(rope(x, 0), ContainsSubstring("not 0"));
  CHECK_THROWS_WITH(rope(x, 8),
                    ContainsSubstring("12 channels of x (2, 3, 12) are not heads of 8"));
  CHECK_THROWS_WITH(rope(x, 4, {.channels = 16}), ContainsSubstring("16 channels"));
  CHECK_THROWS_WITH(rope(x, 4, {.first = -1}), ContainsSubstring("-1"));
  CHECK_THROWS_WITH(rope(x, 4, {.base = 0}), ContainsSubstring("base"));
  CHECK_THROWS_WITH(rope(Tensor::zeros({4}), 4), ContainsSubstring("(4)"));
  CHECK_THROWS_WITH(rope(Tensor::zeros({2, 4}, DType::i32), 4), ContainsSubstring("i32"));
}
