// Convolution by hand and by conv2d; a kernel that finds edges, and one that learns to.

#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/optim/optimizers/sgd.h"

using namespace tapegrad;

namespace {

// 8 × 8 pixels: a bright square of 4 × 4 whose corner is at (top, left).
Tensor square(std::int64_t top, std::int64_t left) {
  std::vector<float> pixels(64);
  for (std::int64_t y = top; y < top + 4; ++y) {
    for (std::int64_t x = left; x < left + 4; ++x) pixels[static_cast<std::size_t>(8 * y + x)] = 1;
  }
  return Tensor::from(pixels, {1, 1, 8, 8});
}

// The kernel lies on each place of the image in turn; numbers that lie on top of each other are
// multiplied and added up.
Tensor by_hand(const Tensor& image, const Tensor& kernel) {
  std::vector<float> seen;
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 6; ++x) {
      double sum = 0;
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
          sum += kernel.at({0, 0, i, j}) * image.at({0, 0, y + i, x + j});
        }
      }
      seen.push_back(static_cast<float>(sum));
    }
  }
  return Tensor::from(seen, {1, 1, 6, 6});
}

void print_rows(const char* title, const Tensor& image, const char* format) {
  fmt::print("{}\n", title);
  for (std::int64_t y = 0; y < image.dim(2); ++y) {
    for (std::int64_t x = 0; x < image.dim(3); ++x) {
      fmt::print(fmt::runtime(format), image.at({0, 0, y, x}) + 0.0);
    }
    fmt::print("\n");
  }
}

// From 1,000 squares at random places and the edges that `wanted` finds there.
Tensor learnt(const Tensor& wanted) {
  Rng rng(1);
  Tensor kernel = Tensor::randn({1, 1, 3, 3}, rng).set_requires_grad();
  optim::SGD sgd({{"kernel", kernel}});
  for (int step = 0; step < 1000; ++step) {
    const std::int64_t top = rng.randint(5), left = rng.randint(5);
    const Tensor image = square(top, left);
    Tape tape;
    const Tensor loss = mse_loss(conv2d(image, kernel), conv2d(image, wanted));
    tape.backward(loss);
    sgd.step(0.2);
    sgd.zero_grad();
    if (step % 250 == 0) fmt::print("step {:3}: loss {:.4f}\n", step, loss.item());
  }
  return kernel;
}

int lesson() {
  const Tensor image = square(1, 2);
  const Tensor kernel = Tensor::from<float>({-1, 0, 1, -2, 0, 2, -1, 0, 1}, {1, 1, 3, 3});
  print_rows("image:", image, "{:2.0f}");
  const Tensor seen = conv2d(image, kernel);
  print_rows("what the kernel sees:", seen, "{:3.0f}");
  const Tensor moved = conv2d(square(2, 2), kernel);
  fmt::print("by hand the same: {}\n", allclose(by_hand(image, kernel), seen));
  fmt::print("the image one row lower, seen one row lower: {}\n",
             allclose(slice(moved, 2, 1, 6), slice(seen, 2, 0, 5)));
  fmt::print("weights: {}; of a linear layer from 64 to 36: {}\n\n", kernel.numel(), 64 * 36);
  print_rows("the learnt kernel:", learnt(kernel), "{:6.2f}");
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
