#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr int kHeads = 6;

// Sequences of these lengths with `room` positions behind them that hold NaN, each with keys of K
// heads.
std::vector<CachedKeys> random_caches(Rng& rng, const std::vector<std::int64_t>& lengths,
                                      std::int64_t width, std::int64_t room, DType dtype) {
  const auto filled = [&](std::int64_t length) {
    const Tensor nothing = Tensor::full({room, width}, std::nan(""), dtype);
    return concat({normal(rng, {length, width}, dtype), nothing}, 0);
  };
  std::vector<CachedKeys> caches;
  for (const std::int64_t length : lengths) {
    caches.push_back({filled(length), filled(length), length});
  }
  return caches;
}

// The last T rows of causal attention of the whole sequence, whose first queries are any.
Tensor composed(Rng& rng, const Tensor& q, const CachedKeys& c, const ScoreOptions& scores = {}) {
  const std::int64_t T = q.dim(1), past = c.length - T;
  const Tensor before = normal(rng, {1, past, q.dim(2)}, q.dtype());
  const auto own = [&](const Tensor& x) {
    return reshape(x.rows(0, c.length), {1, c.length, x.dim(1)});
  };
  const Tensor y = attention_reference(concat({before, q}, 1), own(c.keys), own(c.values), kHeads,
                                       true, {}, {}, scores);
  return slice(y, 1, past, c.length);
}

}  // namespace

TEST_CASE("attention to cached keys is the end of attention in whole sequences",
          "[cached_attention]") {
  Rng rng(3);
  const std::int64_t D = 4, T = GENERATE(1, 2, 17, 64, 70), K = GENERATE(1, 2, 6);
  const std::vector<std::int64_t> lengths = {T, T + 1, 200, T + 63, 130};
  const Tensor q = normal(rng, {5, T, kHeads * D});
  const auto caches = random_caches(rng, lengths, K * D, 3, DType::f64);
  const Tensor y = attention(q, caches, kHeads);
  for (std::int64_t b = 0; b < 5; ++b) {
    INFO(T << " queries at the end of " << lengths[static_cast<std::size_t>(b)]);
    const Tensor expected = composed(rng, q.rows(b, b + 1), caches[static_cast<std::size_t>(b)]);
    CHECK(difference(y.rows(b, b + 1), expected, 1e-12, 1e-13) == "");
  }
}

TEST_CASE("attention to cached keys slides, caps and scales as in whole sequences",
          "[cached_attention]") {
  Rng rng(6);
  const std::int64_t D = 4, T = GENERATE(1, 2, 17, 70), window = GENERATE(1, 5, 64, 150, 500);
  const ScoreOptions scores{.scale = 0.7, .softcap = 2, .window = window};
  const std::vector<std::int64_t> lengths = {T, T + 1, 200, T + 63};
  const Tensor q = normal(rng, {4, T, kHeads * D});
  const auto caches = random_caches(rng, lengths, 2 * D, 3, DType::f64);
  const Tensor y = attention(q, caches, kHeads, scores);
  for (std::int64_t b = 0; b < 4; ++b) {
    const auto at = static_cast<std::size_t>(b);
    INFO(T << " queries at the end of " << lengths[at] << ", window " << window);
    const Tensor expected = composed(rng, q.rows(b, b + 1), caches[at], scores);
    CHECK(difference(y.rows(b, b + 1), expected, 1e-12, 1e-13) == "");
    const CachedKeys& own = caches[at];
    CHECK(same_bits(attention(q.rows(b, b + 1), {&own, 1}, kHeads, scores), y.rows(b, b + 1)));
  }
}

TEST_CASE("a sequence's attention has the same bits whatever others and threads there are",
          "[cached_attention]") {
  Rng rng(4);
  const std::int64_t D = 64, T = GENERATE(1, 3);
  const Tensor q = normal(rng, {4, T, kHeads * D}, DType::f32);
  const auto caches = random_caches(rng, {150, 3, 64, 77}, 2 * D, 0, DType::f32);
  const Threads three(3);
  const Tensor y = attention(q, caches, kHeads);
  const Threads one(1);
  for (std::int64_t b = 0; b < 4; ++b) {
    const CachedKeys& own = caches[static_cast<std::size_t>(b)];
    CHECK(same_bits(attention(q.rows(b, b + 1), {&own, 1}, kHeads), y.rows(b, b + 1)));
  }
  // One sequence by itself has the bits of attention without a cache.
  const CachedKeys& first = caches[0];
  const auto whole = [](const Tensor& x) { return reshape(x, {1, x.dim(0), x.dim(1)}); };
  if (T == 1) {
    const Tensor plain =
        attention(q.rows(0, 1), whole(first.keys), whole(first.values), kHeads, {.causal = false});
    CHECK(same_bits(plain, y.rows(0, 1)));
  }
}

TEST_CASE("what does not fit cached keys is an error, and so is a tape", "[cached_attention]") {
  Rng rng(5);
  auto caches = random_caches(rng, {5, 2}, 6, 1, DType::f64);
  const auto attend = [&](const Shape& q) { return attention(normal(rng, q), caches, kHeads); };
  CHECK(attend({2, 2, 6}).shape() == Shape{2, 2, 6});
  CHECK_THROWS_WITH(attend({3, 1, 6}),
                    ContainsSubstring("(3, 1, 6)") && ContainsSubstring("2 cached"));
  CHECK_THROWS_WITH(attend({2, 0, 6}), ContainsSubstring("(2, 0, 6)"));
  CHECK_THROWS_WITH(attend({2, 3, 6}), ContainsSubstring("2 positions in (3, 6) cached keys"));
  CHECK_THROWS_WITH(attend({2, 1, 24}), ContainsSubstring("number must divide 6"));
  caches[1].length = 4;
  CHECK_THROWS_WITH(attend({2, 1, 6}), ContainsSubstring("4 positions in (3, 6)"));
  caches[1].length = 2;
  caches[1].values = normal(rng, {3, 3});
  CHECK_THROWS_WITH(attend({2, 1, 6}), ContainsSubstring("values (3, 3)"));
  caches[1].values = caches[1].keys;
  const Tensor q = parameter(rng, {2, 1, 6});
  Tape tape;
  CHECK_THROWS_WITH(attention(q, caches, kHeads), ContainsSubstring("no tape can record"));
}
