#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

// Rows of 12 and 64 elements begin with a block of Philox each, rows of 7, 13 and 135 do not, and
// 135 decisions of a row are drawn in three parts.
TEST_CASE("the decisions of a matrix by columns are those by elements", "[keep_mask]") {
  for (const Rng::Kind kind : {Rng::Kind::torch, Rng::Kind::philox}) {
    for (const std::int64_t columns : {1, 7, 12, 13, 64, 135}) {
      constexpr std::int64_t rows = 21;
      Rng rng(7, kind);
      const KeepMask mask(rng, rows * columns, 0.3);
      const Tensor all = mask.to_tensor({rows, columns});
      bool right = true;
      for (const std::int64_t first : {std::int64_t{0}, KeepMask::kRows}) {
        const std::int64_t count = std::min(KeepMask::kRows, rows - first);
        std::int64_t calls = 0;
        mask.columns<float>(
            first * columns, columns, count, columns, [&](std::int64_t c, const float* factors) {
              right = right && c == calls++;
              for (std::int64_t r = 0; r < count; ++r) {
                const bool kept = all.data<std::uint8_t>()[(first + r) * columns + c] != 0;
                right = right &&
                        factors[r] == (kept ? static_cast<float>(mask.scale(DType::f32)) : 0.0F);
              }
            });
        right = right && calls == columns;
      }
      INFO(columns << " columns");
      CHECK(right);
    }
  }
}

TEST_CASE("dropout of everything keeps nothing by columns, too", "[keep_mask]") {
  Rng rng(7, Rng::Kind::philox);
  const KeepMask mask(rng, 16 * 8, 1);
  bool right = true;
  mask.columns<double>(0, 8, 16, 8, [&](std::int64_t, const double* factors) {
    for (std::int64_t r = 0; r < KeepMask::kRows; ++r) right = right && factors[r] == 0;
  });
  CHECK(right);
}
