#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using LossOp = std::function<Tensor(Inputs)>;

// The functions here for the names in golden_losses.py.
const std::map<std::string, LossOp>& loss_ops() {
  using enum Reduction;
  static const std::map<std::string, LossOp> table = {
      {"leaky_relu", [](Inputs x) { return leaky_relu(x[0]); }},
      {"leaky_relu(0.2)", [](Inputs x) { return leaky_relu(x[0], 0.2); }},
      {"elu", [](Inputs x) { return elu(x[0]); }},
      {"elu(0.5)", [](Inputs x) { return elu(x[0], 0.5); }},
      {"mish", [](Inputs x) { return mish(x[0]); }},
      {"l1_loss", [](Inputs x) { return l1_loss(x[0], x[1]); }},
      {"l1_loss(none)", [](Inputs x) { return l1_loss(x[0], x[1], none); }},
      {"smooth_l1_loss", [](Inputs x) { return smooth_l1_loss(x[0], x[1]); }},
      {"smooth_l1_loss(0.5,sum)", [](Inputs x) { return smooth_l1_loss(x[0], x[1], 0.5, sum); }},
      {"smooth_l1_loss(none)", [](Inputs x) { return smooth_l1_loss(x[0], x[1], 1, none); }},
      {"huber_loss", [](Inputs x) { return huber_loss(x[0], x[1]); }},
      {"huber_loss(0.5,sum)", [](Inputs x) { return huber_loss(x[0], x[1], 0.5, sum); }},
      {"huber_loss(none)", [](Inputs x) { return huber_loss(x[0], x[1], 1, none); }},
  };
  return table;
}

}  // namespace

TEST_CASE("activations and losses agree with PyTorch, ties and edges included",
          "[golden][losses]") {
  std::map<std::string, std::map<std::string, Tensor>> cases;
  for (const auto& [name, tensor] :
       load_safetensors(golden_file("losses.safetensors").string()).tensors) {
    const std::size_t slash = name.rfind('/');
    cases[name.substr(0, slash)][name.substr(slash + 1)] = tensor;
  }
  std::map<std::string, int> checked;
  for (const auto& [key, tensors] : cases) {
    INFO(key);
    const std::string op = key.substr(0, key.find('@'));
    REQUIRE(loss_ops().count(op) == 1);
    ++checked[op];
    std::vector<Tensor> inputs{tensors.at("in0")};
    if (tensors.count("in1") > 0) inputs.push_back(tensors.at("in1"));
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = loss_ops().at(op)(inputs);
    const double near = y.dtype() == DType::f64 ? 1e-12 : 1e-6;
    CHECK(difference(y, tensors.at("out"), near, near) == "");
    const Grads grads = tape.gradient(tapegrad::sum(y), inputs);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      INFO("gradient " << i);
      CHECK(difference(grads[i], tensors.at("grad" + std::to_string(i)), near, near) == "");
    }
  }
  CHECK(checked.size() == loss_ops().size());
}

TEST_CASE("activations and losses name what does not fit", "[losses]") {
  const Tensor a = Tensor::zeros({2}), b = Tensor::zeros({3});
  CHECK_THROWS_WITH(l1_loss(a, b), ContainsSubstring("[l1_loss] shapes differ: (2) and (3)"));
  CHECK_THROWS_WITH(huber_loss(a, a, 0), ContainsSubstring("[huber_loss] delta must be above 0"));
  CHECK_THROWS_WITH(smooth_l1_loss(a, a, -1), ContainsSubstring("[smooth_l1_loss] beta"));
  CHECK_THROWS_WITH(l1_loss(a, a, Reduction::batchmean), ContainsSubstring("no batchmean"));
}
