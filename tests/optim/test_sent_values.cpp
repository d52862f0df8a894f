#include <cmath>
#include <limits>

#include "tapegrad/base/random.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using optim::CommDType;

namespace {

std::vector<float> sent_and_received(CommDType type, const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(optim::bytes_sent(type, n)));
  std::vector<float> received(values.size());
  optim::pack(type, values.data(), bytes.data(), n);
  optim::unpack(type, bytes.data(), received.data(), n);
  return received;
}

}  // namespace

TEST_CASE("values travel whole, as bf16, or as int8 with a scale for each 128", "[sent]") {
  Rng rng(1);
  std::vector<float> values(300);
  rng.uniform(values, -1, 1);
  for (std::size_t i = 128; i < 256; ++i) values[i] *= 1e-6F;  // a scale of their own
  CHECK(sent_and_received(CommDType::f32, values) == values);
  const std::vector<float> halved = sent_and_received(CommDType::bf16, values);
  const std::vector<float> scaled = sent_and_received(CommDType::int8, values);
  CHECK(optim::bytes_sent(CommDType::int8, 300) == 300 + 3 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO(i << ": " << values[i]);
    CHECK(std::abs(halved[i] - values[i]) <= std::abs(values[i]) / 256);
    const float largest = i >= 128 && i < 256 ? 1e-6F : 1;
    CHECK(std::abs(scaled[i] - values[i]) <= largest / 253);
  }
}

TEST_CASE("int8 keeps zeros, largest values, and what is not finite", "[sent]") {
  CHECK(sent_and_received(CommDType::int8, std::vector<float>(200)) == std::vector<float>(200));
  CHECK(sent_and_received(CommDType::int8, {0, 254, -254, 2}) ==
        std::vector<float>{0, 254, -254, 2});
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CHECK_FALSE(std::isfinite(sent_and_received(CommDType::int8, {1, broken, 2}).at(1)));
  }
  CHECK(sent_and_received(CommDType::int8, {}).empty());
}
