// A convolutional network learns to read digits. They are made up, so that nothing has to be
// downloaded, or MNIST's, from a folder with its four files (train-images-idx3-ubyte.gz and so on).
//
//   digits [STEPS [FOLDER]]    trains, and prints the accuracy on digits that training has not seen

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "digit_images.h"

using namespace tapegrad;

struct Network {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Linear out;

  Network(const nn::Params& p, std::int64_t side)
      : conv1(p / "conv1", 1, 16, 3, {.padding = 1}),
        conv2(p / "conv2", 16, 32, 3, {.padding = 1}),
        norm1(p / "norm1", 16),
        norm2(p / "norm2", 32),
        out(p / "out", 32 * (side / 4) * (side / 4), 10) {}

  Tensor operator()(const Tensor& images, nn::Mode mode) const {
    Tensor x = max_pool2d(relu(norm1(conv1(images), mode)), 2);  // (n, 16, side/2, side/2)
    x = max_pool2d(relu(norm2(conv2(x), mode)), 2);              // (n, 32, side/4, side/4)
    return out(flatten(x, 1));
  }
};

// A thousand at a time, so that no more is in memory.
double accuracy(const Network& network, const Digits& digits) {
  double right = 0;
  for (std::int64_t begin = 0; begin < digits.size(); begin += 1000) {
    const std::int64_t end = std::min(begin + 1000, digits.size());
    const Tensor found = argmax(network(digits.images.rows(begin, end), nn::Mode::evaluation), -1);
    right += sum(eq(found, digits.labels.rows(begin, end))).item();
  }
  return right / static_cast<double>(digits.size());
}

void train(std::int64_t steps, const char* folder) {
  Rng weights(1), drawn(2), unseen(3);
  const Digits test = folder ? load_mnist(folder, "t10k") : make_digits(1000, unseen);
  std::optional<arrays::ArrayLoader> loader;
  if (folder) {
    const Digits all = load_mnist(folder, "train");
    check(all.images.dim(2) == test.images.dim(2), "{}: images of training are {} wide, of t10k {}",
          folder, all.images.dim(2), test.images.dim(2));
    const std::int64_t rows = std::min<std::int64_t>(64, all.size());
    loader.emplace(arrays::Rows{all.images, all.labels},
                   arrays::ArrayLoader::Options{.batch_size = rows}, drawn);
  }
  const auto next = [&]() -> Digits {
    if (!loader) return make_digits(64, drawn);
    const arrays::Rows rows = loader->next();
    return {rows[0], rows[1]};
  };

  const nn::Params params(weights);
  const Network network(params, test.images.dim(2));
  optim::AdamW adamw(params.parameters());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Digits batch = next();
    Tape tape;
    const Tensor loss = cross_entropy(network(batch.images, nn::Mode::training), batch.labels);
    tape.backward(loss);
    adamw.step(2e-3);
    adamw.zero_grad();
    if (step % 50 == 0 || step == steps) {
      const TapePause unrecorded;
      fmt::print("step {}: loss {:.3f}, accuracy {:.1f} %\n", step, loss.item(),
                 100 * accuracy(network, test));
    }
  }
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 300;
  if (argc > 3 || steps < 1) {
    fmt::print(stderr, "usage: digits [STEPS [FOLDER]]\n");
    return 2;
  }
  try {
    train(steps, argc > 2 ? argv[2] : nullptr);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
