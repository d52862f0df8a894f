// The fused ops against the same functions composed of primitive ops.

#include <cmath>

#include "tapegrad/tests/autograd/ops/compare_fused.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The first sequence has no padding, the second ends in it, the third begins with it, the fourth is
// nothing else.
Tensor padding_of_four(std::int64_t T) {
  Tensor mask = Tensor::zeros({4, T}, DType::u8);
  auto* m = mask.mutable_data<std::uint8_t>();
  for (std::int64_t j = 0; j < T; ++j) {
    m[T + j] = j >= (T + 1) / 2;
    m[2 * T + j] = j < T / 2;
    m[3 * T + j] = 1;
  }
  return mask;
}

}  // namespace

TEST_CASE("attention agrees with its composed reference", "[fused]") {
  Rng rng(1);
  for (const bool causal : {true, false}) {
    for (const std::int64_t T : {1, 2, 63, 64, 65, 130}) {
      INFO("T " << T << (causal ? " causal" : " full"));
      const AttentionOptions options{.causal = causal};
      const Function composed = [&](Inputs in) {
        const auto qkv = split(in[0], {6, 6, 6}, 2);
        return attention_reference(qkv[0], qkv[1], qkv[2], 2, causal);
      };
      const Tensor packed = normal(rng, {2, T, 18});
      compare([&](Inputs in) { return attention(in[0], 2, options); }, composed, {packed});
      const auto qkv = split(packed, {6, 6, 6}, 2);
      compare([&](Inputs in) { return attention(in[0], in[1], in[2], 3, options); },
              [&](Inputs in) { return attention_reference(in[0], in[1], in[2], 3, causal); }, qkv);
    }
  }
}

TEST_CASE("attention of few queries to many keys agrees with its composed reference", "[fused]") {
  Rng rng(2);
  compare([](Inputs in) { return attention(in[0], in[1], in[2], 2, {.causal = false}); },
          [](Inputs in) { return attention_reference(in[0], in[1], in[2], 2, false); },
          {normal(rng, {2, 70, 4}), normal(rng, {2, 5, 4}), normal(rng, {2, 5, 4})});
}

TEST_CASE("attention of groups that share keys agrees with its composed reference", "[fused]") {
  Rng rng(16);
  for (const int K : {1, 2, 6}) {
    for (const auto& [Tq, Tk] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {1, 130}, {5, 70}, {65, 65}, {130, 130}}) {
      const bool causal = Tq == Tk;
      INFO(K << " of 6 heads, " << Tq << " queries, " << Tk << " keys");
      const std::int64_t D = 3;
      compare(
          [causal = causal](Inputs in) {
            return attention(in[0], in[1], in[2], 6, {.causal = causal});
          },
          [causal = causal](Inputs in) {
            return attention_reference(in[0], in[1], in[2], 6, causal);
          },
          {normal(rng, {2, Tq, 6 * D}), normal(rng, {2, Tk, K * D}), normal(rng, {2, Tk, K * D})});
    }
  }
}

TEST_CASE("groups that share keys are as good as copies of the keys", "[fused]") {
  Rng rng(17);
  const std::int64_t T = 70, D = 4;
  const Tensor q = normal(rng, {2, T, 6 * D}, DType::f32);
  const Tensor k = normal(rng, {2, T, 2 * D}, DType::f32), v = normal(rng, k.shape(), DType::f32);
  const auto copies = [](const Tensor& x) {
    const Tensor first = slice(x, 2, 0, D), second = slice(x, 2, D, 2 * D);
    return concat({first, first, first, second, second, second}, 2);
  };
  CHECK(same_bits(attention(q, k, v, 6), attention(q, copies(k), copies(v), 6)));
}

TEST_CASE("keys and values that heads cannot share are an error with all shapes", "[fused]") {
  const Tensor q = Tensor::zeros({2, 3, 12});
  const auto keys = [](std::int64_t width) { return Tensor::zeros({2, 3, width}); };
  for (const std::int64_t width :
       {0, 1, 8, 24}) {  // heads of 3: none, a third, not a divisor, more
    CHECK_THROWS_WITH(attention(q, keys(width), keys(width), 4),
                      ContainsSubstring("[attention] q (2, 3, 12) has 4 heads of 3") &&
                          ContainsSubstring("k " + keys(width).shape().str()));
    CHECK_THROWS_AS(attention_reference(q, keys(width), keys(width), 4, true), Error);
  }
  CHECK_THROWS_WITH(attention(keys(0), keys(3), keys(3), 4), ContainsSubstring("k (2, 3, 3)"));
  CHECK_THROWS_WITH(attention(q, keys(6), keys(3), 4),
                    ContainsSubstring("k (2, 3, 6) and v (2, 3, 3)"));
}

TEST_CASE("attention's dropout is that of its composed reference with the same mask", "[fused]") {
  Rng rng(3);
  for (const std::int64_t T : {5, 70}) {
    const Tensor q = normal(rng, {2, T, 4}), k = normal(rng, {2, T, 4}), v = normal(rng, {2, T, 4});
    for (const auto kind : {Rng::Kind::torch, Rng::Kind::philox}) {
      Rng draw(5, kind);
      const KeepMask mask(draw, 2 * 2 * T * T, 0.3);
      compare(
          [kind](Inputs in) {
            Rng r(5, kind);
            return attention(in[0], in[1], in[2], 2, {.dropout = 0.3, .rng = &r});
          },
          [&](Inputs in) { return attention_reference(in[0], in[1], in[2], 2, true, mask); },
          {q, k, v});
    }
  }
}

TEST_CASE("attention with padded keys agrees with its composed reference", "[fused]") {
  Rng rng(12);
  for (const bool causal : {true, false}) {
    for (const std::int64_t T : {1, 2, 9, 64, 65, 130}) {
      INFO("T " << T << (causal ? " causal" : " full"));
      const Tensor mask = padding_of_four(T);
      const AttentionOptions options{.causal = causal, .key_padding_mask = mask};
      const Tensor packed = normal(rng, {4, T, 18});
      const auto qkv = split(packed, {6, 6, 6}, 2);
      const Function composed = [&](Inputs in) {
        return attention_reference(in[0], in[1], in[2], 2, causal, {}, mask);
      };
      compare([&](Inputs in) { return attention(in[0], 2, options); },
              [&](Inputs in) {
                return composed(split(in[0], {6, 6, 6}, 2));
              },
              {packed});
      compare([&](Inputs in) { return attention(in[0], in[1], in[2], 2, options); }, composed, qkv);
    }
  }
}

TEST_CASE("padded keys are as good as absent, whatever they hold", "[fused]") {
  Rng rng(13);
  const std::int64_t T = 70, real = 41;
  const Tensor q = normal(rng, {1, 5, 4}, DType::f32);
  Tensor k = normal(rng, {1, T, 4}, DType::f32), v = normal(rng, {1, T, 4}, DType::f32);
  Tensor mask = Tensor::zeros({1, T}, DType::u8);
  for (std::int64_t j = real; j < T; ++j) {
    mask.mutable_data<std::uint8_t>()[j] = 7;  // any number but 0 counts
    for (int c = 0; c < 4; ++c) k.mutable_data<float>()[j * 4 + c] = 1e30F;
  }
  const Tensor y =
      attention(q, k, v, 2, {.causal = false, .key_padding_mask = mask}).to(DType::f64);
  const Tensor short_y =
      attention(q, slice(k, 1, 0, real), slice(v, 1, 0, real), 2, {.causal = false});
  CHECK(difference(y, short_y.to(DType::f64), 1e-5, 1e-6) == "");
}

TEST_CASE("a query without a visible key gets zeros, and passes no gradient", "[fused]") {
  Rng rng(14);
  const std::int64_t T = 6;
  const Tensor mask = padding_of_four(T), qkv = normal(rng, {4, T, 12});
  Tape tape;
  tape.watch(qkv);
  const Tensor y = attention(qkv, 2, {.key_padding_mask = mask});
  const Tensor g = tape.gradient(y, {qkv}, {.seeds = {normal(rng, y.shape())}})[0];
  CHECK(list(y.rows(3, 4)) == std::vector<double>(static_cast<std::size_t>(T * 4), 0));
  CHECK(list(g.rows(3, 4)) == std::vector<double>(static_cast<std::size_t>(T * 12), 0));
  // Causal, the first queries of the third see padding only; the later ones see real keys.
  CHECK(list(slice(y.rows(2, 3), 1, 0, 3)) == std::vector<double>(12, 0));
  for (const double x : list(slice(y.rows(2, 3), 1, 3, 6))) CHECK((std::isfinite(x) && x != 0));
  for (const double x : list(g)) CHECK(std::isfinite(x));
}

TEST_CASE("a padding mask that does not fit is an error that names its shape", "[fused]") {
  const Tensor qkv = Tensor::zeros({2, 3, 6});
  CHECK_THROWS_WITH(attention(qkv, 1, {.key_padding_mask = Tensor::zeros({3, 2}, DType::u8)}),
                    ContainsSubstring("[attention] key_padding_mask must be bool or u8 of (2, 3), "
                                      "not u8 of (3, 2)"));
  CHECK_THROWS_WITH(attention(qkv, 1, {.key_padding_mask = Tensor::zeros({2, 3})}),
                    ContainsSubstring("not f32 of (2, 3)"));
}

TEST_CASE("the padding mask of a recorded attention may change before backward", "[fused]") {
  Rng rng(15);
  const Tensor x = normal(rng, {1, 4, 6});
  const auto slope = [&](bool changes) {
    Tensor mask = Tensor::from<std::uint8_t>({0, 0, 1, 0}, {1, 4});
    Tape tape;
    tape.watch(x);
    const Tensor y = sum(attention(x, 1, {.causal = false, .key_padding_mask = mask}));
    if (changes) mask.mutable_data<std::uint8_t>()[0] = 1;
    return tape.gradient(y, {x})[0];
  };
  CHECK(same_bits(slope(true), slope(false)));
}

TEST_CASE("a position's attention does not depend on later ones", "[fused]") {
  Rng rng(4);
  Tensor x = normal(rng, {1, 100, 12});
  const Tensor before = attention(x, 2);
  for (std::int64_t i = 80 * 12; i < x.numel(); ++i) x.mutable_data<double>()[i] *= -100;
  const Tensor after = attention(x, 2);
  CHECK(same_bits(slice(before, 1, 0, 80), slice(after, 1, 0, 80)));
  CHECK(after.at(80 * 4) != before.at(80 * 4));
}

TEST_CASE("layer_norm agrees with its composed reference", "[fused]") {
  Rng rng(5);
  for (const std::int64_t n : {1, 7, 8, 65}) {
    compare([](Inputs in) { return layer_norm(in[0], in[1], in[2]); },
            [](Inputs in) {
              const Tensor& x = in[0];
              const Tensor rstd = 1.0 / sqrt(var(x, {-1}, false, true) + 1e-5);
              return (x - mean(x, {-1}, true)) * rstd * in[1] + in[2];
            },
            {normal(rng, {3, 50, n}), normal(rng, {n}), normal(rng, {n})});
  }
}

TEST_CASE("layer_norm's other forms agree with their composed references", "[fused]") {
  Rng rng(8);
  for (const bool outside : {false, true}) {
    for (const std::int64_t n : {2, 7, 8, 65}) {
      INFO((outside ? "eps outside, " : "eps inside, ") << n);
      const LayerNormOptions options{.eps = 0.01, .unbiased = true, .eps_outside = outside};
      compare([&](Inputs in) { return layer_norm(in[0], in[1], in[2], options); },
              [&](Inputs in) {
                const Tensor& x = in[0];
                const Tensor v = var(x, {-1}, true, true);
                const Tensor spread = outside ? sqrt(v) + 0.01 : sqrt(v + 0.01);
                return (x - mean(x, {-1}, true)) / spread * in[1] + in[2];
              },
              {normal(rng, {3, 50, n}), normal(rng, {n}), normal(rng, {n})});
    }
  }
}

TEST_CASE("rms_norm agrees with its composed reference", "[fused]") {
  Rng rng(9);
  for (const std::int64_t n : {1, 7, 8, 65}) {
    INFO(n << " channels");
    const auto inverse = [](const Tensor& x, double eps) {
      return 1.0 / sqrt(mean(x * x, {-1}, true) + eps);
    };
    const std::vector<Tensor> inputs = {normal(rng, {3, 50, n}), normal(rng, {n})};
    compare([](Inputs in) { return rms_norm(in[0], in[1]); },
            [&](Inputs in) { return in[0] * inverse(in[0], 1e-5) * in[1]; }, inputs);
    compare([](Inputs in) { return rms_norm(in[0], {}, 0.01); },
            [&](Inputs in) { return in[0] * inverse(in[0], 0.01); }, {inputs[0]});
  }
}

TEST_CASE("swiglu agrees with its composed reference", "[fused]") {
  Rng rng(10);
  compare([](Inputs in) { return swiglu(in[0], in[1]); },
          [](Inputs in) { return in[0] / (1.0 + exp(-in[0])) * in[1]; },
          {normal(rng, {3, 333}, DType::f64, 3), normal(rng, {3, 333})});
}

TEST_CASE("clamped_swiglu agrees with its composed reference, and has these numbers", "[fused]") {
  Rng rng(10);
  const double inf = std::numeric_limits<double>::infinity();
  compare([](Inputs in) { return clamped_swiglu(in[0], in[1]); },
          [&](Inputs in) {
            const Tensor g = clamp(in[0], -inf, 7), u = clamp(in[1], -7, 7);
            return g / (1.0 + exp(g * -1.702)) * (u + 1.0);
          },
          {normal(rng, {3, 333}, DType::f64, 5), normal(rng, {3, 333}, DType::f64, 5)});
  // 7·σ(1.702·7)·8, and −9·σ(1.702·−9)·−6.
  CHECK(difference(clamped_swiglu(vector({1e30, -9}), vector({inf, -inf})),
                   vector({55.99962503, 1.20190679e-5}), 1e-7, 0) == "");
}

TEST_CASE("gelu agrees with its composed reference", "[fused]") {
  Rng rng(6);
  const Tensor x = normal(rng, {1000}, DType::f64, 3);
  compare([](Inputs in) { return gelu(in[0]); },
          [](Inputs in) {
            const Tensor& v = in[0];
            return v * 0.5 * (1.0 + tanh((v + pow(v, 3) * 0.044715) * std::sqrt(2 / M_PI)));
          },
          {x});
  compare([](Inputs in) { return gelu(in[0], Gelu::erf); },
          [](Inputs in) { return in[0] * 0.5 * (1.0 + erf(in[0] / std::sqrt(2.0))); }, {x});
}

TEST_CASE("relu2 agrees with its composed reference, and has these numbers", "[fused]") {
  Rng rng(6);
  compare([](Inputs in) { return relu2(in[0]); },
          [](Inputs in) { return in[0] * maximum(in[0], Tensor::scalar(0, in[0].dtype())); },
          {normal(rng, {1000}, DType::f64, 3)});
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(list(relu2(vector({-inf, -2, -0.0, 0.1, 1.5, 3e200}))) ==
        std::vector<double>{0, 0, 0, 0.1 * 0.1, 2.25, inf});
}

TEST_CASE("cross entropy agrees with its composed reference", "[fused]") {
  Rng rng(7);
  for (const std::int64_t V : {1, 5, 300}) {
    std::vector<std::int32_t> targets(40);
    for (auto& t : targets) t = static_cast<std::int32_t>(rng.randint(V));
    compare([&](Inputs in) { return cross_entropy(in[0], ids(targets)); },
            [&](Inputs in) { return -mean(gather(log_softmax(in[0]), ids(targets), 1)); },
            {normal(rng, {40, V})});
  }
}

TEST_CASE("linear_cross_entropy agrees with a head and cross entropy, over several chunks",
          "[fused]") {
  Rng rng(8);
  for (const std::int64_t rows : {1, 383, 384, 385, 1000}) {
    std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
    for (auto& t : targets) t = static_cast<std::int32_t>(rng.randint(8)) - 1;
    targets.back() = 0;
    INFO(rows << " rows");
    compare([&](Inputs in) { return linear_cross_entropy(in[0], in[1], ids(targets), -1); },
            [&](Inputs in) { return cross_entropy(linear(in[0], in[1]), ids(targets), -1); },
            {normal(rng, {rows, 5}), normal(rng, {7, 5})});
  }
}

TEST_CASE("linear_cross_entropy gives the same gradients twice, and a multiple for a multiple",
          "[fused]") {
  Rng rng(9);
  const Tensor x = parameter(rng, {3, 4}), weight = parameter(rng, {5, 4});
  Tape tape;
  const Tensor loss = linear_cross_entropy(x, weight, ids({0, 4, 2}));
  tape.backward(loss, {.keep = true});
  const Tensor first = weight.grad().clone();
  tape.backward(loss, {.keep = true});
  CHECK(difference(weight.grad(), first * 2.0, 1e-15, 1e-15) == "");
  tape.backward(loss, {.seeds = {Tensor::scalar(3, DType::f64)}});
  CHECK(difference(weight.grad(), first * 5.0, 1e-14, 1e-14) == "");
}
