#include <algorithm>
#include <array>
#include <cmath>

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Tensor plain(const Shape& shape) { return Tensor::ones(shape, DType::f64); }

// The formula of conv2d's declaration, term by term.
double conv2d_element(const Tensor& x, const Tensor& w, const Conv2dOptions& o,
                      const std::array<std::int64_t, 4>& at) {
  const auto [n, out, r, t] = at;
  const std::int64_t group = out / (w.dim(0) / o.groups);
  double sum = 0;
  for (std::int64_t c = 0; c < w.dim(1); ++c) {
    for (std::int64_t i = 0; i < w.dim(2); ++i) {
      for (std::int64_t j = 0; j < w.dim(3); ++j) {
        const std::int64_t y = r * o.stride.h + i * o.dilation.h - o.padding.h;
        const std::int64_t z = t * o.stride.w + j * o.dilation.w - o.padding.w;
        if (y < 0 || y >= x.dim(2) || z < 0 || z >= x.dim(3)) continue;
        sum += w.at({out, c, i, j}) * x.at({n, group * w.dim(1) + c, y, z});
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("conv2d is the sum that its formula says, however its columns are cut", "[conv2d]") {
  struct Case {
    Shape x, w;
    Conv2dOptions options;
  };
  // Pieces of rows, of parts of a row, of several images; rows as long as x's; one tap; depthwise.
  const Case cases[] = {
      {{2, 40, 30, 31}, {3, 40, 5, 5}, {.stride = {1, 2}, .padding = {3, 1}, .dilation = {2, 1}}},
      {{1, 60, 2, 700}, {2, 60, 2, 9}, {.padding = {0, 4}}},
      {{9, 4, 6, 7}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {{2, 30, 40, 21}, {3, 30, 5, 3}, {.padding = {4, 1}, .dilation = {2, 1}}},
      {{1, 30, 40, 21}, {3, 30, 4, 5}, {.padding = {1, 2}}},
      {{3, 5, 9, 4}, {2, 5, 1, 1}, {}},
      {{2, 3, 9, 8}, {6, 1, 3, 2}, {.stride = 2, .padding = {2, 0}, .groups = 3}},
  };
  for (const auto& [x_shape, w_shape, options] : cases) {
    INFO(x_shape.str() << " by " << w_shape.str());
    Rng rng(2);
    const Tensor x = normal(rng, x_shape), w = normal(rng, w_shape);
    const Tensor y = conv2d(x, w, {}, options);
    double worst = 0;
    std::int64_t place = 0;
    for (std::int64_t n = 0; n < y.dim(0); ++n) {
      for (std::int64_t o = 0; o < y.dim(1); ++o) {
        for (std::int64_t r = 0; r < y.dim(2); ++r) {
          for (std::int64_t t = 0; t < y.dim(3); ++t) {
            const double expected = conv2d_element(x, w, options, {n, o, r, t});
            worst = std::max(worst, std::abs(y.at(place++) - expected));
          }
        }
      }
    }
    CHECK(worst < 1e-11);
    // The gradients are the adjoints: ⟨dy, conv(v)⟩ = ⟨dx(dy), v⟩, and as much for the weight.
    Tape tape;
    tape.watch(x);
    tape.watch(w);
    const Tensor dy = normal(rng, y.shape()), v = normal(rng, x_shape), u = normal(rng, w_shape);
    const Grads grads = tape.gradient(conv2d(x, w, {}, options), {x, w}, {.seeds = {dy}});
    CHECK(sum(grads[0] * v).item() == Approx(sum(dy * conv2d(v, w, {}, options)).item()));
    CHECK(sum(grads[1] * u).item() == Approx(sum(dy * conv2d(x, u, {}, options)).item()));
  }
}

TEST_CASE("conv2d does not depend on the number of threads", "[conv2d]") {
  Rng rng(3);
  for (const std::int64_t groups : {1, 2, 16}) {
    for (const Shape& shape : {Shape{5, 16, 40, 30}, Shape{1, 16, 60, 50}, Shape{40, 16, 5, 5}}) {
      const Tensor x = normal(rng, shape, DType::f32);
      const Tensor w = normal(rng, {32, 16 / groups, 3, 3}, DType::f32);
      const auto gradients = [&](int threads) {
        const Threads limit(threads);
        Tape tape;
        tape.watch(x);
        tape.watch(w);
        const Tensor y = conv2d(x, w, {}, {.padding = 1, .groups = groups});
        Grads grads = tape.gradient(sum(y * y), {x, w});
        grads.push_back(y);
        return grads;
      };
      const Grads one = gradients(1), three = gradients(3);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
    }
  }
}

TEST_CASE("a tape does not keep the columns of conv2d, and they are made in pieces", "[conv2d]") {
  Rng rng(4);
  const Tensor x = parameter(rng, {1, 8, 200, 200}), w = parameter(rng, {8, 8, 5, 5});
  reset_peak_memory();
  const std::size_t before = memory_stats().live;
  Tape tape;
  const Tensor y = conv2d(x, w);
  CHECK(tape.saved_bytes() <= x.bytes() + w.bytes());
  CHECK(memory_stats().peak - before < y.bytes() + (4 << 20));  // the columns would take 60 MB
  tape.backward(sum(y));
  CHECK(w.grad().defined());
}

TEST_CASE("errors of ops on signals name them, not the ops on images", "[conv2d]") {
  const Tensor x = plain({2, 4, 5}), w = plain({3, 4, 3});
  CHECK_THROWS_WITH(conv_transpose1d(x, w),
                    ContainsSubstring("[conv_transpose1d] x (2, 4, 1, 5) in 1"));
  CHECK_THROWS_WITH(conv_transpose1d(x, plain({4, 3, 3}), {}, {.stride = 0}),
                    ContainsSubstring("[conv_transpose1d] stride (1, 0) must be from 1"));
  CHECK_THROWS_WITH(max_pool1d(x, 7), ContainsSubstring("[max_pool1d] "));
  CHECK_THROWS_WITH(avg_pool1d(x, 7), ContainsSubstring("[avg_pool1d] "));
  CHECK_THROWS_WITH(adaptive_max_pool1d(x, 0), ContainsSubstring("[adaptive_max_pool1d] "));
}

TEST_CASE("conv2d's arguments must fit", "[conv2d]") {
  const Tensor x = plain({2, 4, 5, 5}), w = plain({6, 4, 3, 3});
  const auto big = std::int64_t{1} << 40;
  CHECK_THROWS_WITH(conv2d(plain({5}), w), ContainsSubstring("[conv2d] x must be (N, C, H, W)"));
  CHECK_THROWS_WITH(conv2d(x, plain({6, 4, 3})), ContainsSubstring("the weight must have 4"));
  CHECK_THROWS_WITH(
      conv2d(x, plain({6, 3, 3, 3})),
      ContainsSubstring("x (2, 4, 5, 5) in 1 groups does not fit weight (6, 3, 3, 3)"));
  CHECK_THROWS_WITH(conv2d(x, w, plain({5})), ContainsSubstring("bias (5) does not fit weight"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.groups = 3}), ContainsSubstring("3 groups"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.groups = 0}), ContainsSubstring("0 groups"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.stride = {1, 0}}), ContainsSubstring("stride (1, 0)"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.padding = -1}), ContainsSubstring("padding (-1, -1)"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.dilation = 3}),
                    ContainsSubstring("reaches over 7 does not fit into 5"));
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.padding = big}), ContainsSubstring("must be from 0 to"));
  CHECK_THROWS_WITH(conv2d(x, plain({6, 4, 0, 3})), ContainsSubstring("a kernel of (0, 3)"));
  CHECK_THROWS_WITH(conv2d(plain({2, 4, 0, 5}), w, {}, {.padding = 3}),
                    ContainsSubstring("x (2, 4, 0, 5) has no elements in a plane"));
  CHECK_THROWS_WITH(conv2d(plain({0, 4, 5, 5}), w, {}, {.padding = (std::int64_t{1} << 31) - 1}),
                    ContainsSubstring("windows are too many"));
  CHECK_THROWS_WITH(conv2d(x, w.to(DType::f32)), ContainsSubstring("dtypes differ: x is f64"));
  CHECK_THROWS_WITH(conv_transpose2d(x, w), ContainsSubstring("[conv_transpose2d] x (2, 4, 5, 5)"));
  const Tensor back = plain({4, 6, 3, 3});
  CHECK_THROWS_WITH(conv_transpose2d(x, back, plain({4})), ContainsSubstring("bias (4)"));
  CHECK_THROWS_WITH(conv_transpose2d(x, back, {}, {.output_padding = 1}),
                    ContainsSubstring("output_padding (1, 1) must be below stride or dilation"));
  CHECK_THROWS_WITH(conv_transpose2d(x, back, {}, {.padding = 4}),
                    ContainsSubstring("would grow to a size of -1"));
}
