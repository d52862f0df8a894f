// Functions of floats that are rounded once, against those of the standard library in double.

#include <bit>

#include "tapegrad/autograd/kernels/internal/wide_math.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double exact_softplus(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }

// The largest error, in ulps of the true value, at floats of both signs up to `limit`. A step of
// 2053 floats meets each exponent at irregular mantissas.
double worst_error(float (*wide)(float), double (*exact)(double), float limit) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(limit); bits += 2053) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double y = exact(static_cast<double>(x)), size = std::abs(y);
      if (std::isnan(y) || size > 3.4e38) continue;
      const int exponent = size < 0x1p-126 ? -126 : std::ilogb(size);
      const double ulp = std::ldexp(1.0, exponent - 23);
      worst = std::max(worst, std::abs(static_cast<double>(wide(x)) - y) / ulp);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("wide functions are within 0.51 ulp", "[wide_math]") {
  CHECK(worst_error(wide_log1p, std::log1p, kInf) <= 0.51);
  CHECK(worst_error(wide_expm1, std::expm1, kInf) <= 0.51);
  CHECK(worst_error(wide_softplus, exact_softplus, kInf) <= 0.51);
  CHECK(worst_error(wide_sin, std::sin, kWideSines) <= 0.51);
  CHECK(worst_error(wide_cos, std::cos, kWideSines) <= 0.51);
}

TEST_CASE("wide functions at their limits", "[wide_math]") {
  CHECK(wide_log1p(-1.0F) == -kInf);
  CHECK(std::isnan(wide_log1p(-1.5F)));
  CHECK(wide_log1p(kInf) == kInf);
  CHECK(std::signbit(wide_log1p(-0.0F)));
  CHECK(wide_expm1(88.0F) < kInf);
  CHECK(wide_expm1(89.0F) == kInf);
  CHECK(wide_expm1(kInf) == kInf);
  CHECK(wide_expm1(-kInf) == -1);
  CHECK(std::signbit(wide_expm1(-0.0F)));
  CHECK(wide_softplus(-200.0F) == 0);
  CHECK(wide_softplus(-100.0F) == std::exp(-100.0F));  // a denormal
  CHECK(wide_softplus(-kInf) == 0);
  CHECK(wide_softplus(kInf) == kInf);
  CHECK(wide_softplus(1e30F) == 1e30F);
  CHECK(std::signbit(wide_sin(-0.0F)));
  CHECK(wide_cos(0.0F) == 1);
  CHECK(std::isnan(wide_log1p(kNaN)));
  CHECK(std::isnan(wide_expm1(kNaN)));
  CHECK(std::isnan(wide_softplus(kNaN)));
  CHECK(std::isnan(wide_sin(kNaN)));
}
