// How much gradient reaches each of five layers, without and with shortcuts around them.

#include "tapegrad/nn/layers.h"

using namespace tapegrad;

namespace {

// The mean absolute gradient of each layer's weight.
std::vector<double> experiment(bool shortcuts) {
  const std::vector<std::int64_t> sizes = {3, 3, 3, 3, 3, 1};
  Rng rng(123);
  const nn::Params params(rng);
  std::vector<nn::Linear> layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    layers.emplace_back(params / "layers" / static_cast<std::int64_t>(i), sizes[i], sizes[i + 1]);
  }

  Tape tape;
  Tensor x = Tensor::from<float>({1, 0, -1}, {1, 3});
  for (const nn::Linear& layer : layers) {
    const Tensor y = gelu(layer(x));
    x = shortcuts && y.shape() == x.shape() ? x + y : y;
  }
  tape.backward(mse_loss(x, Tensor::zeros({1, 1})));
  std::vector<double> means;
  for (const nn::Linear& layer : layers) means.push_back(mean(abs(layer.weight.grad())).item());
  return means;
}

int lesson() {
  const std::vector<double> plain = experiment(false), with = experiment(true);
  fmt::print("weight             without shortcuts  with shortcuts\n");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    fmt::print("layers.{}.0.weight  {:<#17.6g}  {:#.6g}\n", i, plain[i], with[i]);
  }
  fmt::print("\nWith shortcuts, the first layer gets {:.0f} times as much.\n", with[0] / plain[0]);
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
