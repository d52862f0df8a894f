#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad::arrays {

// Changes of images (N, C, H, W) that a network should not mind, for
// ArrayLoader::Options::transform:
//   batch[0] = random_crop(random_horizontal_flip(batch[0], rng), rng,
//                         {.height = 32, .width = 32, .padding = 4});
// Names, draws and results are those of torchvision.transforms, which gets one image at a time:
// image n draws after image n − 1. The images are f32 or f64, and results are new tensors. No tape
// records them: Error for images that a live tape tracks.

struct CropOptions {
  std::int64_t height = 0, width = 0;
  std::int64_t padding = 0;  // zeros around each image, before it is cropped
};
// A part of each image, (N, C, height, width), at its own place. Nothing is drawn if the part is
// all there is. Error unless it is from 1 to what an image and its padding have.
Tensor random_crop(const Tensor& images, Rng& rng, const CropOptions& options);
// Left and right, or top and bottom, change places with probability p, from 0 to 1.
Tensor random_horizontal_flip(const Tensor& images, Rng& rng, double p = 0.5);
Tensor random_vertical_flip(const Tensor& images, Rng& rng, double p = 0.5);
// Each image turns around its middle by an angle from −degrees to degrees, counter-clockwise if it
// is positive: interpolated between pixels (bilinear), zeros from outside. `degrees` is from 0 to
// 360.
Tensor random_rotation(const Tensor& images, Rng& rng, double degrees);
// Zeros in a square of `side` pixels around a pixel of each image, as far as it lies inside
// (DeVries & Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", arXiv
// 1708.04552). It draws the row of that pixel, then its column.
Tensor cutout(const Tensor& images, Rng& rng, std::int64_t side);
// (x − mean) / std, with a mean and a std for each channel. Error unless there are so many, and no
// std is 0 or not finite.
Tensor normalize_channels(const Tensor& images, const std::vector<double>& mean,
                          const std::vector<double>& std);

}  // namespace tapegrad::arrays
