#include "tapegrad/autograd/check/op_cases.h"
#include "tapegrad/autograd/image_ops.h"

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
}

// clang-format on

}  // namespace

void add_image_cases(Cases& cases) { add_convolutions_2d(cases); }

}  // namespace tapegrad
