#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapegrad/arrays/array_loader.h"
#include "tapegrad/arrays/image_transforms.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using namespace tapegrad::arrays;

namespace {

using Numbers = std::vector<float>;

Shape shape_of(const nlohmann::json& sizes) { return {sizes[0], sizes[1], sizes[2], sizes[3]}; }

}  // namespace

TEST_CASE("images are drawn and changed as torchvision's transforms do it", "[image_transforms]") {
  const nlohmann::json golden = golden_json("image_transforms.json");
  const Tensor images = Tensor::from(golden["images"].get<Numbers>(), shape_of(golden["shape"]));
  const std::map<std::string, std::function<Tensor(const Tensor&, Rng&)>> transforms = {
      {"crop",
       [](const Tensor& x, Rng& rng) {
         return random_crop(x, rng, {.height = 4, .width = 3, .padding = 2});
       }},
      {"crop of all rows",
       [](const Tensor& x, Rng& rng) { return random_crop(x, rng, {.height = 5, .width = 2}); }},
      {"horizontal flip", [](const Tensor& x, Rng& rng) { return random_horizontal_flip(x, rng); }},
      {"vertical flip",
       [](const Tensor& x, Rng& rng) { return random_vertical_flip(x, rng, 0.7); }},
      {"rotation", [](const Tensor& x, Rng& rng) { return random_rotation(x, rng, 75); }},
      {"cutout", [](const Tensor& x, Rng& rng) { return cutout(x, rng, 2); }},
      {"normalize",
       [](const Tensor& x, Rng&) {
         return normalize_channels(x, {0.25, -1.5}, {0.3, 7});
       }},
  };
  REQUIRE(golden["cases"].size() == transforms.size());
  for (const auto& [name, transform] : transforms) {
    INFO(name);
    const nlohmann::json& expected = golden["cases"][name];
    for (const DType dtype : {DType::f32, DType::f64}) {
      Rng rng(5);
      const Tensor changed = transform(images.to(dtype), rng);
      CHECK(changed.dtype() == dtype);
      CHECK(changed.shape() == shape_of(expected["shape"]));
      const Tensor values =
          Tensor::from(expected["values"].get<Numbers>(), shape_of(expected["shape"])).to(dtype);
      const double apart = max(abs(changed - values)).item();
      // PyTorch turns the corners of a grid in f64, and rounds to f32 here.
      CHECK(apart <= (name == "rotation" ? 2e-6 : name == "normalize" ? 3e-7 : 0.0));
      if (name == "normalize" && dtype == DType::f32) CHECK(apart == 0);
      if (expected.contains("next")) CHECK(rng.uniform() == expected["next"].get<float>());
    }
  }
}

TEST_CASE("images that turn by no angle stay as they are", "[image_transforms]") {
  const Tensor image = Tensor::arange(9).view({1, 1, 3, 3});
  Rng rng(1);
  CHECK(allclose(random_rotation(image, rng, 0), image));
  CHECK(random_rotation(Tensor::ones({2, 1, 3, 3}), rng, 360).shape() == Shape{2, 1, 3, 3});
}

TEST_CASE("images that are there may be none, and what cannot be is an error",
          "[image_transforms]") {
  Rng rng(1);
  const Tensor images = Tensor::ones({2, 3, 4, 4}), none = Tensor::ones({0, 3, 4, 4});
  CHECK(random_crop(none, rng, {.height = 2, .width = 2}).shape() == Shape{0, 3, 2, 2});
  CHECK(cutout(none, rng, 2).shape() == none.shape());
  CHECK(random_rotation(none, rng, 5).shape() == none.shape());
  CHECK(allclose(cutout(images, rng, 0), images));
  CHECK(max(cutout(images, rng, 100)).item() == 0);
  CHECK_THROWS_WITH(random_crop(images, rng, {.height = 5, .width = 4}),
                    ContainsSubstring("[random_crop] a part of 5 x 4 must be from 1 x 1 to 4 x 4"));
  CHECK_THROWS_WITH(random_crop(images, rng, {.height = 0, .width = 4}),
                    ContainsSubstring("a part of 0 x 4"));
  CHECK_THROWS_WITH(random_crop(images, rng, {.height = 1, .width = 1, .padding = -1}),
                    ContainsSubstring("padding"));
  CHECK_THROWS_WITH(random_horizontal_flip(images, rng, 1.5), ContainsSubstring("p must be"));
  CHECK_THROWS_WITH(random_vertical_flip(images, rng, std::nan("")), ContainsSubstring("p must"));
  CHECK_THROWS_WITH(random_rotation(images, rng, std::nan("")), ContainsSubstring("degrees"));
  CHECK_THROWS_WITH(cutout(images, rng, -1), ContainsSubstring("[cutout] side"));
  CHECK_THROWS_WITH(cutout(Tensor::ones({1, 1, 0, 4}), rng, 1), ContainsSubstring("no pixels"));
  CHECK_THROWS_WITH(normalize_channels(images, {1, 2}, {1, 2}),
                    ContainsSubstring("3 means and stds"));
  CHECK_THROWS_WITH(normalize_channels(images, {0, 0, 0}, {1, 1e-50, 1}),
                    ContainsSubstring("a std"));
  CHECK_THROWS_WITH(normalize_channels(images, {0, std::nan(""), 0}, {1, 1, 1}),
                    ContainsSubstring("a mean"));
  CHECK_THROWS_WITH(normalize_channels(images, {1, 2, 3}, {1, 0, 1}),
                    ContainsSubstring("other than 0"));
  CHECK_THROWS_WITH(cutout(Tensor::ones({3, 4, 4}), rng, 1),
                    ContainsSubstring("[cutout] images must be floats (N, C, H, W)"));
  CHECK_THROWS_WITH(cutout(images.to(DType::i32), rng, 1), ContainsSubstring("must be floats"));
  Tape tape;
  tape.watch(images);
  CHECK_THROWS_WITH(cutout(images, rng, 1), ContainsSubstring("cutout"));
}

TEST_CASE("a loader's images change in the same way, in the background or not",
          "[image_transforms]") {
  Rng rng(2);
  const Tensor images = Tensor::randn({6, 1, 4, 4}, rng);
  const auto epoch = [&](bool background) {
    ArrayLoader loader({images},
                       {.batch_size = 2,
                        .transform =
                            [](Rows batch, Rng& own) {
                              batch[0] = random_crop(random_horizontal_flip(batch[0], own), own,
                                                     {.height = 4, .width = 4, .padding = 1});
                              return batch;
                            },
                        .background = background},
                       Rng(3));
    std::vector<Tensor> all;
    for (int i = 0; i < 6; ++i) all.push_back(loader.next()[0]);
    return concat(all, 0);
  };
  const Tensor changed = epoch(true);
  CHECK(max(abs(changed - epoch(false))).item() == 0);
  CHECK(max(abs(slice(changed, 0, 0, 6) - slice(changed, 0, 6, 12))).item() > 0);
}
