#include "tapegrad/examples/digit_images.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using tapegrad::testing::list;

namespace {

std::string idx_file(std::initializer_list<int> header, std::size_t bytes, char value) {
  std::string text;
  for (const int code : header) text += static_cast<char>(code);
  return text + std::string(bytes, value);
}

const std::string kTwoImages =
    idx_file({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4}, 32, '\xff');
const std::string kTwoLabels = idx_file({0, 0, 8, 1, 0, 0, 0, 2}, 2, 7);

}  // namespace

TEST_CASE("the digits of the examples come from MNIST's files", "[examples]") {
  const TempFolder folder;
  const char* const image_names[] = {"train-images-idx3-ubyte", "train-images.idx3-ubyte"};
  for (const std::string name : image_names) {
    const auto path = folder.put(name, kTwoImages);
    folder.put("train-labels-idx1-ubyte", kTwoLabels);
    const Digits digits = load_mnist(folder.path(), "train");
    CHECK(digits.images.shape() == Shape{2, 1, 4, 4});
    CHECK(list(digits.images) == std::vector<double>(32, 1.0));
    CHECK(list(digits.labels) == std::vector<double>{7, 7});
    CHECK(digits.labels.dtype() == DType::i32);
    std::filesystem::remove(path);
  }
  CHECK_THROWS_WITH(load_mnist(folder.path(), "train"),
                    ContainsSubstring("has no train-images-idx3-ubyte"));
}

TEST_CASE("MNIST's files that do not fit are errors that name the file", "[examples]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& images, const std::string& labels,
                           const std::string& text) {
    folder.put("t10k-images-idx3-ubyte", images);
    folder.put("t10k-labels-idx1-ubyte", labels);
    CHECK_THROWS_WITH(load_mnist(folder.path(), "t10k"), ContainsSubstring(text));
  };
  refused(kTwoLabels, kTwoLabels, "t10k-images-idx3-ubyte: must be (n, side, side) of u8, not (2)");
  refused(idx_file({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8}, 32, 0), kTwoLabels,
          "needs square images whose side is a multiple of 4, not (1, 4, 8)");
  refused(idx_file({0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4}, 0, 0), kTwoLabels,
          "not (0, 4, 4)");
  refused(kTwoImages, idx_file({0, 0, 8, 1, 0, 0, 0, 3}, 3, 1),
          "t10k-labels-idx1-ubyte: must be (2) of u8, a label for each image, not (3) of u8");
  refused(kTwoImages, idx_file({0, 0, 8, 1, 0, 0, 0, 2}, 2, 10),
          "label 0 is 10, and must be 0 to 9");
  refused(kTwoImages.substr(0, 40), kTwoLabels, "t10k-images-idx3-ubyte");
}
