#include <map>

#include "tapegrad/apps/demo/residual_net.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct Run {
  double loss;
  std::vector<double> mean_abs_grads;  // of each layer's weight
};

// The weights are drawn in f32 and then converted.
Run run(std::uint64_t seed, bool shortcuts, nn::Activation activation, DType dtype = DType::f32) {
  const std::vector<std::int64_t> sizes = {3, 3, 3, 3, 3, 1};
  Rng rng(seed);
  const nn::Params drawn(rng);
  demo::ResidualNet(drawn, sizes, shortcuts, activation);
  const auto weights = memory_source({drawn.tensors().begin(), drawn.tensors().end()}, "drawn");
  const demo::ResidualNet net(nn::Params(weights, dtype), sizes, shortcuts, activation);
  Tape tape;
  const Tensor input = Tensor::from<float>({1, 0, -1}, {1, 3}).to(dtype);
  const Tensor loss = mse_loss(net(input), Tensor::zeros({1, 1}, dtype));
  tape.backward(loss);
  Run result{.loss = loss.item(), .mean_abs_grads = {}};
  for (const nn::Linear& layer : net.layers) {
    double sum = 0;
    for (const double g : list(layer.weight.grad())) sum += std::abs(g);
    result.mean_abs_grads.push_back(sum / static_cast<double>(layer.weight.numel()));
  }
  return result;
}

}  // namespace

// With seed 7 and shortcuts, the last pre-activation is -0.745, close to GELU's minimum at -0.753:
// where the derivative nearly vanishes, f32's rounding shows, and PyTorch's own gradients in f32
// and f64 are 3e-5 of themselves apart. The f64 ones are compared below.
TEST_CASE("the residual experiment has PyTorch's gradients, without and with shortcuts",
          "[golden]") {
  const auto json = golden_json("residual.json");
  CHECK(json.at("runs").size() == 12);
  for (const auto& facts : json.at("runs")) {
    INFO(facts.dump());
    const bool shortcuts = facts.at("shortcut");
    const nn::Activation activation =
        enum_of<nn::Activation>(facts.at("activation").get<std::string>()).value();
    const Run ours = run(facts.at("seed").get<std::uint64_t>(), shortcuts, activation);
    CHECK(ours.loss == Approx(facts.at("loss").get<double>()).epsilon(1e-6));
    const std::vector<double> expected = facts.at("mean_abs_grad");
    REQUIRE(ours.mean_abs_grads.size() == expected.size());
    const bool near_minimum =
        facts.at("seed") == 7 && shortcuts && activation != nn::Activation::relu;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double tolerance = near_minimum ? 5e-5 : 1e-6;  // 0 must be 0
      CHECK(std::abs(ours.mean_abs_grads[i] - expected[i]) <= tolerance * expected[i]);
    }
  }
}

// PyTorch 2.6 with the f32 weights of torch.manual_seed(7) converted to f64.
TEST_CASE("in f64 the residual experiment has the gradients of PyTorch in f64", "[golden]") {
  const std::map<nn::Activation, std::vector<double>> expected = {
      {nn::Activation::gelu,
       {0.00045941276696232565, 0.00048256312922265274, 0.0006972743805430801,
        0.00032374777573962476, 0.0012845930746770225}},
      {nn::Activation::gelu_erf,
       {0.00039274394156137745, 0.0004125065988127408, 0.0005960336056359745, 0.0002766946534787777,
        0.0010979872110440383}}};
  for (const auto& [activation, gradients] : expected) {
    const Run ours = run(7, true, activation, DType::f64);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      CHECK(std::abs(ours.mean_abs_grads[i] - gradients[i]) <= 1e-12 * gradients[i]);
    }
  }
}

TEST_CASE("the residual experiment of the tutorials prints their digits") {
  const std::vector<double> plain = {0.000201736, 0.000120112, 0.000715204, 0.001398874,
                                     0.005049645};
  const std::vector<double> shortcuts = {0.221697927, 0.206941068, 0.328969955, 0.266573220,
                                         1.325854063};
  for (const bool with : {false, true}) {
    const Run ours = run(123, with, nn::Activation::gelu);
    for (std::size_t i = 0; i < 5; ++i) {
      const double expected = (with ? shortcuts : plain)[i];
      CHECK(std::abs(ours.mean_abs_grads[i] - expected) <= 1e-6 * expected + 5e-10);
    }
  }
}

TEST_CASE("a shortcut goes around the layers that keep the shape, and around no others") {
  Rng rng(1);
  const nn::Params params(rng, DType::f64);
  const demo::ResidualNet net(params, {2, 3, 3}, true, nn::Activation::relu);
  const Tensor x = Tensor::from<double>({1, -2}, {1, 2});
  const Tensor first = relu(net.layers[0](x));
  const Tensor expected = first + relu(net.layers[1](first));
  CHECK(same_bits(net(x), expected));
  CHECK(params.parameters()[2].first == "layers.1.0.weight");
}

TEST_CASE("a network needs at least one layer") {
  Rng rng(1);
  CHECK_THROWS_WITH(demo::ResidualNet(nn::Params(rng), {3}, true), ContainsSubstring("one layer"));
}
