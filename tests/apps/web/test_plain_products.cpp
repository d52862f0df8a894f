// The products that a browser computes by, tried as those of libraries are.

#include "tapegrad/autograd/gemm/internal/product_trial.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

TEST_CASE("plain products are right for every kind of small matrix", "[gemm]") {
  CHECK(trial(*plain_products<float>()).empty());
  CHECK(trial(*plain_products<double>()).empty());
  Multiplier<float> rows{.multiply = plain_products<float>()->multiply_row};
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::vector<float> a = {1, 2, 3}, b = {1, 2, 3, 4, 5, 6};
      std::vector<float> c = {10, 10};
      rows.multiply({.ta = ta,
                     .tb = tb,
                     .m = 1,
                     .n = 2,
                     .k = 3,
                     .a = a.data(),
                     .lda = ta ? 1 : 3,
                     .b = b.data(),
                     .ldb = tb ? 3 : 2,
                     .c = c.data(),
                     .ldc = 2,
                     .alpha = 2,
                     .beta = 1});
      CHECK(c == (tb ? std::vector<float>{38, 74} : std::vector<float>{54, 66}));
    }
  }
}
