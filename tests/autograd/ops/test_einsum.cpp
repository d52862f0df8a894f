#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Tensor ones(const Shape& shape) { return Tensor::ones(shape, DType::f64); }

}  // namespace

TEST_CASE("einsum's equation must fit its operands", "[einsum]") {
  const Tensor x = ones({2, 3}), y = ones({3, 4});
  CHECK_THROWS_WITH(einsum("ij", {x, y}), ContainsSubstring("\"ij\" names 1 operands, not 2"));
  CHECK_THROWS_WITH(einsum("ijk,jk", {x, y}),
                    ContainsSubstring("names 3 dimensions of operand 0, which has shape (2, 3)"));
  CHECK_THROWS_WITH(einsum("i...jk", {x}), ContainsSubstring("names 3 dimensions of operand 0"));
  CHECK_THROWS_WITH(einsum("ij,ik->jk", {x, y}), ContainsSubstring("'i' stands for sizes 2 and 3"));
  CHECK_THROWS_WITH(einsum("ii", {x}),
                    ContainsSubstring("'i' stands twice for operand 0, for sizes"));
  CHECK_THROWS_WITH(einsum("ij->ik", {x}),
                    ContainsSubstring("'k' of the output names no dimension"));
  CHECK_THROWS_WITH(einsum("ij->ii", {x}), ContainsSubstring("'i' stands twice in the output"));
  CHECK_THROWS_WITH(einsum("i1", {x}), ContainsSubstring("not by '1'"));
  CHECK_THROWS_WITH(einsum("i-j", {x}), ContainsSubstring("not by '-'"));
  CHECK_THROWS_WITH(einsum("i..", {x}), ContainsSubstring("a dot outside of"));
  CHECK_THROWS_WITH(einsum("...i...", {x}), ContainsSubstring("stands twice"));
  CHECK_THROWS_WITH(einsum("ij->i->j", {x}), ContainsSubstring("not by '-'"));
  CHECK_THROWS_WITH(einsum("", {}), ContainsSubstring("names 1 operands, not 0"));
  CHECK_THROWS_WITH(einsum("ij,jk", {x, y.to(DType::f32)}), ContainsSubstring("dtypes differ"));
  CHECK_THROWS_WITH(einsum("...,...", {x, ones({4, 3})}),
                    ContainsSubstring("'...' stands for sizes"));
  CHECK(einsum("", {Tensor::scalar(3)}).item() == 3);
}

TEST_CASE("a product of einsum's that sums is one matmul, without a copy where none is due",
          "[einsum]") {
  Rng rng(1);
  const Tensor a = normal(rng, {5, 4, 3}), b = normal(rng, {5, 6, 3});
  Tape tape;
  tape.watch(a);
  tape.watch(b);
  const Tensor y = einsum("bik,bjk->bij", {a, b});
  CHECK(same_bits(y, matmul(a, b, {.transpose_b = true})));
  CHECK(tape.size() == 2);  // with the matmul just above
}

TEST_CASE("conv1d is the sum that its formula says", "[conv1d]") {
  Rng rng(2);
  const Tensor x = normal(rng, {3, 4, 11}), w = normal(rng, {6, 2, 3}), b = normal(rng, {6});
  const std::int64_t stride = 2, padding = 3, dilation = 2;
  const Tensor y = conv1d(x, w, b, {stride, padding, dilation, 2});
  REQUIRE(y.shape() == Shape{3, 6, 7});
  for (std::int64_t n = 0; n < 3; ++n) {
    for (std::int64_t o = 0; o < 6; ++o) {
      for (std::int64_t t = 0; t < 7; ++t) {
        double expected = b.at(o);
        for (std::int64_t c = 0; c < 2; ++c) {
          for (std::int64_t k = 0; k < 3; ++k) {
            const std::int64_t place = t * stride + k * dilation - padding;
            if (place >= 0 && place < 11) {
              expected += w.at({o, c, k}) * x.at({n, o / 3 * 2 + c, place});
            }
          }
        }
        CHECK(y.at({n, o, t}) == Approx(expected));
      }
    }
  }
}

TEST_CASE("conv1d does not depend on the number of threads", "[conv1d]") {
  Rng rng(3);
  const Tensor x = normal(rng, {4, 16, 300}, DType::f32), w = normal(rng, {8, 16, 5}, DType::f32);
  const auto gradients = [&](int threads) {
    const Threads limit(threads);
    Tape tape;
    tape.watch(x);
    tape.watch(w);
    const Tensor y = conv1d(x, w, {}, {.padding = 2});
    Grads grads = tape.gradient(sum(y * y), {x, w});
    grads.push_back(y);
    return grads;
  };
  const Grads one = gradients(1), three = gradients(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("a tape does not keep the columns of a convolution", "[conv1d]") {
  Rng rng(4);
  const Tensor x = parameter(rng, {1, 8, 1000}), w = parameter(rng, {8, 8, 9});
  Tape tape;
  const Tensor y = conv1d(x, w);
  CHECK(tape.saved_bytes() <= x.bytes() + w.bytes());
  tape.backward(sum(y));
  CHECK(w.grad().defined());
}

TEST_CASE("conv1d's arguments must fit", "[conv1d]") {
  const Tensor x = ones({2, 4, 5}), w = ones({6, 4, 3});
  CHECK_THROWS_WITH(conv1d(ones({5}), w), ContainsSubstring("x must be (N, C, L) or (C, L)"));
  CHECK_THROWS_WITH(conv1d(x, ones({6, 4})), ContainsSubstring("the weight must be"));
  CHECK_THROWS_WITH(conv1d(x, ones({6, 3, 3})), ContainsSubstring("does not fit weight (6, 3, 3)"));
  CHECK_THROWS_WITH(conv1d(x, w, ones({5})), ContainsSubstring("bias (5) does not fit"));
  CHECK_THROWS_WITH(conv1d(x, w, {}, {.groups = 3}), ContainsSubstring("3 groups"));
  CHECK_THROWS_WITH(conv1d(x, w, {}, {.stride = 0}), ContainsSubstring("stride 0"));
  CHECK_THROWS_WITH(conv1d(x, w, {}, {.padding = -1}), ContainsSubstring("padding -1"));
  CHECK_THROWS_WITH(conv1d(x, w, {}, {.dilation = 3}),
                    ContainsSubstring("reaches over 7 does not fit into 5"));
  CHECK_THROWS_WITH(conv1d(x, w, {}, {.padding = std::int64_t{1} << 40}),
                    ContainsSubstring("too large"));
  CHECK_THROWS_WITH(conv1d(x, ones({6, 4, 0})), ContainsSubstring("[conv1d]"));
}

TEST_CASE("probabilities outside [0, 1] and weights that do not fit are errors", "[bce]") {
  const Tensor p = vector({0.5, 1.5}), t = vector({0, 1});
  CHECK_THROWS_WITH(binary_cross_entropy(p, t), ContainsSubstring("1.5 at position 1"));
  CHECK_THROWS_WITH(binary_cross_entropy(vector({0.5, std::nan("")}), t),
                    ContainsSubstring("at position 1 is no probability"));
  CHECK_THROWS_WITH(binary_cross_entropy(t, vector({-1, 0})),
                    ContainsSubstring("-1 at position 0"));
  CHECK_THROWS_WITH(binary_cross_entropy(t, vector({1})), ContainsSubstring("shapes differ"));
  CHECK_THROWS_WITH(binary_cross_entropy(t, t, {.pos_weight = t}), ContainsSubstring("logits"));
  CHECK_THROWS_WITH(binary_cross_entropy_with_logits(p, t, {.weight = ones({3, 2})}),
                    ContainsSubstring("weight (3, 2) does not broadcast to (2)"));
  CHECK_THROWS_WITH(kl_div(Tensor::scalar(0), Tensor::scalar(1), {Reduction::batchmean}),
                    ContainsSubstring("[kl_div] a scalar has no batch"));
  // The logarithms of 0 are −100.
  CHECK(binary_cross_entropy(vector({0, 1}), vector({1, 1})).item() == 50);
}

TEST_CASE("the loss of sure and right logits is small, not lost", "[bce]") {
  const Tensor x = vector({-40, 40}), t = vector({0, 1});
  Tape tape;
  tape.watch(x);
  const Tensor loss = binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::none});
  CHECK(loss.at(0) == Approx(std::exp(-40.0)));
  CHECK(loss.at(1) == Approx(std::exp(-40.0)));
  const Tensor gradient = tape.gradient(sum(loss), {x})[0];
  CHECK(gradient.at(0) == Approx(std::exp(-40.0)));
  CHECK(gradient.at(1) == Approx(-std::exp(-40.0)));
}
