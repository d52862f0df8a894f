#include "tapegrad/autograd/check/internal/op_cases.h"
#include "tapegrad/autograd/ops/image_ops.h"

namespace tapegrad {
namespace {

using enum Draw;
using Cases = std::vector<OpCase>;
using In = Inputs;

Tensor third(In x) { return x.size() > 2 ? x[2] : Tensor(); }

// One line per case, which clang-format would tear apart.
// clang-format off

void add_convolutions_2d(Cases& cases) {
  const auto each = [&](const std::string& name, const std::vector<Shape>& shapes, const Conv2dOptions& options = {}) {
    cases.push_back({"conv2d" + name, shapes, normal, [=](In x) { return conv2d(x[0], x[1], third(x), options); }});
  };
  each("", {{2, 3, 5, 4}, {4, 3, 3, 2}, {4}});
  each("", {{3, 4, 5}, {2, 3, 2, 2}});
  each("(1x1)", {{2, 3, 2, 3}, {4, 3, 1, 1}, {4}});
  each("(1x1)", {{1, 3, 20, 20}, {2, 3, 1, 1}});
  each("(stride {2, 1}, padding {1, 2})", {{2, 2, 5, 4}, {3, 2, 3, 3}, {3}}, {.stride = {2, 1}, .padding = {1, 2}});
  each("(padding 2, dilation 2, groups 2)", {{2, 4, 3, 4}, {4, 2, 3, 2}, {4}},
       {.padding = 2, .dilation = 2, .groups = 2});
  each("(stride 3, padding 4)", {{1, 2, 2, 1}, {1, 2, 3, 3}}, {.stride = 3, .padding = 4});
  each("(depthwise)", {{2, 3, 5, 4}, {3, 1, 3, 2}, {3}}, {.padding = 1, .groups = 3});
  each("(depthwise, two of each, stride 2)", {{2, 2, 5, 6}, {4, 1, 3, 3}}, {.stride = 2, .padding = 1, .groups = 2});
  each("", {{0, 3, 5, 4}, {4, 3, 3, 2}, {4}});
  const auto back = [&](const std::string& name, const std::vector<Shape>& shapes, const ConvTranspose2dOptions& options = {}) {
    cases.push_back({"conv_transpose2d" + name, shapes, normal, [=](In x) { return conv_transpose2d(x[0], x[1], third(x), options); }});
  };
  back("", {{2, 3, 3, 2}, {3, 2, 2, 3}, {2}});
  back("(stride 2, padding 1, output padding {1, 0}, groups 2)", {{1, 2, 3, 2}, {2, 2, 3, 3}, {4}},
       {.stride = 2, .padding = 1, .output_padding = {1, 0}, .groups = 2});
  back("", {{0, 3, 3, 2}, {3, 2, 2, 3}, {2}});
  cases.push_back({"conv_transpose1d(stride 2, dilation 2)", {{2, 3, 4}, {3, 2, 3}, {2}}, normal,
                   [=](In x) { return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .dilation = 2}); }});
}

void add_pools(Cases& cases) {
  const auto each = [&](const std::string& op, const Shape& shape, std::function<Tensor(const Tensor&)> f, Draw draw = normal) {
    cases.push_back({op, {shape}, draw, [f](In x) { return f(x[0]); }});
  };
  const auto max = [](Size2d kernel, const MaxPool2dOptions& o = {}) {
    return [=](const Tensor& x) { return max_pool2d(x, kernel, o); };
  };
  const auto avg = [](Size2d kernel, const AvgPool2dOptions& o = {}) {
    return [=](const Tensor& x) { return avg_pool2d(x, kernel, o); };
  };
  const auto adaptive = [](Size2d out) { return [=](const Tensor& x) { return adaptive_avg_pool2d(x, out); }; };
  const auto stretched = [](Size2d out, Upsample mode = Upsample::nearest) {
    return [=](const Tensor& x) { return upsample(x, out, mode); };
  };
  each("max_pool2d(2)", {2, 2, 5, 4}, max(2), spread);
  each("max_pool2d(3x2, stride 1x2, padding 1)", {2, 4, 5}, max({3, 2}, {.stride = {1, 2}, .padding = 1}), spread);
  each("max_pool2d(2, stride 1, dilation 2)", {1, 2, 4, 5}, max(2, {.stride = 1, .dilation = 2}), spread);
  each("max_pool2d(2, padding 1, dilation 4)", {1, 1, 3, 3}, max(2, {.stride = 1, .padding = 1, .dilation = 4}), spread);
  each("max_pool2d(2)", {0, 2, 4, 4}, max(2), spread);
  each("max_pool1d(2)", {2, 3, 5}, [](const Tensor& x) { return max_pool1d(x, 2); }, spread);
  each("avg_pool2d(2)", {2, 2, 5, 4}, avg(2));
  each("avg_pool2d(3x2, stride 1x2, padding 1)", {2, 4, 5}, avg({3, 2}, {.stride = {1, 2}, .padding = 1}));
  each("avg_pool2d(3, padding 1, not counted)", {1, 2, 4, 5}, avg(3, {.padding = 1, .count_include_pad = false}));
  each("avg_pool2d(2)", {0, 2, 4, 4}, avg(2));
  each("avg_pool1d(3, stride 2)", {3, 7}, [](const Tensor& x) { return avg_pool1d(x, 3, {.stride = 2}); });
  each("adaptive_avg_pool2d(2x3)", {2, 2, 5, 4}, adaptive({2, 3}));
  each("adaptive_avg_pool2d(3)", {2, 2, 2}, adaptive(3));
  each("adaptive_avg_pool2d(1)", {2, 0, 2, 2}, adaptive(1));
  each("adaptive_max_pool2d(2x3)", {2, 2, 5, 4}, [](const Tensor& x) { return adaptive_max_pool2d(x, {2, 3}); }, spread);
  each("adaptive_max_pool2d(1)", {2, 0, 2, 2}, [](const Tensor& x) { return adaptive_max_pool2d(x, 1); }, spread);
  each("adaptive_max_pool1d(2)", {3, 5}, [](const Tensor& x) { return adaptive_max_pool1d(x, 2); }, spread);
  each("upsample_by(1.7)", {1, 2, 2, 3}, [](const Tensor& x) { return upsample_by(x, 1.7); });
  each("upsample_by(1.5x0.6, bilinear)", {2, 3, 4}, [](const Tensor& x) { return upsample_by(x, {1.5, 0.6}, Upsample::bilinear); });
  each("upsample(4x6)", {1, 2, 2, 3}, stretched({4, 6}));
  each("upsample(5x2)", {2, 3, 4}, stretched({5, 2}));
  each("upsample(2)", {0, 2, 1, 1}, stretched(2));
  each("upsample(5x3, bilinear)", {1, 2, 2, 4}, stretched({5, 3}, Upsample::bilinear));
}

// Places between pixels, at which the gradient of a grid has jumps.
Tensor between_pixels(const Tensor& x, std::int64_t count) {
  const auto number = [&](double v) { return Tensor::scalar(v, x.dtype()); };
  const Tensor pixel = round(x * 2.0) + where(x > 0.0, number(0.3), number(0.7)) + tanh(x) * 0.1;
  return (pixel * 2.0 + 1.0) / static_cast<double>(count) - 1.0;
}

void add_grids(Cases& cases) {
  using Options = GridSampleOptions;
  const auto sampled = [&](const std::string& op, const Shape& x, const Shape& grid, const Options& o) {
    cases.push_back({op, {x, grid}, normal, [=](In in) {
                       const Tensor column = between_pixels(select(in[1], 3, 0), in[0].dim(3));
                       const Tensor row = between_pixels(select(in[1], 3, 1), in[0].dim(2));
                       return grid_sample(in[0], stack({column, row}, 3), o);
                     }});
  };
  sampled("grid_sample", {2, 2, 3, 4}, {2, 3, 2, 2}, {});
  sampled("grid_sample", {0, 2, 3, 4}, {0, 3, 2, 2}, {});
  sampled("grid_sample(border)", {1, 2, 3, 4}, {1, 3, 2, 2}, {.padding = GridPadding::border});
  sampled("grid_sample(reflection)", {1, 2, 3, 4}, {1, 3, 2, 2}, {.padding = GridPadding::reflection});
  sampled("grid_sample(nearest)", {1, 2, 3, 4}, {1, 3, 2, 2}, {.mode = GridMode::nearest});
  cases.push_back({"affine_grid", {{2, 2, 3}}, normal, [](In x) { return affine_grid(x[0], {2, 3}); }});
}

void add_norms(Cases& cases) {
  const auto train = [](In x) { return batch_norm(x[0], x.size() > 1 ? x[1] : Tensor(), third(x)).y; };
  const auto with = [](In x) {
    const Tensor m = Tensor::from<double>({0.5, -1, 2}, {3}).to(x[0].dtype()), v = m * m;
    return batch_norm_with(x[0], m, v, x.size() > 1 ? x[1] : Tensor(), third(x), 0.1);
  };
  const auto groups = [](std::int64_t n) {
    return [=](In x) { return group_norm(x[0], n, x.size() > 1 ? x[1] : Tensor(), third(x)); };
  };
  const Cases lines = {
      {"batch_norm", {{2, 3, 2, 3}}, normal, train},
      {"batch_norm", {{2, 3, 2, 3}, {3}, {3}}, normal, train},
      {"batch_norm", {{5, 2}, {2}}, normal, train},
      {"batch_norm", {{3, 2, 4}, {2}, {2}}, normal, train},
      {"batch_norm", {{2, 0, 4}, {0}, {0}}, normal, train},
      {"batch_norm(bias)", {{3, 2, 4}, {2}}, normal, [](In x) { return batch_norm(x[0], {}, x[1], 0.1).y; }},
      {"batch_norm_with", {{2, 3, 2, 3}, {3}, {3}}, normal, with},
      {"batch_norm_with", {{2, 3}}, normal, with},
      {"batch_norm_with", {{0, 3, 2}, {3}, {3}}, normal, with},
      {"group_norm(2)", {{2, 4, 3}, {4}, {4}}, normal, groups(2)},
      {"group_norm(1)", {{2, 3, 2, 2}}, normal, groups(1)},
      {"group_norm(3)", {{2, 3, 4}, {3}}, normal, groups(3)},
  };
  cases.insert(cases.end(), lines.begin(), lines.end());
}

// clang-format on

}  // namespace

void add_image_cases(Cases& cases) {
  add_convolutions_2d(cases);
  add_pools(cases);
  add_grids(cases);
  add_norms(cases);
}

}  // namespace tapegrad
