#include <cmath>
#include <vector>

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

Tensor column(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from<double>(std::move(values), {1, 1, 1, count});
}

// The row of places, of an image of one row.
Tensor sampled(const Tensor& x, const std::vector<double>& places, const GridSampleOptions& o) {
  Tensor grid = Tensor::zeros({1, 1, static_cast<std::int64_t>(places.size()), 2}, DType::f64);
  for (std::size_t i = 0; i < places.size(); ++i) grid.mutable_data<double>()[2 * i] = places[i];
  return grid_sample(x, grid, o);
}

}  // namespace

TEST_CASE("a grid of an image's own pixels is the image", "[images]") {
  Rng rng(3);
  const Tensor x = Tensor::randn({2, 3, 4, 5}, rng, DType::f64);
  const Tensor theta = Tensor::from<double>({1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0}, {2, 2, 3});
  for (const bool corners : {false, true}) {
    for (const GridMode mode : {GridMode::bilinear, GridMode::nearest}) {
      const Tensor grid = affine_grid(theta, {4, 5}, corners);
      const GridSampleOptions options{.mode = mode, .align_corners = corners};
      CHECK(difference(grid_sample(x, grid, options), x, 1e-12, 1e-12) == "");
    }
  }
}

TEST_CASE("places outside of an image read zeros, its edge or its reflection", "[images]") {
  const Tensor x = column({1, 2, 4});  // pixels at −2/3, 0 and 2/3
  const double pixel = 2.0 / 3;
  const std::vector<double> places = {-2 * pixel, 2 * pixel, 3 * pixel, 7 * pixel, -1.5 * pixel};
  CHECK(difference(sampled(x, places, {}), column({0, 0, 0, 0, 0.5}), 1e-12, 1e-12) == "");
  CHECK(difference(sampled(x, places, {.padding = GridPadding::border}), column({1, 4, 4, 4, 1}),
                   1e-12, 1e-12) == "");
  CHECK(difference(sampled(x, places, {.padding = GridPadding::reflection}),
                   column({1, 4, 2, 4, 1}), 1e-12, 1e-12) == "");
}

TEST_CASE("places that are no numbers, or far away, end nothing", "[images]") {
  const Tensor x = column({NAN, 2, 4});
  for (const double place : {double(NAN), double(INFINITY), -double(INFINITY), 1e300, -1e30}) {
    for (const GridMode mode : {GridMode::bilinear, GridMode::nearest}) {
      CHECK(sampled(x, {place}, {.mode = mode}).item() == 0);
      for (const GridPadding padding : {GridPadding::border, GridPadding::reflection}) {
        CHECK(sampled(column({3, 3, 3}), {place}, {.mode = mode, .padding = padding}).item() == 3);
      }
    }
  }
}

TEST_CASE("places that are no numbers have the gradient 0", "[images]") {
  const Tensor x = Tensor::from<double>({1, 2, 4, 8, 16, 32}, {1, 1, 2, 3});
  for (const GridPadding padding :
       {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
    for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      // Either coordinate, beside one that is a place in the image.
      const Tensor grid = Tensor::from<double>({bad, 0.25, 0.25, bad}, {1, 1, 2, 2});
      Tape tape;
      tape.watch(grid);
      const Tensor y = sum(grid_sample(x, grid, {.padding = padding}));
      const Tensor g = tape.gradient(y, {grid})[0];
      CHECK(g.at(0) == 0);
      CHECK(std::isfinite(g.at(1)));
      CHECK(std::isfinite(g.at(2)));
      CHECK(g.at(3) == 0);
    }
  }
}

TEST_CASE("grids that fit no image are errors", "[images]") {
  const Tensor x = Tensor::zeros({2, 1, 3, 3}), grid = Tensor::zeros({2, 4, 4, 2});
  CHECK_THROWS_WITH(grid_sample(x, Tensor::zeros({1, 4, 4, 2})),
                    ContainsSubstring("grid must be (2, H_out, W_out, 2), not (1, 4, 4, 2)"));
  CHECK_THROWS_WITH(grid_sample(x, Tensor::zeros({2, 4, 4, 3})), ContainsSubstring("(2, 4, 4, 3)"));
  CHECK_THROWS_WITH(grid_sample(x, grid.to(DType::f64)), ContainsSubstring("of f32 and f64"));
  CHECK_THROWS_WITH(grid_sample(Tensor::zeros({2, 1, 0, 3}), grid),
                    ContainsSubstring("with pixels, not (2, 1, 0, 3)"));
  CHECK_THROWS_WITH(affine_grid(Tensor::zeros({2, 3, 3}), 4), ContainsSubstring("(2, 3, 3)"));
  CHECK_THROWS_WITH(affine_grid(Tensor::zeros({2, 2, 3}), {0, 4}), ContainsSubstring("0 × 4"));
}
