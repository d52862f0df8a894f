#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A file of the given header and bytes, of which `length` may say something else.
std::string file_of(const std::string& header, const std::string& data, std::int64_t length = -1) {
  const auto n =
      static_cast<std::uint64_t>(length < 0 ? static_cast<std::int64_t>(header.size()) : length);
  return std::string(reinterpret_cast<const char*>(&n), sizeof n) + header + data;
}

std::string one_tensor(const std::string& fields) { return R"({"x":{)" + fields + "}}"; }

// The error of load_safetensors for such a file; "" if it reads it.
std::string complaint(const TempFolder& folder, const std::string& bytes) {
  const std::string path = folder.put("file", bytes);
  try {
    load_safetensors(path);
    return "";
  } catch (const Error& e) {
    const std::string text = e.what();
    CHECK_THAT(text, ContainsSubstring(path));
    return text.substr(std::min(text.size(), text.find(path) + path.size()));
  }
}

std::string small_file(const TempFolder& folder) {
  const auto path = folder / "small";
  save_safetensors(path.string(),
                   {{"a", Tensor::from<float>({1, 2, 3}, {3})},
                    {"none", Tensor::zeros({0, 2})},
                    {"b.c", Tensor::from<std::int32_t>({7, 8}, {2, 1})}},
                   {{"kind", "test"}});
  return TempFolder::get(path);
}

}  // namespace

TEST_CASE("safetensors come back as they were saved", "[safetensors]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  Rng rng(1);
  const NamedTensors tensors = {
      {"f32", normal(rng, {3, 4}, DType::f32)},
      {"empty", Tensor::zeros({2, 0, 3})},
      {"f64", normal(rng, {2, 1, 2})},
      {"", Tensor::from<std::int32_t>({-1, INT32_MAX, INT32_MIN}, {3})},
      {"another.empty", Tensor::zeros({0}, DType::f64)},
      {"\"quoted\"\n é", Tensor::from<std::uint8_t>({0, 255}, {2})},
      {"scalar", Tensor::scalar(-0.0)},
      {"rows", normal(rng, {5, 2}).rows(2, 4)},
  };
  const Metadata metadata = {{"step", "12"}, {"text", "line\nline"}};
  save_safetensors(path, tensors, metadata);
  const SafeTensors loaded = load_safetensors(path);
  CHECK(loaded.metadata == metadata);
  CHECK(loaded.path == path);
  CHECK(loaded.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    CHECK(same_bits(loaded.at(name), tensor));
  }
  CHECK_THROWS_WITH(loaded.at("nothing"), path + ": there is no tensor 'nothing'");
  CHECK(folder.entries() == 1);
  save_safetensors(path, {});
  CHECK(load_safetensors(path).tensors.empty());
}

TEST_CASE("saving a tensor does not count as changing it", "[safetensors]") {
  const TempFolder folder;
  const Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(x * x);
  save_safetensors((folder / "file").string(), {{"x", x}});
  tape.backward(y);
  CHECK(list(x.grad()) == std::vector<double>{4, 6});
}

TEST_CASE("the data in a file is aligned and laid out as the format says", "[safetensors]") {
  const TempFolder folder;
  const std::string bytes = small_file(folder);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  CHECK((8 + length) % 8 == 0);
  CHECK(bytes.size() == 8 + length + 12 + 8);
  CHECK(bytes[8] == '{');
  CHECK_THAT(bytes, ContainsSubstring(R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]})"));
}

TEST_CASE("names that a file cannot hold are an error, and leave the old file", "[safetensors]") {
  const TempFolder folder;
  const std::string path = (folder / "file").string();
  const Tensor x = vector({1});
  save_safetensors(path, {{"x", x}});
  CHECK_THROWS_WITH(save_safetensors(path, {{"y", x}, {"y", x}}),
                    ContainsSubstring("under the name 'y': it is taken"));
  CHECK_THROWS_AS(save_safetensors(path, {{"__metadata__", x}}), Error);
  CHECK_THROWS_AS(save_safetensors(path, {{"bad \xFF utf-8", x}}), Error);
  CHECK_THROWS_AS(save_safetensors((folder / "no" / "folder").string(), {{"y", x}}), Error);
  CHECK(same_bits(load_safetensors(path).at("x"), x));
  CHECK(folder.entries() == 1);
}

TEST_CASE("each way to be no safetensors file has an error that names the path", "[safetensors]") {
  const TempFolder folder;
  const auto expect = [&](const std::string& bytes, const std::string& text) {
    INFO(bytes);
    CHECK_THAT(complaint(folder, bytes), ContainsSubstring(text));
  };
  CHECK_THROWS_WITH(load_safetensors((folder / "none").string()),
                    ContainsSubstring("there is no such file"));
  CHECK_THROWS_WITH(load_safetensors(folder.path().string()),
                    ContainsSubstring("not a regular file"));
  expect("", "0 bytes are too few");
  expect("1234567", "7 bytes are too few");
  expect(file_of("{}", "", 3), "the header says it has 3 bytes, but the file has 10");
  expect(file_of("{}", "", INT64_MAX), "truncated, or not a safetensors file");
  expect("# just a text file\n", "not a safetensors file");
  expect(file_of("", ""), "the header: not valid JSON at byte");
  expect(file_of("{\"x\":", ""), "the header: not valid JSON at byte");
  expect(file_of("{\"\xFF\":1}", ""), "the header: not valid JSON at byte");
  expect(file_of("[]", ""), "the header is not a JSON object");
  expect(file_of("null", ""), "the header is not a JSON object");
  expect(file_of(std::string(100'000, '['), ""), "nested too deeply");
  expect(file_of("{\"x\":" + std::string(100'000, '[') + "}", ""), "nested too deeply");
  expect(file_of(R"({"__metadata__":3})", ""), "__metadata__ is not an object of strings");
  expect(file_of(R"({"__metadata__":{"a":3}})", ""), "__metadata__.a is not a string");
  expect(file_of(R"({"x":3})", ""), "tensor 'x' lacks a proper dtype");
  expect(file_of(one_tensor(R"("dtype":"F32","shape":[1])"), "1234"), "lacks a proper");
  expect(file_of(one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), "1234"), "lacks");
  expect(file_of(one_tensor(R"("dtype":7,"shape":[1],"data_offsets":[0,4])"), "1234"), "lacks");

  const auto with = [&](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return file_of(one_tensor(fmt::format(R"("dtype":"{}","shape":{},"data_offsets":{})", dtype,
                                          shape, offsets)),
                   "1234");
  };
  CHECK(complaint(folder, with("F32", "[1]", "[0,4]")) == "");
  CHECK(complaint(folder, file_of(R"({"__metadata__":null})", "")) == "");
  CHECK(complaint(folder, with("BOOL", "[4]", "[0,4]")) == "");
  expect(with("I16", "[2]", "[0,4]"), "tensor 'x' has dtype I16; only F32, F16, BF16, F64, I32");
  expect(with("F32", "[-1]", "[0,4]"), "impossible shape [-1]");
  expect(with("F32", "[1.0]", "[0,4]"), "impossible shape");
  expect(with("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "impossible shape");
  expect(with("F32", "[18446744073709551615]", "[0,4]"), "impossible shape");
  expect(with("F32", "[99999999999999999999]", "[0,4]"), "impossible shape");
  expect(with("F32", "[281474976710656,281474976710656]", "[0,4]"), "cannot have 4 bytes");
  expect(with("F32", "[281474976710656]", "[0,4]"), "cannot have 4 bytes");
  expect(with("F32", "[2]", "[0,4]"), "of shape (2) and dtype F32 cannot have 4 bytes");
  expect(with("F32", "[1]", "[0,8]"), "lies at bytes 0 to 8, but the file has 4 bytes of data");
  expect(with("F32", "[1]", "[4,0]"), "lies at bytes 4 to 0");
  expect(with("F32", "[1]", "[-4,0]"), "impossible data_offsets");
  expect(with("U8", "[3]", "[0,3]"), "the tensors end at byte 3 of 4");
  expect(with("U8", "[3]", "[1,4]"), "tensor 'x' starts at byte 1 of the data, expected 0");
  const std::string part = R"({"dtype":"U8","shape":[2],"data_offsets":)";
  expect(file_of(R"({"a":)" + part + R"([0,2]},"b":)" + part + "[1,3]}}", "123"),
         "tensor 'b' starts at byte 1 of the data, expected 2");
  expect(file_of(R"({"a":)" + part + R"([0,2]},"a":)" + part + "[0,2]}}", "12"),
         "the header: 'a' is there twice");
  expect(file_of(R"({"a":{"dtype":"U8","shape":[2],"dtype":"U8","data_offsets":[0,2]}})", "12"),
         "the header: 'dtype' is there twice");
  expect(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "the header: 'a' is there twice");
}

TEST_CASE("a file that is cut anywhere, or has a byte too many, is an error", "[safetensors]") {
  const TempFolder folder;
  const std::string bytes = small_file(folder);
  CHECK(complaint(folder, bytes) == "");
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    INFO("cut to " << n << " of " << bytes.size());
    REQUIRE(complaint(folder, bytes.substr(0, n)) != "");
  }
  CHECK(complaint(folder, bytes + '\0') != "");
}

TEST_CASE("a file with broken bytes is read or an error, and costs no memory", "[safetensors]") {
  const TempFolder folder;
  const std::string bytes = small_file(folder);
  const std::size_t header = bytes.size() - 20;
  Rng rng(1);
  reset_peak_memory();
  const std::size_t before = memory_stats().peak;
  int readable = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string broken = bytes;
    for (auto changes = 1 + rng.randint(3); changes > 0; --changes) {
      const auto at = static_cast<std::size_t>(rng.randint(static_cast<std::int64_t>(header)));
      const char digits[] = "0123456789[]{}\",:-eE.";
      broken[at] = rng.randint(2) == 0 ? static_cast<char>(rng.randint(256))
                                       : digits[rng.randint(sizeof digits - 1)];
    }
    readable += complaint(folder, broken) == "" ? 1 : 0;
  }
  CHECK(readable > 0);  // a changed name, for example
  CHECK(readable < 1500);
  CHECK(memory_stats().peak < before + (1 << 16));
}

TEST_CASE("i64 and bool are saved as they are, and any byte but 0 is true", "[safetensors]") {
  const TempFolder folder;
  const std::string path = folder / "file";
  const Tensor n = Tensor::from<std::int64_t>({INT64_MIN, 7}, {2});
  const Tensor b = Tensor::from({true, false, true}, {3, 1});
  save_safetensors(path, {{"n", n}, {"b", b}});
  CHECK(testing::same_bits(load_safetensors(path).at("n"), n));
  CHECK(testing::same_bits(load_safetensors(path).at("b"), b));
  const std::string header = R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  const std::uint64_t length = header.size();
  const auto other =
      folder.put("x", std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                          std::string("\0\x02", 2));
  const Tensor read = load_safetensors(other.string()).at("x");
  CHECK(read.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 1});
}
