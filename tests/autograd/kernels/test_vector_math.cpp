// The functions that loops compute in vector code, against those of the standard library in double.

#include "tapegrad/autograd/kernels/internal/vector_math.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// How many floats lie between a and b.
std::int64_t ulps(float a, float b) {
  const auto place = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return bits < 0 ? std::int64_t{INT32_MIN} - bits : std::int64_t{bits};
  };
  return std::abs(place(a) - place(b));
}

struct Worst {
  std::int64_t error = 0;
  float at = 0;
};

// The largest error of `fast` at finite floats of both signs from `low` to `high`. A step of 997
// floats meets each exponent at irregular mantissas.
Worst worst_error(float (*fast)(float), double (*exact)(double), float low, float high) {
  Worst worst;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(kInf); bits += 997) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < low || x > high) continue;
      const std::int64_t error = ulps(fast(x), static_cast<float>(exact(static_cast<double>(x))));
      if (error > worst.error) worst = {error, x};
    }
  }
  return worst;
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

TEST_CASE("fast_exp is within 1 ulp of the correctly rounded value", "[vector_math]") {
  const Worst worst = worst_error(fast_exp, std::exp, -87.3F, 88.72F);
  INFO("at " << worst.at);
  CHECK(worst.error <= 1);
}

TEST_CASE("fast_exp at its limits", "[vector_math]") {
  CHECK(fast_exp(0.0F) == 1);
  CHECK(fast_exp(-0.0F) == 1);
  CHECK(fast_exp(-87.4F) == 0);
  CHECK(fast_exp(-kInf) == 0);
  CHECK(fast_exp(-1e30F) == 0);
  CHECK(fast_exp(88.8F) == kInf);
  CHECK(fast_exp(kInf) == kInf);
  CHECK(std::isfinite(fast_exp(88.72F)));
  CHECK(std::isnan(fast_exp(NAN)));
  CHECK(std::isnan(fast_exp(-NAN)));
}

TEST_CASE("exact_exp is within 0.51 ulp, denormals included", "[vector_math]") {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(kInf); bits += 997) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < -103.9F || x > 88.72F) continue;
      const double exact = std::exp(static_cast<double>(x));
      const double ulp = std::exp2(std::max(std::ilogb(exact), -126) - 23);
      worst = std::max(worst, std::abs(static_cast<double>(exact_exp(x)) - exact) / ulp);
    }
  }
  CHECK(worst < 0.51);
  CHECK(exact_exp(0.0F) == 1);
  CHECK(exact_exp(-103.9F) == std::numeric_limits<float>::denorm_min());
  for (const float x : {-104.0F, -110.1F, -1e30F, -kInf}) CHECK(exact_exp(x) == 0);
  for (const float x : {88.73F, 90.1F, 1e30F, kInf}) CHECK(exact_exp(x) == kInf);
  CHECK(std::isnan(exact_exp(NAN)));
  CHECK(std::isnan(exact_exp(-NAN)));
}

TEST_CASE(
    "fast_tanh is within 1 ulp of the correctly rounded value, fast_erf and fast_sigmoid within 2",
    "[vector_math]") {
  const Worst tanh = worst_error(fast_tanh, std::tanh, -kInf, kInf);
  INFO("at " << tanh.at);
  CHECK(tanh.error <= 1);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const Worst worst : {worst_error(fast_erf, std::erf, -kInf, kInf),
                            worst_error(fast_sigmoid, sigmoid, -87, kInf)}) {
    INFO("at " << worst.at);
    CHECK(worst.error <= 2);
  }
}

TEST_CASE("exact_log is within 0.51 ulp of the true value, denormals included", "[vector_math]") {
  double worst = 0;
  for (std::uint32_t bits = 1; bits < std::bit_cast<std::uint32_t>(kInf); bits += 997) {
    const auto x = std::bit_cast<float>(bits);
    if (x == 1) continue;
    const double exact = std::log(static_cast<double>(x)), ulp = std::exp2(std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(exact_log(x)) - exact) / ulp);
  }
  CHECK(worst < 0.51);
  CHECK(same(exact_log(1.0F), 0.0F));
  CHECK(exact_log(0.0F) == -kInf);
  CHECK(exact_log(-0.0F) == -kInf);
  CHECK(exact_log(kInf) == kInf);
  for (const float x : {-1e-45F, -1.0F, -kInf, NAN, -NAN}) CHECK(std::isnan(exact_log(x)));
}

TEST_CASE("fast_erf and fast_tanh are odd, keep the sign of 0, and end at 1", "[vector_math]") {
  for (float (*const f)(float) :
       {static_cast<float (*)(float)>(fast_erf), static_cast<float (*)(float)>(fast_tanh)}) {
    CHECK(same(f(0.0F), 0.0F));
    CHECK(same(f(-0.0F), -0.0F));
    for (const float large : {10.0F, 100.0F, std::numeric_limits<float>::max(), kInf}) {
      CHECK(f(large) == 1);
      CHECK(f(-large) == -1);
    }
    CHECK(std::isnan(f(NAN)));
    CHECK(std::isnan(f(-NAN)));
    for (float x = 1e-38F; x < 20; x *= 1.01F) {
      CHECK(same(f(-x), -f(x)));
      CHECK(f(x) <= 1);
    }
  }
  CHECK(fast_erf(4.0F) == 1);
  CHECK(fast_erf(3.9F) < 1);
  CHECK(fast_tanh(9.1F) == 1);
  CHECK(fast_tanh(8.9F) < 1);
}

TEST_CASE("exp, sigmoid, tanh and erf of f32 underflow and overflow as the standard ones do",
          "[vector_math]") {
  const std::vector<double> x = {-kInf, -1000, -104, -100, -88.5, 0, 88.5, 100, 1000, kInf, NAN};
  const Tensor f32 = vector(x).to(DType::f32);
  const auto expected = [&](auto f) {
    std::vector<double> y;
    for (const double v : x) y.push_back(static_cast<double>(f(static_cast<float>(v))));
    return vector(y);
  };
  const auto agree = [&](const Tensor& y, const Tensor& z) {
    return difference(y.to(DType::f64), z, 1e-6, 1.5e-45);
  };
  CHECK(agree(exp(f32), expected([](float v) { return std::exp(v); })) == "");
  CHECK(agree(sigmoid(f32), expected([](float v) { return 1 / (1 + std::exp(-v)); })) == "");
  CHECK(agree(tanh(f32), expected([](float v) { return std::tanh(v); })) == "");
  CHECK(agree(erf(f32), expected([](float v) { return std::erf(v); })) == "");
}
