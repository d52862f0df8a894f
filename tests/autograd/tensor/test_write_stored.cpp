#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/half.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

// The values from a file of one tensor.
std::vector<float> stored_as(const std::string& type, const std::vector<float>& values) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  const Tensor t = Tensor::from(values, {std::ssize(values)});
  save_safetensors(path, {{"x", t.shape(), [&] { return t; }}}, stored_type(type),
                   {{"format", "pt"}});
  CHECK(open_safetensors(path)->at("x").type->name == type);
  CHECK(open_safetensors(path)->metadata().at("format") == "pt");
  const auto read = load_safetensors(path).at("x").values<float>();
  return {read.begin(), read.end()};
}

}  // namespace

TEST_CASE("every f16 comes back from f32, and what lies between two becomes the nearest",
          "[write_stored]") {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {  // all finite ones from 0 on
    const float x = to_float(f16{static_cast<std::uint16_t>(bits)});
    const bool is_last = bits == 0x7bff;
    const float next = is_last ? 65536 : to_float(f16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = x + (next - x) / 2;  // exact
    const std::uint32_t even = bits + (bits & 1U);
    const bool right = to_f16(x).bits == bits && to_f16(-x).bits == (bits | 0x8000U) &&
                       to_f16(middle).bits == even && to_f16(-middle).bits == (even | 0x8000U) &&
                       to_f16(std::nextafter(middle, 0.0F)).bits == bits &&
                       to_f16(std::nextafter(middle, 1e9F)).bits == bits + 1;
    if (!right) FAIL_CHECK("f16 " << bits << ", " << x);
  }
  CHECK(to_f16(INFINITY).bits == 0x7c00);
  CHECK(to_f16(-1e30F).bits == 0xfc00);
  CHECK(std::isnan(to_float(to_f16(NAN))));
  CHECK(to_f16(1e-30F).bits == 0);
}

TEST_CASE("tensors that are made while they are written are rounded to the file's type",
          "[write_stored]") {
  const std::vector<float> values = {1, -0.1F, 3.14159265F, 65503, 1e-7F};
  CHECK(stored_as("f32", values) == values);
  CHECK(stored_as("f16", values) ==
        std::vector<float>{1, -0.0999755859375F, 3.140625F, 65504, 0x1p-23F});
  CHECK(stored_as("bf16", values) ==
        std::vector<float>{1, -0.10009765625F, 3.140625F, 65536, to_float(to_bf16(1e-7F))});
  const std::vector<float> many(100'000, 0.3F);  // more than a piece
  CHECK(stored_as("f16", many) == std::vector<float>(100'000, to_float(to_f16(0.3F))));
}

TEST_CASE("a weight that is too large for the file's type is refused by name", "[write_stored]") {
  CHECK_THROWS_WITH(stored_as("f16", {1, 65520}), ContainsSubstring("'x' has the value 65520"));
  CHECK_THROWS_WITH(stored_as("bf16", {-3.4e38F}), ContainsSubstring("which bf16 cannot hold"));
  CHECK(std::isinf(stored_as("f16", {INFINITY})[0]));
  CHECK_THROWS_WITH(stored_as("q8_0", {1}), ContainsSubstring("safetensors cannot store q8_0"));
}

TEST_CASE("a tensor of another shape than was said makes no file", "[write_stored]") {
  const TempFolder folder;
  const std::vector<TensorToMake> tensors = {{"x", {2}, [] { return Tensor::ones({3}); }}};
  CHECK_THROWS_WITH(save_safetensors(folder / "x.safetensors", tensors, stored_type("f32")),
                    ContainsSubstring("tensor 'x' is (3), not (2)"));
  CHECK(folder.entries() == 0);
}
