#include <algorithm>
#include <cmath>
#include <numeric>

#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/base/error.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using tapegrad::Error;
using tapegrad::KeepMask;
using tapegrad::Rng;
using tapegrad::testing::crc32;
using tapegrad::testing::golden_json;

namespace {

template <class T>
void require_equal(const std::vector<T>& values, const nlohmann::json& call) {
  CAPTURE(call.dump());
  const auto head = call.at("head").get<std::vector<T>>();
  REQUIRE(values.size() >= head.size());
  CHECK(std::vector<T>(values.begin(), values.begin() + static_cast<int64_t>(head.size())) == head);
  CHECK(crc32(std::span<const T>(values)) == call.at("crc32").get<uint32_t>());
}

// A DataLoader's shuffled order: each epoch draws a base seed, then the seed of its sampler.
std::vector<int64_t> data_loader_order(Rng& rng, int64_t n) {
  rng.next64();
  return Rng(rng.next64() & INT64_MAX).randperm(n);
}

template <class F>
std::vector<int64_t> repeat(int64_t n, F draw) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::generate(values.begin(), values.end(), draw);
  return values;
}

// Makes the call that one line of random.json describes, and compares.
void replay(Rng& rng, const nlohmann::json& call) {
  const auto op = call.at("op").get<std::string>();
  const auto n = call.at("n").get<int64_t>();
  const auto a = call.at("a").get<double>();
  const auto b = call.at("b").get<double>();
  std::vector<float> f32(static_cast<size_t>(n));
  std::vector<double> f64(static_cast<size_t>(n));
  if (op == "uniform_f32") {
    rng.uniform(f32, a, b);
    require_equal(f32, call);
  } else if (op == "uniform_f64") {
    rng.uniform(f64, a, b);
    require_equal(f64, call);
  } else if (op == "normal_f32") {
    rng.normal(f32, a, b);
    require_equal(f32, call);
  } else if (op == "normal_f64") {
    rng.normal(f64, a, b);
    require_equal(f64, call);
  } else if (op == "keep_mask") {
    std::vector<uint8_t> keep(static_cast<size_t>(n), 2);
    KeepMask(rng, n, a).read(0, keep);
    require_equal(keep, call);
  } else if (op == "randint") {
    const auto range = call.at("a").get<int64_t>();
    require_equal(repeat(n, [&] { return rng.randint(range); }), call);
  } else if (op == "multinomial") {
    std::vector<float> weights(static_cast<size_t>(a));
    std::iota(weights.begin(), weights.end(), 0.0F);
    require_equal(repeat(n, [&] { return rng.multinomial(weights); }), call);
  } else if (op == "randperm") {
    require_equal(rng.randperm(n), call);
  } else if (op == "data_loader") {
    require_equal(data_loader_order(rng, n), call);
  } else {
    FAIL("random.json has a call that this test does not know: " << op);
  }
}

std::vector<uint32_t> words(Rng& rng, size_t n) {
  std::vector<uint32_t> values(n);
  std::generate(values.begin(), values.end(), [&] { return rng.next32(); });
  return values;
}

const auto any_kind = {Rng::Kind::torch, Rng::Kind::philox};

}  // namespace

TEST_CASE("every stream is PyTorch's, bit for bit", "[random]") {
  const nlohmann::json golden = golden_json("random.json");
  REQUIRE(golden.at("streams").size() >= 8);
  for (const auto& stream : golden.at("streams")) {
    Rng rng(stream.at("seed").get<uint64_t>());
    for (const auto& call : stream.at("calls")) {
      replay(rng, call);
    }
  }
}

TEST_CASE("MT19937 gives its authors' numbers", "[random]") {
  Rng rng(5489);  // the C++ standard fixes the 10000th draw of the default seed
  for (int i = 0; i < 9999; ++i) {
    rng.next32();
  }
  CHECK(rng.next32() == 4123659995U);
}

TEST_CASE("Philox gives its authors' numbers", "[random]") {
  using Block = std::array<uint32_t, 4>;
  CHECK(tapegrad::philox4x32({}, {}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(tapegrad::philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(tapegrad::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                             {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  Rng rng(0, Rng::Kind::philox);
  CHECK(words(rng, 4) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const Block second = tapegrad::philox4x32({1, 0, 0, 0}, {});
  CHECK(words(rng, 4) == std::vector<uint32_t>(second.begin(), second.end()));
}

TEST_CASE("a Philox mask depends on the place of an element alone", "[random]") {
  std::vector<uint8_t> longer(1003, 2);
  std::vector<uint8_t> shorter(501, 2);
  Rng first(42, Rng::Kind::philox);
  Rng second(42, Rng::Kind::philox);
  const KeepMask mask(first, 1003, 0.3);
  mask.read(0, longer);
  KeepMask(second, 501, 0.3).read(0, shorter);
  CHECK(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  for (size_t i = 0; i < longer.size(); ++i) {
    const auto block = tapegrad::philox4x32({static_cast<uint32_t>(i / 4), 0, 0, 0}, {42, 0});
    REQUIRE(longer[i] == (block[i % 4] * 0x1p-32 < 0.7 ? 1 : 0));
  }
  for (const int64_t begin : {1, 4, 63, 130, 1000}) {  // any stretch of it, alone
    std::vector<uint8_t> part(longer.size() - static_cast<size_t>(begin), 2);
    mask.read(begin, part);
    CHECK(std::equal(part.begin(), part.end(), longer.begin() + begin));
  }
  // 501 elements used 126 blocks; what follows starts with the next one.
  CHECK(second.next32() == tapegrad::philox4x32({126, 0, 0, 0}, {42, 0})[0]);
}

TEST_CASE("a stored mask is read from anywhere, as it was drawn", "[random]") {
  Rng rng(7), again(7);
  const KeepMask mask(rng, 100, 0.4);
  for (const int64_t begin : {0, 1, 7, 8, 13, 99}) {
    std::vector<uint8_t> part(static_cast<size_t>(100 - begin), 2);
    mask.read(begin, part);
    Rng draw = again;
    for (int64_t i = 0; i < 100; ++i) {
      const bool kept = draw.uniform_double() < 0.6;
      if (i >= begin) REQUIRE(part[static_cast<size_t>(i - begin)] == (kept ? 1 : 0));
    }
  }
}

TEST_CASE("probabilities next to 0 and 1 are taken for what they are", "[random]") {
  for (const auto kind : any_kind) {
    for (const double p : {1e-12, 1 - 1e-12}) {
      Rng rng(2, kind);
      std::vector<uint8_t> keep(5000, 2);
      KeepMask(rng, 5000, p).read(0, keep);
      CHECK(std::count(keep.begin(), keep.end(), p < 0.5 ? 1 : 0) == 5000);
    }
  }
}

TEST_CASE("a mask keeps its share, and all or nothing at the ends", "[random]") {
  for (const auto kind : any_kind) {
    Rng rng(1, kind);
    std::vector<uint8_t> keep(100000, 2);
    for (const double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      KeepMask(rng, 100000, p).read(0, keep);
      const double share = std::accumulate(keep.begin(), keep.end(), 0.0) / 1e5;
      CHECK(std::abs(share - (1.0 - p)) <= 5.0 * std::sqrt(p * (1.0 - p) / 1e5));
      CHECK(*std::max_element(keep.begin(), keep.end()) <= 1);
    }
  }
}

TEST_CASE("multinomial finds the largest quotient, wherever it stands", "[random]") {
  const Rng::Kind kind = GENERATE(Rng::Kind::torch, Rng::Kind::philox);
  Rng rng(5, kind), plain = rng;
  std::vector<float> weights(3000);
  for (int round = 0; round < 60; ++round) {
    rng.uniform(weights, 0, 1);
    plain = rng;
    for (float& weight : weights) {  // many are 0 or nearly so
      weight = std::pow(weight, static_cast<float>(round)) * (round % 3 == 2 ? 1e-30F : 1);
      if (round % 2 == 1 && weight < 0.5F) weight = 0;
    }
    weights[static_cast<std::size_t>(round)] = 0.25F;
    std::size_t best = 0;
    float most = -1;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto variate = static_cast<float>(-std::log1p(-plain.uniform_double()));
      if (weights[i] > 0 && weights[i] / variate > most) best = i, most = weights[i] / variate;
    }
    CHECK(rng.multinomial(weights) == static_cast<std::int64_t>(best));
    CHECK(rng.state() == plain.state());
  }
}

TEST_CASE("a copy continues the same stream on its own", "[random]") {
  for (const auto kind : any_kind) {
    Rng rng(3, kind);
    std::vector<float> odd(3);
    rng.normal(odd, 0, 1);
    Rng copy = rng;
    const auto expected = words(rng, 2000);
    CHECK(words(copy, 2000) == expected);
  }
}

TEST_CASE("a saved state restores every draw to come", "[random]") {
  for (const auto kind : any_kind) {
    for (const size_t used : {0, 1, 3, 4, 623, 624, 625}) {
      Rng rng(17, kind);
      words(rng, used);
      std::vector<double> odd(3), after(3), restored(3);
      rng.normal(odd, 0, 1);  // leaves a spare value
      const std::string state = rng.state();
      rng.normal(after, 0, 1);
      const auto expected = words(rng, 1000);

      Rng other(99);
      other.set_state(state);
      CHECK(other.state() == state);
      CHECK(other.kind() == kind);
      CHECK(other.seed() == 17);
      other.normal(restored, 0, 1);
      CHECK(restored == after);
      CHECK(words(other, 1000) == expected);
      CHECK(nlohmann::json(state).dump() == '"' + state + '"');
    }
  }
}

TEST_CASE("a malformed state is an error that changes nothing", "[random]") {
  for (const auto kind : any_kind) {
    Rng rng(17, kind);
    words(rng, 5);
    const std::string good = rng.state();
    const auto refused = [&](const std::string& text) {
      CAPTURE(text.size(), text.substr(0, 60));
      CHECK_THROWS_AS(rng.set_state(text), Error);
      CHECK(rng.state() == good);
    };
    for (size_t length = 0; length < good.size(); length += length < 40 ? 1 : 97) {
      refused(good.substr(0, length));
    }
    for (const char* tail : {" ", "0", " 0", "\n"}) {
      refused(good + tail);
    }
    refused(" " + good);
    refused("x" + good);
  }
  Rng rng(1);
  for (const char* text : {"torch 1 0 625 - 00", "torch 1 0 4294967296 - 00", "torch -1 0 0 -",
                           "torch 99999999999999999999 0 0 -", "philox 1 0 0 -", "philox 1 1 5 -",
                           "philox 1 1 2 7ff0000000000000", "philox 1 1 2 zz", "philox 1 1 2 -0"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(rng.set_state(text), Error);
  }
  std::string broken = rng.state();
  broken[broken.size() / 2] = 'g';
  CHECK_THROWS_WITH(rng.set_state(broken), ContainsSubstring("hexadecimal"));
}

TEST_CASE("a generator saved by an earlier version draws its integers as before", "[random]") {
  constexpr int64_t large = int64_t{1} << 30;
  Rng rng(5), twin(5);
  std::string old = rng.state();
  REQUIRE(old.starts_with("torch-2.14 5 "));
  old.erase(5, 5);  // the form of then
  twin.set_state(old);
  CHECK(twin.state() == old);
  CHECK(rng.randint(large) == 236996814);   // PyTorch 2.14's, of the low one of two words
  CHECK(twin.randint(large) == 953453411);  // PyTorch 2.6's, of one word
  Rng copy(0);
  copy.set_state(twin.state());
  CHECK(copy.randint(large) == twin.randint(large));
  // Philox, which evaluations draw from, has no numbers of PyTorch to follow.
  Rng philox(5, Rng::Kind::philox), words(5, Rng::Kind::philox);
  CHECK(philox.randint(large) == static_cast<int64_t>(words.next32() % large));
}

TEST_CASE("wrong arguments of the generator are errors", "[random]") {
  Rng rng(1);
  std::vector<float> x(4);
  const float nan = std::nanf("");
  CHECK_THROWS_WITH(rng.randint(0), "[randint] needs n > 0, not 0");
  CHECK_THROWS_AS(rng.randint(-5), Error);
  CHECK_THROWS_AS(rng.randperm(-1), Error);
  CHECK_THROWS_AS(rng.uniform(x, 1.0F, 0.0F), Error);
  CHECK_THROWS_AS(rng.uniform(x, nan, 1.0F), Error);
  CHECK_THROWS_AS(rng.uniform(x, -3e38, 3e38), Error);
  CHECK_THROWS_AS(rng.normal(x, 0.0F, -1.0F), Error);
  CHECK_THROWS_AS(rng.normal(x, 0.0F, nan), Error);
  CHECK_THROWS_WITH(rng.normal(x, 1e300, 1), ContainsSubstring("mean 1e+300"));  // of f32
  CHECK_THROWS_WITH(rng.uniform(x, -1e300, 1e300), ContainsSubstring("[uniform] needs finite"));
  for (const double p : {1.5, -0.1, std::nan("")}) CHECK_THROWS_AS(KeepMask(rng, 3, p), Error);
  CHECK_THROWS_AS(rng.multinomial({}), Error);
  const auto draw = [&](std::vector<float> weights) { return rng.multinomial(weights); };
  CHECK_THROWS_WITH(draw({1, -2}), ContainsSubstring("weight -2 at index 1"));
  CHECK_THROWS_AS(draw({1, nan}), Error);
  CHECK_THROWS_AS(draw({0, 0}), Error);
  CHECK(draw({0, 3, 0}) == 1);
}

TEST_CASE("an empty span is filled without a draw", "[random]") {
  Rng rng(1);
  const std::string before = rng.state();
  rng.uniform(std::span<float>(), 0, 1);
  rng.normal(std::span<double>(), 0, 1);
  KeepMask(rng, 0, 0.5).read(0, {});
  CHECK(rng.randperm(0).empty());
  CHECK(rng.state() == before);
}
