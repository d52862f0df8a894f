#include <cmath>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The gradients of q, k and v of one head for dy = 1…, fused or composed.
Grads gradients(const std::vector<Tensor>& qkv, bool fused = true) {
  Tape tape;
  for (const Tensor& t : qkv) tape.watch(t);
  const Tensor y = fused ? attention(qkv[0], qkv[1], qkv[2], 1, {.causal = false})
                         : attention_reference(qkv[0], qkv[1], qkv[2], 1, false);
  return tape.gradient(y, qkv, {.seeds = {Tensor::ones(y.shape(), y.dtype())}});
}

Tensor column(const std::vector<float>& values) {
  return Tensor::from(values, {1, static_cast<std::int64_t>(values.size()), 1});
}

// The gradients of q, k and v of the sum of squares of those of q.
Grads second_gradients(const std::vector<Tensor>& qkv, bool fused) {
  Tape tape;
  for (const Tensor& t : qkv) tape.watch(t);
  const Grads first = gradients(qkv, fused);
  return tape.gradient(sum(first[0] * first[0]), qkv);
}

// ‖a − b‖ / ‖b‖.
double distance(const Tensor& a, const Tensor& b) {
  double gap = 0, size = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    gap += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
    size += b.at(i) * b.at(i);
  }
  return std::sqrt(gap / size);
}

}  // namespace

TEST_CASE("attention's weights sum to 1 in backward however large the scores are", "[attention]") {
  const bool fused = GENERATE(true, false);
  const Grads near = gradients({column({30}), column({30, 30.01F}), column({3, 5})}, fused);
  CHECK(near[0].item() == Approx(0.004889).epsilon(2e-3));
  const Grads equal = gradients({column({1000}), column({1000, 1000}), column({3, 5})}, fused);
  CHECK(equal[0].item() == 0);
  CHECK(list(equal[2]) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("attention's second derivatives are near those of f64 for large scores", "[attention]") {
  const bool fused = GENERATE(true, false);
  Rng rng(4);
  std::vector<Tensor> small, large;
  for (const double factor : {6.0, 6.0, 1.0}) {
    small.push_back(normal(rng, {1, 32, 1}, DType::f32, factor));
    large.push_back(small.back().to(DType::f64));
  }
  const Grads a = second_gradients(small, fused), b = second_gradients(large, fused);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("input " << i << ": " << distance(a[i].to(DType::f64), b[i]));
    CHECK(distance(a[i].to(DType::f64), b[i]) < 5e-5);
  }
}

TEST_CASE("attention_reference refuses what attention refuses", "[attention]") {
  const Tensor q = Tensor::ones({2, 3, 4}), k = Tensor::ones({1, 2, 3, 4});
  CHECK_THROWS_WITH(attention_reference(q, k, k, 1, false), ContainsSubstring("does not fit"));
}

TEST_CASE("f32 gradients of attention are near those of f64 for scores of every size",
          "[attention]") {
  Rng rng(3);
  // Sizes of the scores; what is left is the rounding of the scores themselves.
  const auto [scale, limit] =
      GENERATE(Catch::Generators::table<double, double>({{10, 4e-6}, {37, 1e-5}, {187, 4e-5}}));
  const double s = std::sqrt(scale);
  std::vector<Tensor> small, large;
  for (const double factor : {s, s, 1.0}) {
    small.push_back(normal(rng, {1, 128, 16}, DType::f32, factor));
    large.push_back(small.back().to(DType::f64));
  }
  const Tensor dy = normal(rng, {1, 128, 16}, DType::f32);
  const auto run = [&](const std::vector<Tensor>& qkv) {
    Tape tape;
    for (const Tensor& t : qkv) tape.watch(t);
    const Tensor y = attention(qkv[0], qkv[1], qkv[2], 1, {.causal = false});
    return tape.gradient(y, qkv, {.seeds = {dy.to(y.dtype())}});
  };
  const Grads a = run(small), b = run(large);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO("scale " << scale << ", input " << i << ": " << distance(a[i].to(DType::f64), b[i]));
    CHECK(distance(a[i].to(DType::f64), b[i]) < limit);
  }
}

TEST_CASE("a query whose scores are all minus infinity gets zeros, as in PyTorch", "[attention]") {
  const bool fused = GENERATE(true, false);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<Tensor> qkv = {column({1}), column({-kInf, -kInf}), column({3, 5})};
  for (Tensor& t : qkv) t = t.to(dtype);
  const Tensor y = fused ? attention(qkv[0], qkv[1], qkv[2], 1, {.causal = false})
                         : attention_reference(qkv[0], qkv[1], qkv[2], 1, false);
  CHECK(y.item() == 0);
  CHECK(list(gradients(qkv, fused)[2]) == std::vector<double>{0, 0});
}

TEST_CASE("padding is hidden from scores of every size", "[attention]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const Tensor q = column({1e16F}).to(dtype), k = column({-1e16F, -1e16F, 0}).to(dtype),
               v = column({3, 5, 9}).to(dtype);
  const Tensor padding = Tensor::from<std::int32_t>({0, 0, 1}, {1, 3}).to(DType::u8);
  CHECK(attention(q, k, v, 1, {.causal = false, .key_padding_mask = padding}).item() == 4);
  CHECK(attention_reference(q, k, v, 1, false, {}, padding).item() == 4);
}
