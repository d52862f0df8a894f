#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Tensor starts_of(const std::vector<std::int32_t>& starts, const Shape& shape) {
  return Tensor::from(starts, shape);
}

Tensor positions(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, 1, begin, end);
}

}  // namespace

TEST_CASE("causal_conv1d is conv1d of each channel without the outputs that see the future",
          "[causal_conv1d]") {
  Rng rng(1);
  const std::int64_t T = 6, C = 5;
  for (const std::int64_t K : {1, 3, 8}) {  // 8: more than positions
    const Tensor x = normal(rng, {2, T, C}), w = normal(rng, {C, 1, K}), b = normal(rng, {C});
    const Tensor by_channel = conv1d(transpose(x, 1, 2), w, b, {.padding = K - 1, .groups = C});
    const Tensor expected = transpose(slice(by_channel, 2, 0, T), 1, 2);
    CHECK(difference(causal_conv1d(x, w, b), expected, 1e-12, 1e-12) == "");
  }
}

TEST_CASE("causal_conv1d gives a position the same bits whatever stands beside it",
          "[causal_conv1d]") {
  Rng rng(2);
  const std::int64_t T = 90, C = 37, K = 4;
  const Tensor x = normal(rng, {3, T, C}, DType::f32), w = normal(rng, {C, 1, K}, DType::f32);
  const Tensor whole = causal_conv1d(x, w);
  for (const std::int64_t t : {0, 1, 2, 3, 50, 89}) {
    const std::int64_t first = std::max<std::int64_t>(0, t - K + 1);
    const Tensor alone = causal_conv1d(positions(slice(x, 0, 1, 2), first, t + 1), w);
    CHECK(same_bits(positions(alone, t - first, t - first + 1),
                    positions(slice(whole, 0, 1, 2), t, t + 1)));
  }
  // A text that begins behind zeros is one without them.
  const Tensor padded = causal_conv1d(pad(x, 1, K - 1, T + K - 1), w);
  CHECK(same_bits(positions(padded, K - 1, T + K - 1), whole));
}

TEST_CASE("causal_conv1d does not look into another document", "[causal_conv1d]") {
  Rng rng(3);
  const Tensor x = normal(rng, {1, 7, 4}, DType::f32), w = normal(rng, {4, 1, 3}, DType::f32);
  const Tensor starts = starts_of({0, 0, 0, 3, 4, 4, 4}, {1, 7});
  const Tensor y = causal_conv1d(x, w, {}, starts);
  for (const auto& [begin, end] : {std::pair(0, 3), std::pair(3, 4), std::pair(4, 7)}) {
    CHECK(same_bits(positions(y, begin, end), causal_conv1d(positions(x, begin, end), w)));
  }
}

TEST_CASE("causal_conv1d and its gradients do not depend on the number of threads",
          "[causal_conv1d]") {
  Rng rng(4);
  const Tensor x = normal(rng, {2, 500, 64}, DType::f32), w = normal(rng, {64, 1, 3}, DType::f32);
  const auto gradients = [&](int threads) {
    const Threads limit(threads);
    Tape tape;
    tape.watch(x);
    tape.watch(w);
    const Tensor y = causal_conv1d(x, w);
    Grads grads = tape.gradient(sum(y * y), {x, w});
    grads.push_back(y);
    return grads;
  };
  const Grads one = gradients(1), three = gradients(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("causal_conv1d's arguments must fit", "[causal_conv1d]") {
  const Tensor x = Tensor::ones({2, 4, 5}), w = Tensor::ones({5, 1, 3});
  CHECK_THROWS_WITH(causal_conv1d(Tensor::ones({4, 5}), w),
                    ContainsSubstring("x must be (B, T, C), not (4, 5)"));
  for (const Shape& shape : {Shape{4, 1, 3}, Shape{5, 2, 3}, Shape{5, 1, 0}, Shape{5, 3}}) {
    CHECK_THROWS_WITH(causal_conv1d(x, Tensor::ones(shape)),
                      ContainsSubstring("the weight must be (5, 1, taps)"));
  }
  CHECK_THROWS_WITH(causal_conv1d(x, w, Tensor::ones({4})),
                    ContainsSubstring("bias (4) does not fit x (2, 4, 5)"));
  CHECK_THROWS_WITH(causal_conv1d(x, w.to(DType::f64)), ContainsSubstring("dtypes differ"));
  CHECK_THROWS_WITH(causal_conv1d(x, w, {}, starts_of({0, 0, 1, 2}, {1, 4})),
                    ContainsSubstring("document_starts must be i32"));
  CHECK_THROWS_WITH(causal_conv1d(x, w, {}, starts_of({0, 0, 1, 2, 0, 0, 0, 0}, {2, 4})),
                    ContainsSubstring("neither that position nor the beginning"));
}
