#include <cmath>
#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/init.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// What PyTorch's initialiser of this name draws, by golden_layers.py.
std::map<std::string, Tensor> draws_of(const std::string& name, DType dtype) {
  static const auto all = load_safetensors(golden_file("layers.safetensors").string()).tensors;
  const std::string prefix = name + (dtype == DType::f32 ? "/f32/" : "/f64/");
  std::map<std::string, Tensor> draws;
  for (const auto& [key, t] : all) {
    if (key.starts_with(prefix)) draws[key.substr(prefix.size())] = t;
  }
  return draws;
}

}  // namespace

TEST_CASE("initialisers draw PyTorch's bits, and orthogonal its matrices up to rounding",
          "[initialisers][golden]") {
  using enum nn::Gain;
  const nn::FanMode out = nn::FanMode::fan_out;
  const std::map<std::string, nn::Init> inits = {
      {"xavier_uniform", nn::xavier_uniform()},
      {"xavier_uniform_gain", nn::xavier_uniform(5.0 / 3)},
      {"xavier_normal", nn::xavier_normal()},
      {"xavier_normal_gain", nn::xavier_normal(5.0 / 3)},
      {"kaiming_uniform", nn::kaiming_uniform(nn::KaimingOptions{})},
      {"kaiming_uniform_sqrt5", nn::kaiming_uniform({.a = std::sqrt(5.0)})},
      {"kaiming_uniform_out", nn::kaiming_uniform({.mode = out, .nonlinearity = tanh})},
      {"kaiming_normal", nn::kaiming_normal()},
      {"kaiming_normal_slope", nn::kaiming_normal({.a = 0.2})},
      {"kaiming_normal_out", nn::kaiming_normal({.mode = out, .nonlinearity = relu})},
      {"orthogonal", nn::orthogonal()},
      {"orthogonal_gain", nn::orthogonal(std::sqrt(2.0))},
      {"trunc_normal", nn::trunc_normal()},
      {"trunc_normal_002", nn::trunc_normal({.mean = 0.1, .std = 0.02, .a = 0.09, .b = 0.2})},
      {"trunc_normal_tail", nn::trunc_normal({.a = 1, .b = 3})},
      {"trunc_normal_narrow", nn::trunc_normal({.mean = 1, .std = 2, .a = 0.5, .b = 1.25})}};
  for (const auto& [name, init] : inits) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto facts = draws_of(name, dtype);
      Rng rng(123);
      for (const char* key : {"matrix", "filters", "tall"}) {
        INFO(name << ' ' << name_of(dtype) << ' ' << key);
        const Tensor t = Tensor::zeros(facts.at(key).shape(), dtype);
        nn::refill(t, init, rng);
        if (name.starts_with("orthogonal")) {
          const double near = dtype == DType::f32 ? 2e-6 : 1e-14;
          CHECK(difference(t, facts.at(key), near, near) == "");
        } else {
          CHECK(same_bits(t, facts.at(key)));
        }
      }
    }
  }
}

TEST_CASE("orthogonal's rows or columns are orthonormal, whichever are fewer", "[initialisers]") {
  Rng rng(7);
  for (const Shape& shape : {Shape{60, 60}, Shape{1, 1}, Shape{90, 7}, Shape{5, 4, 3, 3}}) {
    INFO(shape[0]);
    const Tensor t = Tensor::zeros(shape, DType::f64);
    nn::refill(t, nn::orthogonal(3), rng);
    const Tensor matrix = reshape(t, {shape[0], -1}), turned = transpose(matrix, 0, 1);
    const bool wide = matrix.dim(0) <= matrix.dim(1);
    const Tensor products = wide ? matmul(matrix, turned) : matmul(turned, matrix);
    CHECK(difference(products, Tensor::eye(products.dim(0), DType::f64) * 9.0, 0, 1e-13) == "");
  }
  const Tensor none = Tensor::zeros({0, 3});
  nn::refill(none, nn::orthogonal(), rng);
  nn::refill(none, nn::kaiming_normal(), rng);
  nn::refill(none, nn::trunc_normal(), rng);
}

TEST_CASE("initialisers name what does not fit", "[initialisers]") {
  Rng rng(1);
  for (const auto& [name, init] : std::map<std::string, nn::Init>{
           {"xavier_normal", nn::xavier_normal()},
           {"kaiming_uniform", nn::kaiming_uniform(nn::KaimingOptions{})},
           {"kaiming_normal", nn::kaiming_normal()},
           {"orthogonal", nn::orthogonal()}}) {
    CHECK_THROWS_WITH(nn::refill(Tensor::zeros({3}), init, rng),
                      ContainsSubstring("[" + name + "] the fans of a parameter (3) are unknown"));
  }
  CHECK_THROWS_WITH(nn::kaiming_normal({.a = NAN}), ContainsSubstring("[KaimingOptions] a must"));
  CHECK_THROWS_WITH(nn::orthogonal(INFINITY), ContainsSubstring("[orthogonal] gain must"));
  CHECK_THROWS_WITH(nn::trunc_normal({.std = 0}), ContainsSubstring("std must be above 0, not 0"));
  CHECK_THROWS_WITH(nn::trunc_normal({.a = 1, .b = 0.5}), ContainsSubstring("b must be"));
  // Rejection would take for ever.
  CHECK_THROWS_WITH(
      nn::trunc_normal({.std = 1e-10, .a = 1, .b = 2}),
      ContainsSubstring("[trunc_normal] hardly a draw of N(0, 1e-10²) lies in [1, 2]"));
  CHECK_THROWS_WITH(nn::trunc_normal({.a = 0.9, .b = 1e9}), ContainsSubstring("hardly a draw"));
  CHECK(nn::calculate_gain(nn::Gain::leaky_relu) == std::sqrt(2.0 / (1 + 0.01 * 0.01)));
  CHECK(nn::calculate_gain(nn::Gain::selu) == 0.75);
  CHECK(nn::calculate_gain(nn::Gain::sigmoid) == 1);
}
