#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/layers/image_layers.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The net of golden_images.py.
struct ImageNet {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::GroupNorm gn;
  nn::Conv1d conv3;
  nn::BatchNorm1d bn2;
  nn::Linear fc;

  explicit ImageNet(const nn::Params& p)
      : conv1(p / "conv1", 2, 6, {3, 5}, {.stride = {1, 2}, .padding = 2}),
        bn1(p / "bn1", 6),
        conv2(p / "conv2", 6, 6, 3, {.padding = 1, .groups = 6}, false),
        gn(p / "gn", 3, 6),
        conv3(p / "conv3", 6, 4, 3, {.padding = 1}),
        bn2(p / "bn2", 4),
        fc(p / "fc", 12, 5) {
    p.check_all_used();
  }
  Tensor operator()(const Tensor& x, nn::Mode mode) const {
    const Tensor low = max_pool2d(relu(bn1(conv1(x), mode)), 2);
    const Tensor row = squeeze(adaptive_avg_pool2d(gn(conv2(low)), {1, 3}), 2);
    return fc(flatten(relu(bn2(conv3(row), mode)), 1));
  }
};

std::map<std::string, Tensor> image_net_facts() {
  return load_safetensors(golden_file("image_net_facts.safetensors").string()).tensors;
}

}  // namespace

TEST_CASE("layers of images draw PyTorch's bits under PyTorch's names", "[image_layers][golden]") {
  const auto facts = image_net_facts();
  Rng rng(123);
  const nn::Params params(rng);
  const ImageNet net(params);
  CHECK(params.tensors().size() == 19);
  for (const auto& [name, t] : params.tensors()) {
    INFO(name);
    REQUIRE(facts.count("init/" + name) == 1);
    const Tensor& expected = facts.at("init/" + name);
    CHECK(same_bits(t, expected));
  }
}

TEST_CASE("a state_dict of layers of images gives PyTorch's numbers", "[image_layers][golden]") {
  const auto facts = image_net_facts();
  const nn::Params params(open_safetensors(golden_file("image_net.safetensors").string()));
  const ImageNet net(params);
  const Tensor &x = facts.at("x"), &targets = facts.at("targets");
  CHECK(difference(net(x, nn::Mode::evaluation), facts.at("eval/out"), 1e-6, 1e-6) == "");
  Tape tape;
  const Tensor y = net(x, nn::Mode::training);
  CHECK(difference(y, facts.at("train/out"), 1e-6, 1e-6) == "");
  tape.backward(cross_entropy(y, targets));
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    CHECK(difference(t.grad(), facts.at("grad/" + name), 1e-5, 1e-6) == "");
  }
  for (const auto& [name, t] : params.tensors()) {
    if (facts.count("after/" + name) == 0) continue;
    INFO(name);
    CHECK(difference(t.to(DType::f64), facts.at("after/" + name).to(DType::f64), 1e-6, 1e-7) == "");
  }
}

TEST_CASE("BatchNorm's buffers are saved and not trained, and an empty batch leaves them",
          "[image_layers]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::BatchNorm norm(params, 2);
  CHECK(params.parameters().size() == 2);
  CHECK(params.tensors().size() == 5);
  {
    Tape tape;
    const Tensor y = norm(Tensor::zeros({0, 2, 3}), nn::Mode::training);
    CHECK(y.shape() == Shape{0, 2, 3});
    tape.backward(sum(y));
    CHECK(list(params.parameters().front().second.grad()) == std::vector<double>{0, 0});
  }
  CHECK(list(norm.running_mean) == std::vector<double>{0, 0});
  CHECK(norm.num_batches_tracked.item() == 0);
  norm(Tensor::from<float>({1, 5, 3, 9}, {2, 2}), nn::Mode::training);
  CHECK(list(norm.running_mean)[1] == Approx(0.7));
  CHECK(list(norm.running_var)[1] == Approx(0.9 + 0.8));
  CHECK(norm.num_batches_tracked.item() == 1);
  norm(Tensor::zeros({2, 2}), nn::Mode::evaluation);
  {
    const DryRun dry;
    norm(Tensor::zeros({2, 2}), nn::Mode::training);
  }
  CHECK(list(norm.running_mean)[1] == Approx(0.7));
  CHECK(norm.num_batches_tracked.item() == 1);
}

TEST_CASE("layers of images name what does not fit", "[image_layers]") {
  Rng rng(1);
  const nn::Params p(rng);
  CHECK_THROWS_WITH(nn::Conv2d(p / "a", 3, 4, 3, {.groups = 2}),
                    ContainsSubstring("[Conv2d] 2 groups do not divide 3 channels in and 4 out"));
  CHECK_THROWS_WITH(nn::ConvTranspose2d(p / "t", 3, 4, 3, {.groups = 2}),
                    ContainsSubstring("[ConvTranspose2d] 2 groups do not divide 3 channels in"));
  CHECK_THROWS_WITH(nn::Conv2d(p / "b", 3, 4, {3, 0}), ContainsSubstring("a kernel of 0"));
  CHECK_THROWS_WITH(nn::Conv1d(p / "c", 3, 4, -1), ContainsSubstring("[Conv1d] a kernel of -1"));
  CHECK_THROWS_WITH(nn::BatchNorm(p / "d", 3)(Tensor::zeros({2, 4}), nn::Mode::training),
                    ContainsSubstring("(3) does not fit the channels of x (2, 4)"));
}
