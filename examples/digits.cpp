// A convolutional network learns to read digits: bitmaps of 5 × 7 that are scaled, shifted and
// noisy, so that nothing has to be downloaded.
//
//   digits [STEPS]    trains, and prints the accuracy on digits that training has not seen

#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

#include <cmath>
#include <cstdlib>
#include <vector>

using namespace tapegrad;

constexpr std::int64_t kSide = 20;

// The rows of 0 to 9, five bits each.
constexpr std::uint8_t kBitmaps[10][7] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
    {14, 17, 17, 15, 1, 2, 12},
};

struct Batch {
  Tensor images, labels;  // (n, 1, 20, 20) f32, and (n) i32
};

Batch draw(std::int64_t n, Rng& rng) {
  std::vector<float> pixels(static_cast<std::size_t>(n * kSide * kSide));
  std::vector<std::int32_t> labels;
  rng.normal(std::span<float>(pixels), 0, 0.3);  // the noise
  for (std::int64_t i = 0; i < n; ++i) {
    const auto digit = static_cast<std::int32_t>(rng.randint(10));
    const double height = 10 + 10 * rng.uniform_double(), width = 6 + 10 * rng.uniform_double();
    const double top = (kSide - height) * rng.uniform_double();
    const double left = (kSide - width) * rng.uniform_double();
    for (std::int64_t y = 0; y < kSide; ++y) {
      for (std::int64_t x = 0; x < kSide; ++x) {
        const double row = std::floor((static_cast<double>(y) - top) / height * 7);
        const double column = std::floor((static_cast<double>(x) - left) / width * 5);
        if (row < 0 || row >= 7 || column < 0 || column >= 5) continue;
        const int bits = kBitmaps[digit][static_cast<int>(row)];
        if ((bits >> (4 - static_cast<int>(column)) & 1) == 0) continue;
        pixels[static_cast<std::size_t>((i * kSide + y) * kSide + x)] += 1;
      }
    }
    labels.push_back(digit);
  }
  return {Tensor::from(pixels, {n, 1, kSide, kSide}), Tensor::from(labels, {n})};
}

struct Network {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Linear out;

  explicit Network(const nn::Params& p)
      : conv1(p / "conv1", 1, 16, 3, {.padding = 1}),
        conv2(p / "conv2", 16, 32, 3, {.padding = 1}),
        norm1(p / "norm1", 16),
        norm2(p / "norm2", 32),
        out(p / "out", 32 * 5 * 5, 10) {}

  Tensor operator()(const Tensor& images, nn::Mode mode) const {
    Tensor x = max_pool2d(relu(norm1(conv1(images), mode)), 2);  // (n, 16, 10, 10)
    x = max_pool2d(relu(norm2(conv2(x), mode)), 2);              // (n, 32, 5, 5)
    return out(flatten(x, 1));
  }
};

double accuracy(const Network& network, const Batch& batch) {
  const Tensor found = argmax(network(batch.images, nn::Mode::evaluation), -1);
  return mean(eq(found, batch.labels)).item();
}

void train(std::int64_t steps) {
  Rng weights(1), digits(2), unseen(3);
  const nn::Params params(weights);
  const Network network(params);
  const Batch test = draw(1000, unseen);
  optim::AdamW adamw(params.parameters());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = draw(64, digits);
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
  if (argc > 2 || steps < 1) {
    fmt::print(stderr, "usage: digits [STEPS]\n");
    return 2;
  }
  try {
    train(steps);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
