#include "nn/residual_net.h"
#include "tests/catch.h"
#include "tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct Run {
  double loss;
  std::vector<double> mean_abs_grads;  // of each layer's weight
};

Run run(std::uint64_t seed, bool shortcuts, nn::Activation activation) {
  Rng rng(seed);
  const nn::ResidualNet net(nn::Params(rng), {3, 3, 3, 3, 3, 1}, shortcuts, activation);
  Tape tape;
  const Tensor loss = mse_loss(net(Tensor::from<float>({1, 0, -1}, {1, 3})), Tensor::zeros({1, 1}));
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

TEST_CASE("the residual experiment has PyTorch's gradients, without and with shortcuts",
          "[golden]") {
  for (const auto& facts : golden_json("residual.json").at("runs")) {
    INFO(facts.dump());
    const Run ours = run(facts.at("seed").get<std::uint64_t>(), facts.at("shortcut"),
                         nn::activation_from(facts.at("activation")));
    CHECK(ours.loss == Approx(facts.at("loss").get<double>()).epsilon(1e-6));
    const std::vector<double> expected = facts.at("mean_abs_grad");
    REQUIRE(ours.mean_abs_grads.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(ours.mean_abs_grads[i] == Approx(expected[i]).epsilon(1e-6));  // 0 must be 0
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
  const nn::ResidualNet net(params, {2, 3, 3}, true, nn::Activation::relu);
  const Tensor x = Tensor::from<double>({1, -2}, {1, 2});
  const Tensor first = relu(net.layers[0](x));
  const Tensor expected = first + relu(net.layers[1](first));
  CHECK(same_bits(net(x), expected));
  CHECK(params.parameters()[2].first == "layers.1.0.weight");
}

TEST_CASE("a network needs at least one layer") {
  Rng rng(1);
  CHECK_THROWS_WITH(nn::ResidualNet(nn::Params(rng), {3}, true), ContainsSubstring("one layer"));
}
