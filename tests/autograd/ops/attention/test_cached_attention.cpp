#include <cmath>

#include "tapegrad/autograd/cached_attention.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr int kHeads = 6;

// A sequence whose keys and values are known, in pages with `room` further positions that hold NaN.
struct Sequence {
  Tensor keys, values;  // (length, K·D)
  std::vector<std::shared_ptr<CachedPage>> pages = {};

  CachedKeys cached() const { return {pages, keys.dim(0)}; }
};

Sequence sequence_of(const Tensor& keys, const Tensor& values, std::int64_t room, CacheType type) {
  Sequence s{keys, values};
  const std::int64_t length = keys.dim(0), all = length + room;
  const Tensor nothing = Tensor::full({room, keys.dim(1)}, std::nan(""), keys.dtype());
  const Tensor k = concat({keys, nothing}, 0), v = concat({values, nothing}, 0);
  for (std::int64_t first = 0; first < all; first += CachedPage::kPositions) {
    const std::int64_t count = std::min(CachedPage::kPositions, all - first);
    s.pages.push_back(std::make_shared<CachedPage>(keys.dim(1), count, keys.dtype(), type));
    s.pages.back()->store(0, count, k, v, first);
  }
  return s;
}

// Sequences of these lengths, each with keys of `width` channels.
std::vector<Sequence> random_sequences(Rng& rng, const std::vector<std::int64_t>& lengths,
                                       std::int64_t width, std::int64_t room, DType dtype,
                                       CacheType type = CacheType::f32) {
  std::vector<Sequence> sequences;
  for (const std::int64_t length : lengths) {
    const Tensor keys = normal(rng, {length, width}, dtype);
    sequences.push_back(sequence_of(keys, normal(rng, {length, width}, dtype), room, type));
  }
  return sequences;
}

std::vector<CachedKeys> cached(const std::vector<Sequence>& sequences) {
  std::vector<CachedKeys> all;
  for (const Sequence& s : sequences) all.push_back(s.cached());
  return all;
}

// The last T rows of causal attention of the whole sequence, whose first queries are any.
Tensor composed(Rng& rng, const Tensor& q, const Sequence& s, const ScoreOptions& scores = {}) {
  const std::int64_t T = q.dim(1), past = s.keys.dim(0) - T;
  const Tensor before = normal(rng, {1, past, q.dim(2)}, q.dtype());
  const auto own = [&](const Tensor& x) { return reshape(x, {1, x.dim(0), x.dim(1)}); };
  const Tensor y = attention_reference(concat({before, q}, 1), own(s.keys), own(s.values), kHeads,
                                       true, {}, {}, scores);
  return slice(y, 1, past, s.keys.dim(0));
}

}  // namespace

TEST_CASE("attention to cached keys is the end of attention in whole sequences",
          "[cached_attention]") {
  Rng rng(3);
  const std::int64_t D = 4, T = GENERATE(1, 2, 17, 64, 70), K = GENERATE(1, 2, 6);
  const std::vector<std::int64_t> lengths = {T, T + 1, 300, T + 63, 130};
  const Tensor q = normal(rng, {5, T, kHeads * D});
  const auto caches = random_sequences(rng, lengths, K * D, 3, DType::f64);
  const Tensor y = attention(q, cached(caches), kHeads);
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
  ScoreOptions scores{.scale = 0.7, .softcap = 2, .window = window};
  if (window != 64) scores.sinks = normal(rng, {kHeads});
  const std::vector<std::int64_t> lengths = {T, T + 1, 600, T + 63};
  const Tensor q = normal(rng, {4, T, kHeads * D});
  const auto caches = random_sequences(rng, lengths, 2 * D, 3, DType::f64);
  const Tensor y = attention(q, cached(caches), kHeads, scores);
  for (std::int64_t b = 0; b < 4; ++b) {
    const auto at = static_cast<std::size_t>(b);
    INFO(T << " queries at the end of " << lengths[at] << ", window " << window);
    const Tensor expected = composed(rng, q.rows(b, b + 1), caches[at], scores);
    CHECK(difference(y.rows(b, b + 1), expected, 1e-12, 1e-13) == "");
    const CachedKeys own = caches[at].cached();
    CHECK(same_bits(attention(q.rows(b, b + 1), {&own, 1}, kHeads, scores), y.rows(b, b + 1)));
  }
}

TEST_CASE("a sequence's attention has the same bits whatever others and threads there are",
          "[cached_attention]") {
  Rng rng(4);
  const std::int64_t D = 64, T = GENERATE(1, 3);
  const Tensor q = normal(rng, {4, T, kHeads * D}, DType::f32);
  const auto caches = random_sequences(rng, {350, 3, 64, 77}, 2 * D, 0, DType::f32);
  const Threads three(3);
  const Tensor y = attention(q, cached(caches), kHeads);
  const Threads one(1);
  for (std::int64_t b = 0; b < 4; ++b) {
    const CachedKeys own = caches[static_cast<std::size_t>(b)].cached();
    CHECK(same_bits(attention(q.rows(b, b + 1), {&own, 1}, kHeads), y.rows(b, b + 1)));
  }
}

TEST_CASE("a query's attention has the bits that it has in the whole sequence, however it is cut",
          "[cached_attention]") {
  Rng rng(7);
  const std::int64_t D = GENERATE(8, 20, 64, 100), T = 530, K = GENERATE(2, 6);
  const std::int64_t window = GENERATE(0, 1, 37, 300);
  ScoreOptions scores{.softcap = window == 37 ? 3.0 : 0.0, .window = window};
  const DType dtype = GENERATE(DType::f32, DType::f64);
  if (window == 37 || window == 300) scores.sinks = normal(rng, {kHeads}, dtype);
  const auto normals = [&](std::int64_t heads) { return normal(rng, {T, heads * D}, dtype); };
  const Tensor q = normals(kHeads);
  const Sequence s = sequence_of(normals(K), normals(K), 0, CacheType::f32);
  const auto batch = [](const Tensor& x) { return reshape(x, {1, x.dim(0), x.dim(1)}); };
  const Tensor whole =
      attention(batch(q), batch(s.keys), batch(s.values), kHeads, {.scores = scores});
  for (std::int64_t begin = 0, end = 0; begin < T; begin = end) {
    const std::int64_t counts[] = {1, 1, 2, 15, 16, 17, 63, 65, 130};
    end = std::min(T, begin + counts[rng.randint(9)]);
    INFO("D " << D << ", window " << window << ", queries " << begin << " to " << end);
    const CachedKeys part{s.pages, end};
    CHECK(same_bits(attention(batch(q.rows(begin, end)), {&part, 1}, kHeads, scores),
                    slice(whole, 1, begin, end)));
  }
}

TEST_CASE("keys and values that are stored shorter are read as they were rounded",
          "[cached_attention]") {
  Rng rng(8);
  const CacheType type = GENERATE(CacheType::f16, CacheType::q8_0);
  const std::int64_t D = GENERATE(16, 20, 48, 96), T = GENERATE(1, 3, 80), length = 300;
  if (type == CacheType::q8_0 && 2 * D % CachedPage::kBlock != 0) return;
  const Sequence s = random_sequences(rng, {length}, 2 * D, 3, DType::f32, type)[0];
  Tensor keys = Tensor::empty(s.keys.shape()), values = Tensor::empty(s.values.shape());
  for (std::int64_t page = 0; page < 2; ++page) {
    const std::int64_t first = page * CachedPage::kPositions;
    s.pages[static_cast<std::size_t>(page)]->load(
        0, std::min(CachedPage::kPositions, length - first), keys, values, first);
  }
  const double tolerance = type == CacheType::f16 ? 0x1p-10 : 0.02;  // of numbers up to about 4
  CHECK(difference(keys, s.keys, 0x1p-11, tolerance) == "");
  CHECK(difference(values, s.values, 0x1p-11, tolerance) == "");
  CHECK_FALSE(same_bits(keys, s.keys));
  const Tensor q = normal(rng, {1, T, kHeads * D}, DType::f32);
  const Sequence rounded = sequence_of(keys, values, 0, CacheType::f32);
  const CachedKeys own = s.cached(), as_read = rounded.cached();
  CHECK(same_bits(attention(q, {&own, 1}, kHeads), attention(q, {&as_read, 1}, kHeads)));
  const auto copy = s.pages[1]->copy(20, 40);
  Tensor again = Tensor::empty({20, 2 * D}), second = again.clone();
  copy->load(0, 20, again, second, 0);
  CHECK(same_bits(again, keys.rows(256, 276)));
  CHECK(same_bits(second, values.rows(256, 276)));
  CHECK(bytes_of(type, 64) == (type == CacheType::f16 ? 128 : 68));
}

TEST_CASE("what does not fit cached keys is an error, and so is a tape", "[cached_attention]") {
  Rng rng(5);
  const auto caches = random_sequences(rng, {5, 2}, 6, 0, DType::f64);
  const auto attend = [&](const Shape& q) {
    return attention(normal(rng, q), cached(caches), kHeads);
  };
  CHECK(attend({2, 2, 6}).shape() == Shape{2, 2, 6});
  CHECK_THROWS_WITH(attend({3, 1, 6}),
                    ContainsSubstring("(3, 1, 6)") && ContainsSubstring("2 cached"));
  CHECK_THROWS_WITH(attend({2, 0, 6}), ContainsSubstring("(2, 0, 6)"));
  CHECK_THROWS_WITH(attend({2, 3, 6}), ContainsSubstring("2 positions in pages for 16"));
  CHECK_THROWS_WITH(attend({2, 1, 24}), ContainsSubstring("number must divide 6"));
  CachedKeys longer{caches[0].pages, 17};
  const Tensor one = normal(rng, {1, 1, 6});
  CHECK_THROWS_WITH(attention(one, {&longer, 1}, kHeads),
                    ContainsSubstring("17 positions in pages for 16"));
  CHECK_THROWS_WITH(attention(normal(rng, {2, 1, 6}), cached(caches), kHeads, {.attn_mask = one}),
                    ContainsSubstring("attention to cached keys takes no attn_mask"));
  const auto of_f32 = random_sequences(rng, {2}, 6, 0, DType::f32);
  CHECK_THROWS_WITH(attention(one, cached(of_f32), kHeads), ContainsSubstring("6 channels of f32"));
  const std::vector<std::shared_ptr<CachedPage>> two = {caches[0].pages[0], caches[1].pages[0]};
  const CachedKeys gap{two, 18};
  CHECK_THROWS_WITH(attention(one, {&gap, 1}, kHeads), ContainsSubstring("is not the last one"));
  CHECK_THROWS_WITH(CachedPage(6, 10, DType::f64, CacheType::f16), ContainsSubstring("as f16"));
  CHECK_THROWS_WITH(CachedPage(6, 10, DType::f32, CacheType::q8_0), ContainsSubstring("not 6"));
  const Tensor q = parameter(rng, {2, 1, 6});
  Tape tape;
  CHECK_THROWS_WITH(attention(q, cached(caches), kHeads), ContainsSubstring("no tape can record"));
}

TEST_CASE("keys and values that are not finite stay so, however they are stored",
          "[cached_attention]") {
  const CacheType type = GENERATE(CacheType::f32, CacheType::f16, CacheType::q8_0);
  const float broken = GENERATE(NAN, INFINITY, -INFINITY, 1e38F);
  Rng rng(9);
  Tensor keys = normal(rng, {3, 64}, DType::f32);
  keys.mutable_data<float>()[64 + 5] = broken;
  const Sequence s = sequence_of(keys, keys, 2, type);
  Tensor k = Tensor::empty(keys.shape()), v = Tensor::empty(keys.shape());
  s.pages[0]->load(0, 3, k, v, 0);
  const auto survives = [&](float read) {
    return type == CacheType::f32 && std::isfinite(broken) ? read == broken : !std::isfinite(read);
  };
  CHECK(survives(k.data<float>()[64 + 5]));
  CHECK(survives(v.data<float>()[64 + 5]));
  for (const std::int64_t other : {0, 64 + 40, 128 + 5}) {
    CHECK(std::isfinite(k.data<float>()[other]));
    CHECK(std::isfinite(v.data<float>()[other]));
  }
}

TEST_CASE("channels that are nearly 0 are kept as such", "[cached_attention]") {
  const CacheType type = GENERATE(CacheType::f16, CacheType::q8_0);
  const Tensor tiny = Tensor::full({1, 64}, 1e-38);
  const Sequence s = sequence_of(tiny, tiny, 2, type);
  Tensor k = Tensor::empty(tiny.shape()), v = Tensor::empty(tiny.shape());
  s.pages[0]->load(0, 1, k, v, 0);
  for (const float channel : k.values<float>()) CHECK(std::abs(channel) <= 1e-38F);
}
