// Times the steps of torch_images.py: image_steps lenet|block [STEPS [THREADS]] prints the median
// in ms, and that of the processor's time.

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/layers/image_layers.h"
#include "tapegrad/optim/optimizers/adamw.h"

namespace {

using namespace tapegrad;

struct LeNet {
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
  explicit LeNet(const nn::Params& p)
      : conv1(p / "conv1", 1, 6, 5, {.padding = 2}),
        conv2(p / "conv2", 6, 16, 5),
        fc1(p / "fc1", 400, 120),
        fc2(p / "fc2", 120, 84),
        fc3(p / "fc3", 84, 10) {}
  Tensor operator()(const Tensor& images) const {
    const Tensor x = max_pool2d(relu(conv2(max_pool2d(relu(conv1(images)), 2))), 2);
    return fc3(relu(fc2(relu(fc1(flatten(x, 1))))));
  }
};

// ResNet's basic block.
struct Block {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  explicit Block(const nn::Params& p)
      : conv1(p / "conv1", 64, 64, 3, {.padding = 1}, false),
        conv2(p / "conv2", 64, 64, 3, {.padding = 1}, false),
        bn1(p / "bn1", 64),
        bn2(p / "bn2", 64) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = relu(bn1(conv1(x), nn::Mode::training));
    return relu(bn2(conv2(y), nn::Mode::training) + x);
  }
};

double processor_ms() { return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Step>
void print_median(std::int64_t steps, const Step& step) {
  std::vector<double> times, processor;
  for (std::int64_t i = -3; i < steps; ++i) {
    const Stopwatch watch;
    const double before = processor_ms();
    step();
    if (i < 0) continue;
    times.push_back(1000 * watch.seconds());
    processor.push_back(processor_ms() - before);
  }
  fmt::print("{:.2f} ms, {:.2f} ms of processors\n", median(times), median(processor));
}

void lenet(std::int64_t steps) {
  Rng rng(1);
  const nn::Params params(rng);
  const LeNet net(params);
  optim::AdamW adamw(params.parameters());
  const Tensor x = Tensor::randn({128, 1, 28, 28}, rng);
  std::vector<std::int32_t> labels;
  for (std::int32_t i = 0; i < 128; ++i) labels.push_back(i % 10);
  const Tensor targets = Tensor::from(labels, {128});
  print_median(steps, [&] {
    Tape tape;
    tape.backward(cross_entropy(net(x), targets));
    adamw.step(1e-3);
    adamw.zero_grad();
  });
}

void block(std::int64_t steps) {
  Rng rng(1);
  const nn::Params params(rng);
  const Block net(params);
  Tensor x = Tensor::randn({16, 64, 56, 56}, rng).set_requires_grad();
  const Tensor dy = Tensor::randn({16, 64, 56, 56}, rng);
  print_median(steps, [&] {
    Tape tape;
    tape.backward(sum(net(x) * dy));
    x.zero_grad();
    for (const auto& [name, t] : params.parameters()) Tensor(t).zero_grad();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string config = argc > 1 ? argv[1] : "";
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 30;
  if ((config != "lenet" && config != "block") || steps < 1) {
    fmt::print(stderr, "usage: image_steps lenet|block [STEPS [THREADS]]\n");
    return 2;
  }
  try {
    tapegrad::set_num_threads(argc > 3 ? std::atoi(argv[3]) : 2);
    config == "lenet" ? lenet(steps) : block(steps);
    return 0;
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
