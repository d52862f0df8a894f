#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using ImageOp = std::function<Tensor(Inputs)>;

// The ops here for PyTorch's names in the file.
std::map<std::string, ImageOp> layer_ops() {
  const auto conv = [](const Conv2dOptions& o) {
    return [=](Inputs x) { return conv2d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), o); };
  };
  const auto back = [](const ConvTranspose2dOptions& o) {
    return [=](Inputs x) { return conv_transpose2d(x[0], x[1], x[2], o); };
  };
  const auto one = [](std::function<Tensor(const Tensor&)> f) {
    return [=](Inputs x) { return f(x[0]); };
  };
  const auto norm = [](auto f) {
    return [=](Inputs x) {
      return f(x[0], x.size() > 1 ? x[1] : Tensor(), x.size() > 2 ? x[2] : Tensor());
    };
  };
  return {
      {"max_pool2d(2)", one([](const Tensor& x) { return max_pool2d(x, 2); })},
      {"max_pool2d(3x2,stride=2x1,padding=1,dilation=1x2)", one([](const Tensor& x) {
         return max_pool2d(x, {3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {1, 2}});
       })},
      {"max_pool1d(3,stride=2,padding=1)",
       one([](const Tensor& x) { return max_pool1d(x, 3, {.stride = 2, .padding = 1}); })},
      {"avg_pool2d(2)", one([](const Tensor& x) { return avg_pool2d(x, 2); })},
      {"avg_pool2d(3x2,stride=2x1,padding=1)", one([](const Tensor& x) {
         return avg_pool2d(x, {3, 2}, {.stride = {2, 1}, .padding = 1});
       })},
      {"avg_pool2d(3,stride=2,padding=1,not counted)", one([](const Tensor& x) {
         return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false});
       })},
      {"avg_pool1d(3,stride=2,padding=1)",
       one([](const Tensor& x) { return avg_pool1d(x, 3, {.stride = 2, .padding = 1}); })},
      {"adaptive_avg_pool2d(3x4)", one([](const Tensor& x) {
         return adaptive_avg_pool2d(x, {3, 4});
       })},
      {"conv_transpose1d(stride=2,padding=1,output_padding=1,dilation=2)",
       [](Inputs x) {
         return conv_transpose1d(x[0], x[1], x[2],
                                 {.stride = 2, .padding = 1, .output_padding = 1, .dilation = 2});
       }},
      {"adaptive_max_pool2d(3x4)", one([](const Tensor& x) {
         return adaptive_max_pool2d(x, {3, 4});
       })},
      {"adaptive_max_pool1d(3)", one([](const Tensor& x) { return adaptive_max_pool1d(x, 3); })},
      {"upsample_by(1.7)", one([](const Tensor& x) { return upsample_by(x, 1.7); })},
      {"upsample_by(0.6x2.3)", one([](const Tensor& x) {
         return upsample_by(x, {0.6, 2.3});
       })},
      {"upsample_by(1.7x0.6,bilinear)", one([](const Tensor& x) {
         return upsample_by(x, {1.7, 0.6}, Upsample::bilinear);
       })},
      {"upsample(6x4)", one([](const Tensor& x) {
         return upsample(x, {6, 4});
       })},
      {"upsample(6x5,bilinear)", one([](const Tensor& x) {
         return upsample(x, {6, 5}, Upsample::bilinear);
       })},
      {"batch_norm", norm([](const Tensor& x, const Tensor& w, const Tensor& b) {
         return batch_norm(x, w, b).y;
       })},
      {"batch_norm_with", norm([](const Tensor& x, const Tensor& w, const Tensor& b) {
         const Tensor mean = Tensor::from<double>({0.5, -1, 2}, {3}).to(x.dtype());
         return batch_norm_with(x, mean, mean * mean, w, b);
       })},
      {"group_norm(2)", norm([](const Tensor& x, const Tensor& w, const Tensor& b) {
         return group_norm(x, 2, w, b);
       })},
      {"conv2d", conv({})},
      {"conv2d(stride=2x1,padding=1x2)", conv({.stride = {2, 1}, .padding = {1, 2}})},
      {"conv2d(padding=2,dilation=2x1,groups=2)",
       conv({.padding = 2, .dilation = {2, 1}, .groups = 2})},
      {"conv2d(stride=3,padding=4)", conv({.stride = 3, .padding = 4})},
      {"conv2d(groups=4)", conv({.groups = 4})},
      {"conv_transpose2d", back({})},
      {"conv_transpose2d(stride=2,padding=1,output_padding=1,groups=2)",
       back({.stride = 2, .padding = 1, .output_padding = 1, .groups = 2})},
  };
}

std::map<std::string, ImageOp> grid_ops() {
  std::map<std::string, ImageOp> ops = {{"affine_grid(3x4)",
                                         [](Inputs x) {
                                           return affine_grid(x[0], {3, 4});
                                         }},
                                        {"affine_grid(1x4,corners)", [](Inputs x) {
                                           return affine_grid(x[0], {1, 4}, true);
                                         }}};
  const std::vector<std::string> modes = {"bilinear", "nearest"};
  const std::vector<std::string> paddings = {"zeros", "border", "reflection"};
  for (std::size_t i = 0; i < 2 * modes.size() * paddings.size(); ++i) {
    const std::size_t mode = i / 6, padding = i / 2 % 3;
    const bool corners = i % 2 == 1;
    ops["grid_sample(" + modes[mode] + "," + paddings[padding] + (corners ? ",corners)" : ")")] =
        [=](Inputs x) {
          return grid_sample(x[0], x[1],
                             {.mode = static_cast<GridMode>(mode),
                              .padding = static_cast<GridPadding>(padding),
                              .align_corners = corners});
        };
  }
  return ops;
}

const std::map<std::string, ImageOp>& image_ops() {
  static const std::map<std::string, ImageOp> all = [] {
    std::map<std::string, ImageOp> ops = layer_ops();
    ops.merge(grid_ops());
    return ops;
  }();
  return all;
}

}  // namespace

TEST_CASE("every op on images agrees with PyTorch, and so do its gradients", "[golden][images]") {
  std::map<std::string, std::map<std::string, Tensor>> cases;
  for (const auto& [name, tensor] :
       load_safetensors(golden_file("image_ops.safetensors").string()).tensors) {
    const std::size_t slash = name.rfind('/');
    cases[name.substr(0, slash)][name.substr(slash + 1)] = tensor;
  }
  std::map<std::string, int> checked;
  for (const auto& [key, tensors] : cases) {
    INFO(key);
    const std::string op = key.substr(0, key.find('@'));
    REQUIRE(image_ops().count(op) == 1);
    ++checked[op];
    std::vector<Tensor> inputs;
    for (int i = 0; tensors.count("in" + std::to_string(i)) > 0; ++i) {
      inputs.push_back(tensors.at("in" + std::to_string(i)));
    }
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = image_ops().at(op)(inputs);
    const bool f64 = y.dtype() == DType::f64;
    CHECK(difference(y, tensors.at("out"), f64 ? 1e-7 : 1e-5, f64 ? 1e-7 : 1e-5) == "");
    const Grads grads = tape.gradient(y, inputs, {.seeds = {tensors.at("dout")}});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      INFO("gradient " << i);
      const Tensor& expected = tensors.at("grad" + std::to_string(i));
      const Tensor got = grads[i].defined() ? grads[i] : Tensor::zeros(expected.shape(), y.dtype());
      CHECK(difference(got, expected, f64 ? 1e-7 : 1e-4, f64 ? 1e-7 : 1e-5) == "");
    }
  }
  CHECK(checked.size() == image_ops().size());
}
