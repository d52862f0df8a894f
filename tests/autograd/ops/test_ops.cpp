#include <cmath>
#include <limits>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using List = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

bool all_finite(const Tensor& t) {
  const List values = list(t);
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// The gradient of sum(f(x)).
template <class F>
Tensor slope(const Tensor& x, const F& f) {
  Tape tape;
  tape.watch(x);
  const Tensor y = f(x);
  return tape.gradient(y, {x}, {.seeds = {Tensor::ones(y.shape(), y.dtype())}})[0];
}

}  // namespace

TEST_CASE("derivatives at kinks are PyTorch's", "[ops]") {
  const Tensor x = vector({-1, 0, 1});
  CHECK(list(slope(x, relu)) == List{0, 0, 1});
  CHECK(list(slope(x, relu2)) == List{0, 0, 2});
  CHECK(list(slope(x, tapegrad::abs)) == List{-1, 0, 1});
  CHECK(list(slope(x, [](auto& v) { return clamp(v, -1, 0); })) == List{1, 1, 0});
  CHECK(list(slope(x, [](auto& v) { return pow(v, 0); })) == List{0, 0, 0});
  CHECK(list(slope(vector({0}), [](auto& v) { return pow(v, 1); })) == List{1});
  CHECK(list(slope(vector({0, 2}), [](auto& b) { return pow(vector({0, 1}), b); })) == List{0, 0});
  CHECK(list(slope(x, [](auto& v) { return maximum(v, vector({0, 0, 0})); })) == List{0, 0.5, 1});
  CHECK(list(slope(vector({2, 5, 5, 1}), [](auto& v) { return max(v); })) == List{0, 0.5, 0.5, 0});
  CHECK(list(slope(vector({2, 5, 5}), [](auto& v) { return max(v, 0).values; })) == List{0, 1, 0});
}

TEST_CASE("NaN passes through relu, clamp, abs, max and maximum", "[ops]") {
  const Tensor x = vector({kNaN, 1});
  for (const Tensor& y : {relu(x), relu2(x), clamp(x, 0, 1), abs(x), maximum(x, vector({0, 0})),
                          maximum(vector({0, 0}), x), exp(x), gelu(x), sigmoid(x)}) {
    CHECK(std::isnan(y.at(0)));
    CHECK_FALSE(std::isnan(y.at(1)));
  }
  CHECK(std::isnan(max(x).item()));
  CHECK(std::isnan(max(vector({1, kNaN, 2})).item()));
  CHECK(argmax(vector({1, kNaN, 2, kNaN}), 0).item() == 1);
  CHECK(std::isnan(softmax(vector({1, kNaN})).at(0)));
  CHECK(std::isnan(log_sum_exp(vector({kNaN, -kInf})).item()));
  CHECK(std::isnan(softmax(Tensor::from<float>({1, std::nanf("")}, {2})).at(0)));
}

TEST_CASE("reductions of nothing", "[ops]") {
  const Tensor none = Tensor::zeros({0}, DType::f64), rows = Tensor::zeros({3, 0}, DType::f64);
  CHECK(sum(none).item() == 0);
  CHECK(std::isnan(mean(none).item()));
  CHECK(std::isnan(var(vector({1})).item()));
  CHECK(list(sum(rows, {1})) == List{0, 0, 0});
  CHECK(sum(rows, {0}).shape() == Shape{0});
  CHECK(list(log_sum_exp(rows)) == List{-kInf, -kInf, -kInf});
  CHECK_THROWS_WITH(max(none), ContainsSubstring("[max] an empty tensor of shape (0)"));
  CHECK_THROWS_WITH(argmax(rows, 1), ContainsSubstring("[argmax] dimension 1 of (3, 0) is empty"));
  CHECK(softmax(rows).shape() == Shape{3, 0});
  CHECK(slope(rows, [](auto& x) { return softmax(x); }).shape() == Shape{3, 0});
  CHECK(layer_norm(rows).shape() == Shape{3, 0});
  CHECK(rms_norm(rows).shape() == Shape{3, 0});
  CHECK(slope(rows, [](auto& x) { return rms_norm(x); }).shape() == Shape{3, 0});
  CHECK(slope(rows, [](auto& x) { return layer_norm(x); }).shape() == Shape{3, 0});
  CHECK(attention(Tensor::zeros({2, 0, 6}), 2).shape() == Shape{2, 0, 2});
  CHECK(attention(Tensor::zeros({0, 3, 6}), 2).shape() == Shape{0, 3, 2});
  CHECK(attention(Tensor::zeros({2, 3, 0}), 2).shape() == Shape{2, 3, 0});
  CHECK(concat({none, vector({1}), none}, 0).shape() == Shape{1});
  CHECK(embedding(Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::i32)).shape() == Shape{0, 3});
  CHECK(list(attention(Tensor::ones({1, 2, 2}), Tensor::ones({1, 0, 2}), Tensor::ones({1, 0, 2}), 1,
                       {.causal = false})) == List{0, 0, 0, 0});
}

TEST_CASE("scalars work as tensors of rank 0", "[ops]") {
  const Tensor x = Tensor::scalar(2, DType::f64);
  CHECK(sum(x).shape() == Shape{});
  CHECK((x * x).item() == 4);
  CHECK(permute(x, {}).item() == 2);
  CHECK(reshape(x, {1, 1}).shape() == Shape{1, 1});
  CHECK(max(x).item() == 2);
  CHECK(std::isnan(var(x).item()));
  CHECK(slope(x, [](auto& v) { return mean(v * v); }).item() == 4);
  CHECK(softmax(x, 0).item() == 1);
  CHECK(log_softmax(x).item() == 0);
  CHECK(log_sum_exp(x, -1, true).item() == x.item());
  CHECK_THROWS_WITH(softmax(x, 1), ContainsSubstring("no dimension 1"));
  CHECK_THROWS_WITH(layer_norm(x), ContainsSubstring("[layer_norm] a scalar"));
  CHECK_THROWS_WITH(matmul(x, x), ContainsSubstring("[matmul] a scalar"));
}

TEST_CASE("a product over K = 0 is zeros", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = Tensor::ones({2, 0}, dtype), b = Tensor::ones({0, 3}, dtype);
    CHECK(same_bits(matmul(a, b), Tensor::zeros({2, 3}, dtype)));
    CHECK(matmul(Tensor::ones({0, 2}, dtype), Tensor::ones({2, 3}, dtype)).shape() == Shape{0, 3});
    CHECK(list(linear(a, Tensor::ones({3, 0}, dtype), Tensor::full({3}, 7, dtype))) ==
          List(6, 7.0));
    CHECK(slope(a, [&](auto& x) { return matmul(x, b); }).shape() == Shape{2, 0});
  }
}

TEMPLATE_TEST_CASE("gemm follows IEEE: 0·∞ is NaN, yet beta = 0 ignores what was in C", "[ops]",
                   float, double) {
  using T = TestType;
  for (const std::int64_t n : {1, 3, 40}) {
    const auto square = static_cast<std::size_t>(n * n);
    const std::vector<T> zero(square, 0), one(square, 1);
    const std::vector<T> inf(square, std::numeric_limits<T>::infinity());
    const auto product = [&](const std::vector<T>& a, const std::vector<T>& b, T beta, T before) {
      std::vector<T> c(square, before);
      gemm(Gemm<T>{.m = n,
                   .n = n,
                   .k = n,
                   .a = a.data(),
                   .lda = n,
                   .b = b.data(),
                   .ldb = n,
                   .c = c.data(),
                   .ldc = n,
                   .beta = beta});
      return c.back();
    };
    CHECK(std::isnan(product(zero, inf, 0, 0)));
    CHECK(std::isnan(product(inf, zero, 0, 0)));
    CHECK(product(one, one, 0, std::numeric_limits<T>::quiet_NaN()) == n);
    CHECK(product(one, one, 1, 5) == n + 5);
    CHECK(product(one, one, 2, 5) == n + 10);
    std::vector<T> c(square, std::numeric_limits<T>::quiet_NaN());
    gemm(Gemm<T>{.m = n, .n = n, .k = 0, .ldb = n, .c = c.data(), .ldc = n});
    CHECK(c.back() == 0);
  }
}

TEST_CASE("matmul takes vectors, batches and transposed operands", "[ops]") {
  Rng rng(1);
  const Tensor v = vector({1, 2, 3}), m = normal(rng, {3, 4}), batch = normal(rng, {2, 5, 3});
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(matmul(v, v).item() == 14);
  CHECK(matmul(v, m).shape() == Shape{4});
  CHECK(matmul(batch, v).shape() == Shape{2, 5});
  CHECK(matmul(v, transpose(batch, 1, 2)).shape() == Shape{2, 5});
  CHECK(matmul(v, batch, {.transpose_b = true}).shape() == Shape{2, 5});
  const Tensor expected = matmul(batch, m);
  CHECK(expected.shape() == Shape{2, 5, 4});
  CHECK(difference(matmul(transpose(batch, 1, 2), m, {.transpose_a = true}), expected, 1e-14,
                   1e-14) == "");
  CHECK(difference(matmul(batch, transpose(m, 0, 1), {.transpose_b = true}), expected, 1e-14,
                   1e-14) == "");
  CHECK_THROWS_WITH(matmul(Tensor::ones({2, 3}), Tensor::ones({4, 5})),
                    "[matmul] inner dimensions differ: a is (2, 3), b is (4, 5)");
  CHECK_THROWS_WITH(matmul(Tensor::ones({2, 3, 4}), Tensor::ones({3, 4, 5})),
                    "[matmul] shapes do not broadcast: (2) and (3)");
  CHECK_THROWS_WITH(matmul(Tensor::ones({2, 2}), Tensor::ones({2, 2}, DType::f64)),
                    "[matmul] dtypes differ: f32 and f64");
}

TEST_CASE("rows that are gathered several times add up their gradients", "[ops]") {
  const Tensor w = Tensor::zeros({4, 2}, DType::f64);
  const Tensor d = slope(w, [](auto& x) { return embedding(x, ids({1, 3, 1, 1})); });
  CHECK(list(d) == List{0, 0, 3, 3, 0, 0, 1, 1});
  CHECK_THROWS_WITH(embedding(w, ids({1, 0, 4})),
                    "[gather_rows] id 4 at position 2 is outside the 4 rows");
  CHECK_THROWS_WITH(embedding(w, ids({1, -1})),
                    "[gather_rows] id -1 at position 1 is outside the 4 rows");
  CHECK_THROWS_WITH(gather_rows(w, Tensor::zeros({2})),
                    ContainsSubstring("must be i32 or i64, not f32"));
  CHECK_THROWS_WITH(embedding(vector({1}), ids({0})), ContainsSubstring("[embedding] the weight"));
  // A row of padding keeps its values and gets no gradient, not even a NaN.
  const Tensor ones = Tensor::ones({4, 2}, DType::f64);
  for (const std::int64_t padding : {1, -3}) {
    CHECK(list(embedding(ones, ids({1, 0}), padding)) == List(4, 1.0));
    CHECK(list(slope(ones, [=](auto& x) {
            return embedding(x, ids({1, 3, 1}), padding) * vector({NAN, 1, NAN}).view({3, 1});
          })) == List{0, 0, 0, 0, 0, 0, 1, 1});
  }
  CHECK_THROWS_WITH(embedding(w, ids({1}), 4), "[embedding] padding_idx 4 is outside the 4 rows");
  CHECK_THROWS_WITH(embedding(w, ids({1}), -5), "[embedding] padding_idx -5 is outside the 4 rows");
  CHECK_THROWS_WITH(gather(w, ids({0, 0, 2, 0}), 1),
                    ContainsSubstring("[gather] index 2 at position 2 is outside [0, 2)"));
}

TEMPLATE_TEST_CASE("softmax and log-sum-exp bear extreme inputs", "[ops]", float, double) {
  using T = TestType;
  const T inf = std::numeric_limits<T>::infinity(), big = 10000;
  const auto row = [](std::initializer_list<T> values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  };
  CHECK(list(softmax(row({big, -big, big}))) == List{0.5, 0, 0.5});
  CHECK(list(log_softmax(row({big, -big}))) == List{0, -20000});
  CHECK(log_sum_exp(row({-big, -big})).item() == Approx(-10000 + std::log(2)));
  CHECK(list(softmax(row({-inf, 1, -inf}))) == List{0, 1, 0});
  CHECK(log_sum_exp(row({-inf, 1})).item() == 1);
  CHECK(log_sum_exp(row({-inf, -inf})).item() == -kInf);
  CHECK(log_sum_exp(row({inf, 1})).item() == kInf);
  for (const double v : list(softmax(row({-inf, -inf})))) CHECK(std::isnan(v));
  for (const double v : list(slope(row({-inf, -inf}), [](auto& x) { return log_sum_exp(x); }))) {
    CHECK(std::isnan(v));
  }
  CHECK(list(slope(row({-inf, 1}), [](auto& x) { return log_sum_exp(x); })) == List{0, 1});
  CHECK(list(slope(row({big, -big}), [](auto& x) { return softmax(x); })) == List{0, 0});
}

TEST_CASE("cross entropy leaves out ignored targets and refuses impossible ones", "[ops]") {
  const Tensor x = Tensor::from<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  const double row = std::log(1 + std::exp(-1) + std::exp(-2));
  CHECK(cross_entropy(x, ids({2, -100})).item() == Approx(row));
  CHECK(cross_entropy(x, ids({2, 0}), 0).item() == Approx(row));
  const Tensor d = slope(x, [](auto& v) { return cross_entropy(v, ids({2, -100})); });
  CHECK(list(d.rows(1, 2)) == List{0, 0, 0});
  // All ignored: the mean of nothing, whose gradient is 0, as in PyTorch.
  CHECK(std::isnan(cross_entropy(x, ids({-100, -100})).item()));
  CHECK(list(slope(x, [](auto& v) {
          return cross_entropy(v, ids({-100, -100}));
        })) == List(6, 0.0));
  CHECK_THROWS_WITH(cross_entropy(x, ids({0, 3})),
                    "[cross_entropy] target 3 at position 1 is outside [0, 3)");
  CHECK_THROWS_WITH(cross_entropy(x, ids({-1, 0})),
                    "[cross_entropy] target -1 at position 0 is outside [0, 3)");
  CHECK_THROWS_WITH(cross_entropy(x, ids({0})),
                    "[cross_entropy] targets (1) do not fit logits (2, 3)");
  CHECK_THROWS_WITH(cross_entropy(x, Tensor::zeros({2})),
                    ContainsSubstring("targets that are floats are probabilities like the logits"));
  const Tensor extreme = Tensor::from<float>({1e4F, -1e4F}, {1, 2});
  CHECK(cross_entropy(extreme, ids({1})).item() == 2e4);
  CHECK(all_finite(slope(extreme, [](auto& v) { return cross_entropy(v, ids({1})); })));
}

TEST_CASE("cross entropy with options has the plain one's bits where they are the defaults",
          "[ops]") {
  const Tensor x = Tensor::from<float>({0.1F, 0.7F, -0.3F, 2.5F, 0.2F, 1.1F}, {2, 3});
  CHECK(same_bits(cross_entropy(x, ids({2, 0}), 0),
                  cross_entropy(x, ids({2, 0}), CrossEntropyOptions{.ignore_index = 0})));
  const CrossEntropyOptions smooth{.label_smoothing = 0.1};
  // All ignored, as in the plain one.
  CHECK(std::isnan(cross_entropy(x, ids({-100, -100}), smooth).item()));
  CHECK(list(slope(x, [&](auto& v) {
          return cross_entropy(v, ids({-100, -100}), smooth);
        })) == List(6, 0.0));
  CHECK_THROWS_WITH(cross_entropy(x, ids({0, 3}), smooth),
                    "[cross_entropy] target 3 at position 1 is outside [0, 3)");
  CHECK_THROWS_WITH(cross_entropy(x, ids({0}), smooth),
                    "[cross_entropy] targets (1) do not fit logits (2, 3)");
  CHECK_THROWS_WITH(cross_entropy(x, ids({0, 1}), {.weight = Tensor::ones({2})}),
                    "[cross_entropy] weight (2) does not fit 3 classes");
  for (const double wrong : {-0.1, 1.5, kNaN}) {
    CHECK_THROWS_WITH(cross_entropy(x, ids({0, 1}), {.label_smoothing = wrong}),
                      ContainsSubstring("[cross_entropy] label_smoothing must be"));
  }
  CHECK_THROWS_WITH(cross_entropy(x, ids({0, 1}), {.reduction = Reduction::batchmean}),
                    ContainsSubstring("[cross_entropy] there is no batchmean"));
}

TEST_CASE("layer_norm of a constant row is 0 with finite gradients", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::full({2, 5}, 1234.5, dtype);
    CHECK(list(layer_norm(x)) == List(10, 0.0));
    CHECK(all_finite(slope(x, [](auto& v) { return layer_norm(v) * v; })));
    const LayerNormOptions outside{.eps = 1e-6, .unbiased = true, .eps_outside = true};
    CHECK(list(layer_norm(x, {}, {}, outside)) == List(10, 0.0));
    CHECK(all_finite(slope(x, [&](auto& v) { return layer_norm(v, {}, {}, outside) * v; })));
  }
  CHECK_THROWS_WITH(layer_norm(Tensor::ones({2, 5}), Tensor::ones({4})),
                    "[layer_norm] weight or bias (4) does not fit x (2, 5)");
}

TEST_CASE("rows of equal elements have no rest: var and layer_norm", "[ops]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const double value = GENERATE(10.3, 0.1, -1e5 / 3, 1e-20);
  const std::int64_t n = GENERATE(2, 7, 49, 768);
  CAPTURE(value, n);
  const Tensor x = Tensor::full({n}, value, dtype);
  const List zeros(static_cast<std::size_t>(n), 0.0);
  for (const double eps : {1e-5, 1e-12, 1e-30}) {
    for (const bool outside : {false, true}) {
      CHECK(list(layer_norm(x, {}, {}, {.eps = eps, .eps_outside = outside})) == zeros);
    }
  }
  CHECK(var(x).item() == 0);
}

TEST_CASE("layer_norm of a row that varies little beside its mean", "[ops]") {
  const std::int64_t n = 1000;
  Tensor x = Tensor::empty({n});
  for (std::int64_t i = 0; i < n; ++i) {
    x.mutable_data<float>()[i] = 1000.1F + 0.001F * static_cast<float>(i % 7);
  }
  CHECK(difference(layer_norm(x), layer_norm(x.to(DType::f64)).to(DType::f32), 0, 0.02) == "");
}

TEST_CASE("rms_norm of zeros is 0 with finite gradients", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::zeros({2, 5}, dtype);
    CHECK(list(rms_norm(x)) == List(10, 0.0));
    for (const double g : list(slope(x, [](auto& v) { return rms_norm(v); }))) {
      CHECK(g == Approx(1 / std::sqrt(1e-5)));
    }
  }
}

TEST_CASE("what rms_norm and swiglu cannot take is an error that names the shapes", "[ops]") {
  CHECK_THROWS_WITH(rms_norm(Tensor::scalar(1)), ContainsSubstring("[rms_norm] a scalar"));
  CHECK_THROWS_WITH(rms_norm(Tensor::ones({2, 5}), Tensor::ones({4})),
                    "[rms_norm] weight (4) does not fit x (2, 5)");
  CHECK_THROWS_AS(rms_norm(Tensor::ones({2, 5}), Tensor::ones({5}, DType::f64)), Error);
  CHECK_THROWS_WITH(swiglu(Tensor::ones({2, 5}), Tensor::ones({5})),
                    "[swiglu] the shapes of gate (2, 5) and up (5) differ");
  CHECK_THROWS_AS(swiglu(Tensor::ones({5}), Tensor::ones({5}, DType::f64)), Error);
}

TEST_CASE("gelu is finite at extreme inputs", "[ops]") {
  for (const Gelu form : {Gelu::tanh, Gelu::erf}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = vector({-1e30, -1e4, 0, 1e4, 1e30}).to(dtype);
      CHECK(list(gelu(x, form)) == list(vector({0, 0, 0, 1e4, 1e30}).to(dtype)));
      CHECK(list(slope(x, [form](auto& v) { return gelu(v, form); })) == List{0, 0, 0.5, 1, 1});
    }
  }
}

TEST_CASE("dropout keeps all or nothing at its limits, and its backward uses its mask", "[ops]") {
  Rng rng(1);
  const std::string untouched = rng.state();
  const Tensor x = Tensor::ones({1000});
  CHECK(dropout(x, 0, rng).id() == x.id());
  CHECK(rng.state() == untouched);
  CHECK(list(dropout(x, 1, rng)) == List(1000, 0.0));
  CHECK(list(slope(x, [&](auto& v) { return dropout(v, 1, rng); })) == List(1000, 0.0));
  Tape tape;
  tape.watch(x);
  const Tensor y = dropout(x, 0.25, rng);
  CHECK(same_bits(tape.gradient(y, {x}, {.seeds = {x}})[0], y));
  const auto dropped = std::count(y.data<float>(), y.data<float>() + 1000, 0.0F);
  CHECK(dropped == Approx(250).margin(60));
  CHECK(*std::max_element(y.data<float>(), y.data<float>() + 1000) == 1 / 0.75F);
  CHECK_THROWS_WITH(dropout(x, 1.5, rng), ContainsSubstring("[dropout] the probability"));
  CHECK_THROWS_WITH(dropout(x, kNaN, rng), ContainsSubstring("[dropout] the probability"));
}

TEST_CASE("f32 sums are accumulated in double", "[ops]") {
  const Tensor x = Tensor::full({1'000'000}, 0.1F);
  CHECK(sum(x).item() == Approx(static_cast<double>(0.1F) * 1e6).epsilon(1e-7));
  CHECK(mean(x).item() == Approx(static_cast<double>(0.1F)).epsilon(1e-7));
}

TEST_CASE("errors name the op and what does not fit", "[ops]") {
  const Tensor x = Tensor::ones({2, 3});
  CHECK_THROWS_WITH(linear(x, Tensor::ones({4, 2})),
                    "[linear] x (2, 3) does not fit weight (4, 2) (out, in)");
  CHECK_THROWS_WITH(linear(x, Tensor::ones({4, 3}), Tensor::ones({3})),
                    "[linear] bias (3) does not fit weight (4, 3)");
  CHECK_THROWS_WITH(attention(Tensor::ones({1, 2, 6}), 4),
                    "[attention] 2 channels are not divisible by n_head 4");
  CHECK_THROWS_WITH(attention(x, 1), "[attention] qkv must be (B, T, 3C), not (2, 3)");
  const Tensor q = Tensor::ones({1, 2, 4}), k = Tensor::ones({1, 3, 4});
  CHECK_THROWS_WITH(attention(q, k, k, 2),
                    ContainsSubstring("as many queries as keys, not 2 and 3"));
  CHECK_THROWS_WITH(attention(q, k, q, 2),
                    "[attention] q (1, 2, 4) does not fit k (1, 3, 4) and v (1, 2, 4)");
  CHECK_THROWS_AS(attention(q, q.to(DType::f64), q, 2), Error);
  CHECK_THROWS_AS(linear(x, Tensor::ones({4, 3}, DType::f64)), Error);
  CHECK_THROWS_AS(layer_norm(x, Tensor::ones({3}, DType::f64)), Error);
  CHECK_THROWS_WITH(reshape(x, {4, 2}), "[reshape] (2, 3) has 6 elements, (4, 2) has 8");
  CHECK_THROWS_WITH(reshape(x, {4, -1}), "[reshape] 6 elements do not fit shape (4, -1)");
  CHECK_THROWS_WITH(reshape(x, {-1, -1}), "[reshape] only one size of (-1, -1) may be -1");
  CHECK_THROWS_WITH(permute(x, {0, 0}), "[permute] dimension 0 is named twice");
  CHECK_THROWS_WITH(permute(x, {0}), "[permute] 1 dimensions named for shape (2, 3)");
  CHECK_THROWS_WITH(transpose(x, 0, 2), "[transpose] there is no dimension 2 in (2, 3)");
  CHECK_THROWS_WITH(slice(x, 1, 2, 4),
                    "[slice] elements 2 to 4 do not exist in dimension 1 of (2, 3)");
  CHECK_THROWS_AS(slice(x, 1, -4, 2), Error);
  CHECK_THROWS_AS(slice(x, 1, 2, 1), Error);
  CHECK_THROWS_WITH(pad(x, 0, 1, 2),
                    ContainsSubstring("[pad] 2 elements from 1 on do not fit into 2"));
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH(pad(x, 0, kLargest, 2), ContainsSubstring("do not fit into 2"));
  CHECK_THROWS_WITH(concat({}, 0), ContainsSubstring("[concat] there is nothing to join"));
  CHECK_THROWS_WITH(concat({x, Tensor::ones({2, 2})}, 0),
                    ContainsSubstring("[concat] (2, 2) f32 does not fit (2, 3) f32"));
  CHECK_THROWS_WITH(split(x, {1, 1}, 1), ContainsSubstring("[split] sizes add up to 2"));
  CHECK_THROWS_AS(split(x, {4, -1}, 1), Error);
  CHECK_THROWS_WITH(sum(x, {0, -2}), ContainsSubstring("[sum] dimension -2 is named twice"));
  CHECK_THROWS_WITH(clamp(x, 1, 0), ContainsSubstring("[clamp] the lower limit 1"));
  CHECK_THROWS_WITH(mse_loss(x, Tensor::ones({3})), "[mse_loss] shapes differ: (2, 3) and (3)");
  CHECK_THROWS_WITH(exp(ids({1})), "[exp] this op works in f32 and f64, not in i32");
  CHECK_THROWS_WITH(exp(Tensor()), "[exp] an undefined tensor was used");
}
