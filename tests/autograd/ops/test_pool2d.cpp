#include <cmath>
#include <limits>

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Tensor zeros_of(const Shape& shape) { return Tensor::zeros(shape, DType::f64); }

}  // namespace

TEST_CASE("a tape keeps indices for max_pool2d, not its input", "[pool2d]") {
  Rng rng(1);
  Tensor x = parameter(rng, {2, 3, 8, 8}, DType::f32);
  Tape tape;
  const Tensor y = max_pool2d(x, 2);
  CHECK(tape.saved_bytes() == static_cast<std::size_t>(y.numel()) * sizeof(std::int32_t));
  x.mutable_data<float>()[0] = 7;  // nothing that backward reads
  tape.backward(sum(y));
  CHECK(sum(x.grad()).item() == static_cast<double>(y.numel()));
}

TEST_CASE("pools and norms of images do not depend on the number of threads", "[pool2d]") {
  Rng rng(2);
  const Tensor x = normal(rng, {7, 5, 33, 41}, DType::f32), w = normal(rng, {5}, DType::f32);
  const auto gradients = [&](int threads) {
    const Threads limit(threads);
    Tape tape;
    tape.watch(x);
    tape.watch(w);
    Tensor y = batch_norm(x, w).y;
    y = max_pool2d(y, 3, {.stride = 2, .padding = 1}) +
        avg_pool2d(y, 3, {.stride = 2, .padding = 1});
    y = upsample(y, {40, 30}) + upsample(y, {40, 30}, Upsample::bilinear);
    y = adaptive_avg_pool2d(group_norm(y, 5, w), {7, 3});
    Grads grads = tape.gradient(sum(y * y), {x, w});
    grads.push_back(y);
    return grads;
  };
  const Grads one = gradients(1), three = gradients(3);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
}

TEST_CASE("a window without elements is -inf for max_pool2d, and gets no gradient", "[pool2d]") {
  Rng rng(3);
  const Tensor x = normal(rng, {1, 1, 1, 1});
  Tape tape;
  tape.watch(x);
  const Tensor y = max_pool2d(x, 2, {.padding = 1, .dilation = 2});  // taps beside x alone
  CHECK(y.item() == -std::numeric_limits<double>::infinity());
  CHECK(tape.gradient(y, {x})[0].item() == 0);
}

TEST_CASE("batch_norm returns the mean and the variance of each channel", "[batch_norm]") {
  Rng rng(4);
  const Tensor x = normal(rng, {3, 2, 5}) + 100;
  const BatchNormResult r = batch_norm(x);
  CHECK(difference(r.mean, mean(x, {0, 2}), 1e-12, 0) == "");
  CHECK(difference(r.var, var(transpose(x, 0, 1).view({2, 15}), {1}), 1e-9, 0) == "");
  // With these, and the biased variance, evaluation is training.
  const Tensor y = batch_norm_with(x, r.mean, r.var * (14.0 / 15));
  CHECK(difference(y, r.y, 1e-9, 1e-12) == "");
}

TEST_CASE("batch_norm of equal elements is the bias, in f32 of any size", "[batch_norm]") {
  const Tensor x = Tensor::full({3, 2, 100, 70}, 1234.5678F);
  const Tensor y = batch_norm(x, {}, Tensor::from<float>({1, 2}, {2})).y;
  CHECK(same_bits(y, broadcast_to(Tensor::from<float>({1, 2}, {2, 1, 1}), x.shape())));
}

TEST_CASE("the arguments of pools and norms of images must fit", "[pool2d]") {
  const Tensor x = zeros_of({2, 4, 5, 5});
  CHECK_THROWS_WITH(max_pool2d(zeros_of({5}), 2),
                    ContainsSubstring("[max_pool2d] x must be (N, C"));
  CHECK_THROWS_WITH(max_pool2d(x, 6), ContainsSubstring("reaches over 6 does not fit into 5"));
  CHECK_THROWS_WITH(max_pool2d(x, 2, {.padding = 2}),
                    ContainsSubstring("the padding (2, 2) is more than half of the kernel (2, 2)"));
  CHECK_THROWS_WITH(max_pool2d(x, {0, 1}), ContainsSubstring("a kernel of (0, 1)"));
  CHECK_THROWS_WITH(max_pool2d(x, 2, {.stride = -1}), ContainsSubstring("stride (-1, -1)"));
  CHECK_THROWS_WITH(max_pool2d(x.to(DType::i32), 2), ContainsSubstring("not in i32"));
  CHECK_THROWS_WITH(max_pool1d(x, 2), ContainsSubstring("x must be (N, C, L) or (C, L)"));
  CHECK_THROWS_WITH(avg_pool2d(x, 3, {.padding = std::int64_t{1} << 40}),
                    ContainsSubstring("[avg_pool2d] padding"));
  CHECK_THROWS_WITH(adaptive_avg_pool2d(x, 0), ContainsSubstring("the size (0, 0) must be from 1"));
  CHECK_THROWS_WITH(upsample(zeros_of({1, 1, 0, 3}), 2),
                    ContainsSubstring("x (1, 1, 0, 3) has no elements in a plane"));
  CHECK_THROWS_WITH(
      upsample(Tensor::from<std::int32_t>({1, 2, 3, 4}, {1, 1, 2, 2}), 3, Upsample::bilinear),
      ContainsSubstring("[upsample] x must be of f32 or f64, not of i32"));
  CHECK_THROWS_WITH(avg_pool2d(zeros_of({1, 1, 0, 4}), 2, {.padding = 1}),
                    ContainsSubstring("x (1, 1, 0, 4) has no elements in a plane"));
  CHECK(max_pool2d(x, 2, {.stride = {0, 1}}).shape() == Shape{2, 4, 2, 4});
  CHECK_THROWS_WITH(batch_norm(zeros_of({4})), ContainsSubstring("x must be (N, C, …), not (4)"));
  CHECK_THROWS_WITH(batch_norm(zeros_of({1, 4})), ContainsSubstring("one element in each channel"));
  CHECK_THROWS_WITH(batch_norm(x, zeros_of({3})),
                    ContainsSubstring("(3) does not fit the channels of x (2, 4, 5, 5)"));
  CHECK_THROWS_WITH(batch_norm(x, Tensor::ones({4})), ContainsSubstring("dtypes differ"));
  CHECK_THROWS_WITH(batch_norm_with(x, {}, {}), ContainsSubstring("the mean or the variance"));
  CHECK_THROWS_WITH(group_norm(x, 3), ContainsSubstring("3 groups do not divide x (2, 4, 5, 5)"));
}
