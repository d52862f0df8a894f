#include <cstring>
#include <filesystem>
#include <limits>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A file with one tensor, "x", of rank 1.
std::string file_with(const TempFolder& folder, const std::string& dtype,
                      const std::vector<std::uint16_t>& bits) {
  const std::size_t bytes = bits.size() * sizeof bits[0];
  const std::string header = fmt::format(
      R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype, bits.size(), bytes);
  const std::uint64_t length = header.size();
  return folder.put("half", std::string(reinterpret_cast<const char*>(&length), sizeof length) +
                                header +
                                std::string(reinterpret_cast<const char*>(bits.data()), bytes));
}

std::vector<std::uint16_t> all_bits() {
  std::vector<std::uint16_t> bits;
  for (std::uint32_t i = 0; i < 0x10000; ++i) bits.push_back(static_cast<std::uint16_t>(i));
  return bits;
}

// The value of a binary16 by its definition in IEEE 754.
double f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + fraction, exponent - 25);
  return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::quiet_NaN();
}

bool same_value(double a, double b) {
  return std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

TEST_CASE("a source tells names, dtypes and shapes before it reads data", "[tensor_source]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  Rng rng(1);
  const Tensor large = normal(rng, {1000, 100}, DType::f32);
  save_safetensors(path, {{"large", large}, {"ids", ids({1, 2})}}, {{"kind", "test"}});
  reset_peak_memory();
  const std::size_t before = memory_stats().peak;
  const auto source = open_safetensors(path);
  CHECK(source->name() == path);
  CHECK(source->metadata() == Metadata{{"kind", "test"}});
  CHECK(source->entries().size() == 2);
  CHECK(source->at("large").type == &stored_type("f32"));
  CHECK(source->at("large").shape == Shape{1000, 100});
  CHECK(source->at("ids").dtype == DType::i32);
  CHECK(source->contains("ids"));
  CHECK_FALSE(source->contains("nothing"));
  CHECK(memory_stats().peak == before);
  const Tensor read = source->read("large");
  CHECK(memory_stats().peak <= before + read.bytes() + 4096);  // the file's bytes are not kept
  CHECK(same_bits(read, large));
  CHECK(read.sole_owner());
}

TEST_CASE("floats are converted while they are read, other dtypes are not", "[tensor_source]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  Rng rng(2);
  const Tensor f64 = normal(rng, {70000}), f32 = f64.to(DType::f32);
  const NamedTensors tensors = {{"f64", f64}, {"f32", f32}, {"ids", ids({3})}};
  save_safetensors(path, tensors);
  for (const auto& source :
       {open_safetensors(path), memory_source({tensors.begin(), tensors.end()}, path)}) {
    CHECK(same_bits(source->read("f64"), f64));
    CHECK(same_bits(source->read("f64", DType::f64), f64));
    CHECK(same_bits(source->read("f64", DType::f32), f32));
    CHECK(same_bits(source->read("f32", DType::f64), f32.to(DType::f64)));
    CHECK(same_bits(source->read("ids", DType::i32), ids({3})));
    CHECK_THROWS_WITH(source->read("ids", DType::f32),
                      ContainsSubstring(path + ": tensor 'ids' is of i32 ") &&
                          ContainsSubstring("and cannot be read as f32"));
    CHECK_THROWS_AS(source->read("f32", DType::u8), Error);
    CHECK_THROWS_WITH(source->read("nothing"), path + ": there is no tensor 'nothing'");
  }
}

TEST_CASE("every F16 and BF16 number is read as the f32 of equal value", "[tensor_source]") {
  const TempFolder folder;
  for (const std::string dtype : {"F16", "BF16"}) {
    const auto source = open_safetensors(file_with(folder, dtype, all_bits()));
    CHECK(source->at("x").type->safetensors == dtype);
    CHECK(source->at("x").dtype == DType::f32);
    const Tensor f32 = source->read("x"), f64 = source->read("x", DType::f64);
    CHECK(f32.dtype() == DType::f32);
    CHECK(f64.dtype() == DType::f64);
    int wrong = 0;
    for (std::int64_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double expected =
          dtype == "F16" ? f16_value(bits) : static_cast<double>(to_float(bf16{bits}));
      wrong += same_value(f32.at(i), expected) && same_value(f64.at(i), expected) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a file that is cut short after it was opened is an error", "[tensor_source]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  save_safetensors(path, {{"a", vector({1, 2})}, {"b", vector({3, 4})}});
  const auto source = open_safetensors(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK(list(source->read("a")) == std::vector<double>{1, 2});
  CHECK_THROWS_WITH(source->read("b"), path + ": tensor 'b': reading it failed");
  const std::string half = file_with(folder, "F16", all_bits());
  const auto halves = open_safetensors(half);
  std::filesystem::resize_file(half, std::filesystem::file_size(half) - 1);
  CHECK_THROWS_WITH(halves->read("x"), half + ": tensor 'x': reading it failed");
}

TEST_CASE("a source reads the file that it opened, even if another takes its name",
          "[tensor_source]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  save_safetensors(path, {{"x", vector({1, 2})}});
  const auto source = open_safetensors(path);
  save_safetensors(path, {{"y", vector({3})}});
  CHECK(list(source->read("x")) == std::vector<double>{1, 2});
}

TEST_CASE("what a source in memory gives shares nothing with it", "[tensor_source]") {
  const auto source = memory_source({{"x", Tensor::from<float>({1, 2}, {2})}}, "two numbers");
  Tensor x = source->read("x");
  x.mutable_data<float>()[0] = 9;
  CHECK(list(source->read("x")) == std::vector<double>{1, 2});
  CHECK(source->name() == "two numbers");
}
