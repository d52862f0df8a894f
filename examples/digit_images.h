#pragma once

// Images of digits for digits.cpp and autoencoder.cpp: made up, or MNIST's own.

#include <tapegrad/arrays/idx.h>
#include <tapegrad/autograd/ops.h>
#include <tapegrad/base/error.h>
#include <tapegrad/base/random.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

struct Digits {
  tapegrad::Tensor images, labels;  // (n, 1, side, side) f32, 0 to 1 without noise; (n) i32
  std::int64_t size() const { return labels.dim(0); }
};

struct MadeUp {
  static constexpr std::int64_t kSide = 20;
  double least_height = 10, least_width = 6;  // of 20 and 16
  double noise = 0.3;                         // standard deviation
};

// Bitmaps of 5 × 7, scaled, shifted and noisy.
inline Digits make_digits(std::int64_t n, tapegrad::Rng& rng, const MadeUp& options = {}) {
  // The rows of 0 to 9, five bits each.
  static constexpr std::uint8_t kBitmaps[10][7] = {
      {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
      {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
      {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
      {14, 17, 17, 15, 1, 2, 12},
  };
  constexpr std::int64_t kSide = MadeUp::kSide;
  std::vector<float> pixels(static_cast<std::size_t>(n * kSide * kSide));
  std::vector<std::int32_t> labels;
  if (options.noise > 0) rng.normal(std::span<float>(pixels), 0, options.noise);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto digit = static_cast<std::int32_t>(rng.randint(10));
    const double height = options.least_height + (20 - options.least_height) * rng.uniform_double();
    const double width = options.least_width + (16 - options.least_width) * rng.uniform_double();
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
  return {tapegrad::Tensor::from(pixels, {n, 1, kSide, kSide}),
          tapegrad::Tensor::from(labels, {n})};
}

// A file of MNIST's in `folder`, packed by gzip or not: "train-images-idx3-ubyte" and so on. Some
// archives have a dot before "idx".
inline std::filesystem::path mnist_file(const std::filesystem::path& folder,
                                        const std::string& name, const std::string& ending) {
  std::error_code ignored;
  for (const std::string dot : {"-", "."}) {
    for (const std::string packed : {"", ".gz"}) {
      const auto path = folder / (name + dot + ending + packed);
      if (std::filesystem::is_regular_file(path, ignored)) return path;
    }
  }
  throw tapegrad::Error(folder.string() + " has no " + name + "-" + ending + " or " + name + "-" +
                        ending + ".gz: give MNIST's folder");
}

// MNIST's `part`, "train" or "t10k". Errors, naming the file: no images of u8 whose sides are equal
// and a multiple of 4, or not as many labels of 0 to 9.
inline Digits load_mnist(const std::filesystem::path& folder, const std::string& part) {
  using namespace tapegrad;
  const auto images_path = mnist_file(folder, part + "-images", "idx3-ubyte");
  const auto labels_path = mnist_file(folder, part + "-labels", "idx1-ubyte");
  const Tensor images = arrays::load_idx(images_path), labels = arrays::load_idx(labels_path);
  check(images.dtype() == DType::u8 && images.rank() == 3,
        "{}: must be (n, side, side) of u8, not {} of {}", images_path.string(),
        images.shape().str(), name_of(images.dtype()));
  const std::int64_t n = images.dim(0), side = images.dim(1);
  check(n > 0 && side > 0 && side == images.dim(2) && side % 4 == 0,
        "{}: needs square images whose side is a multiple of 4, not {}", images_path.string(),
        images.shape().str());
  check(labels.dtype() == DType::u8 && labels.shape() == Shape{n},
        "{}: must be ({}) of u8, a label for each image, not {} of {}", labels_path.string(), n,
        labels.shape().str(), name_of(labels.dtype()));
  for (std::int64_t i = 0; i < n; ++i) {
    check(labels.at(i) <= 9, "{}: label {} is {}, and must be 0 to 9", labels_path.string(), i,
          labels.at(i));
  }
  return {reshape(images.to(DType::f32) / 255.0, {n, 1, side, side}), labels.to(DType::i32)};
}
