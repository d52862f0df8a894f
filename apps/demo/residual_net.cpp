#include "tapegrad/apps/demo/residual_net.h"

namespace tapegrad::demo {

ResidualNet::ResidualNet(const nn::Params& p, const std::vector<std::int64_t>& sizes,
                         bool with_shortcuts, nn::Activation act)
    : shortcuts(with_shortcuts), activation(act) {
  check(sizes.size() >= 2, "a network needs the sizes of its input and of one layer at least");
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    layers.emplace_back(p / "layers" / static_cast<std::int64_t>(i) / 0, sizes[i], sizes[i + 1]);
  }
}

Tensor ResidualNet::operator()(const Tensor& input) const {
  Tensor x = input;
  for (const nn::Linear& layer : layers) {
    const Tensor y = activate(layer(x), activation);
    x = shortcuts && y.shape() == x.shape() ? x + y : y;
  }
  return x;
}

}  // namespace tapegrad::demo
