#include <cmath>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("sines of large arguments are those of the system", "[smooth]") {
  const Threads limit(3);
  Tensor x = Tensor::arange(0, 50000, 1).view({-1});
  float* values = x.mutable_data<float>();
  values[3] = 1e7F;
  values[40000] = -3e38F;
  values[49999] = 1048577;
  const Tensor s = sin(x), c = cos(x);
  for (const std::int64_t i : {3, 40000, 49999}) {
    CHECK(s.at(i) == static_cast<double>(std::sin(values[i])));
    CHECK(c.at(i) == static_cast<double>(std::cos(values[i])));
  }
  CHECK(s.at(2) == Approx(std::sin(2.0)));
  CHECK(c.at(30000) == Approx(std::cos(30000.0)));
}

TEST_CASE("softplus needs a positive beta", "[smooth]") {
  const Tensor x = vector({1});
  CHECK_THROWS_WITH(softplus(x, 0), ContainsSubstring("[softplus] beta must be above 0, not 0"));
  CHECK_THROWS_WITH(softplus(x, std::nan("")), ContainsSubstring("beta"));
}

TEST_CASE("a tape keeps no results of silu and softplus that it can compute again", "[smooth]") {
  Rng rng(1);
  const Tensor x = parameter(rng, {100}), w = parameter(rng, {100});
  const auto kept = [&](const std::function<Tensor(const Tensor&)>& f) {
    Tape tape;
    const Tensor y = f(x) * w;
    return tape.saved_bytes();
  };
  CHECK(kept(tapegrad::silu) == x.bytes() + w.bytes());
  CHECK(kept([](const Tensor& t) { return softplus(t); }) == x.bytes() + w.bytes());
  CHECK(kept(tapegrad::sin) == x.bytes() + 2 * w.bytes());
}
