#include <cstring>
#include <map>
#include <set>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/autograd/tensor/some_blocks.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// How far a value may be off, as a part of the largest one of its 32 neighbours.
const std::map<std::string_view, double> kRounding = {
    {"f32", 0},     {"f16", 0x1p-11}, {"bf16", 0x1p-8}, {"q8_0", 0.57 / 127},
    {"q4_0", 0.13}, {"q4_1", 0.07},   {"q5_0", 0.07},   {"q5_1", 0.035},
    {"q4_k", 0.2},  {"q5_k", 0.1},    {"q6_k", 0.06}};

std::vector<std::byte> narrowed(const StoredType& type, const Tensor& t) {
  std::vector<std::byte> bytes(stored_bytes(type, t.shape()).value());
  CHECK(type.from_f32(t.data<float>(), t.numel(), bytes.data()) == t.numel());
  return bytes;
}

// A tensor in memory with these bytes.
StoredTensor in_memory(const StoredType& type, const Shape& shape, std::vector<std::byte> bytes) {
  return {type, shape,
          [bytes = std::move(bytes)](std::uint64_t offset, std::byte* to, std::size_t size) {
            std::memcpy(to, bytes.data() + offset, size);
            return true;
          },
          "tensor 'x'"};
}

std::vector<const StoredType*> written_types() {
  return stored_types_where([](const StoredType& t) { return t.from_f32 != nullptr; });
}

}  // namespace

TEST_CASE("every row of the table is complete, and no two have a name in common", "[stored_type]") {
  std::set<std::string_view> names, safetensors, torch, storages;
  std::set<std::uint32_t> numbers;
  std::set<std::int64_t> files;
  for (const StoredType& type : stored_types()) {
    INFO(type.name);
    CHECK(names.insert(type.name).second);
    CHECK(&stored_type(type.name) == &type);
    CHECK((type.safetensors.empty() || safetensors.insert(type.safetensors).second));
    CHECK((type.torch.empty() || torch.insert(type.torch).second));
    CHECK((type.torch_storage.empty() || storages.insert(type.torch_storage).second));
    CHECK((!type.ggml || numbers.insert(*type.ggml).second));
    CHECK((!type.gguf_file || files.insert(*type.gguf_file).second));
    CHECK((type.block >= 1 && type.block_bytes >= 1));
    CHECK(8 * type.block_bytes >= type.block);  // readers of files count on a bit for an element
    CHECK((type.to_f32 != nullptr) == is_float(type.dtype));
    CHECK((type.to_f64 != nullptr) == is_float(type.dtype));
    const bool is_mask = type.name == "bool";  // which is passed over, and never read
    CHECK((type.is(type.dtype) || is_float(type.dtype) || type.to_i32 != nullptr || is_mask));
    CHECK((type.from_f32 != nullptr) == (kRounding.count(type.name) == 1));
    CHECK((!type.gguf_file || (type.ggml && type.from_f32 != nullptr)));
    if (type.block > 1) {
      CHECK(stored_bytes(type, {3, 2 * type.block}).value() ==
            static_cast<std::uint64_t>(6 * type.block_bytes));
      CHECK_FALSE(stored_bytes(type, {2 * type.block, 3}).has_value());
      CHECK_FALSE(stored_bytes(type, {}).has_value());
    }
    CHECK(stored_bytes(type, {0, 5 * type.block}) == 0);
    CHECK_FALSE(stored_bytes(type, {INT64_MAX, INT64_MAX, type.block}).has_value());
  }
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::u8, DType::i64, DType::boolean}) {
    CHECK(stored_type(dtype).dtype == dtype);
    CHECK(stored_type(dtype).block_bytes == static_cast<std::int64_t>(size_of(dtype)));
  }
  CHECK_THROWS_WITH(stored_type("F32"),
                    ContainsSubstring("no stored type 'F32', only f32, f16, bf16, f64"));
}

TEST_CASE("every type gives back f32 within its rounding", "[stored_type]") {
  Rng rng(1);
  const Tensor x = normal(rng, {40, 256}, DType::f32);
  for (const StoredType* type : written_types()) {
    INFO(type->name);
    const std::vector<std::byte> bytes = narrowed(*type, x);
    std::vector<float> f32(static_cast<std::size_t>(x.numel()));
    std::vector<double> f64(f32.size());
    type->to_f32(bytes.data(), x.numel(), f32.data());
    type->to_f64(bytes.data(), x.numel(), f64.data());
    CHECK(std::equal(f32.begin(), f32.end(), f64.begin()));
    const auto values = x.values<float>();
    int wrong = 0;
    for (std::size_t i = 0; i < f32.size(); ++i) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
      const auto [low, high] = std::minmax_element(begin, begin + 32);
      const double most = std::max(-static_cast<double>(*low), static_cast<double>(*high));
      const double off = std::abs(f64[i] - static_cast<double>(values[i]));
      wrong += off <= most * kRounding.at(type->name) ? 0 : 1;
    }
    CHECK(wrong == 0);
    // In pieces and by several threads, it is the same.
    const Tensor wide = in_memory(*type, x.shape(), bytes).widened(DType::f32);
    CHECK(std::equal(f32.begin(), f32.end(), wide.data<float>()));
  }
}

// The bytes were compared with those of llama-quantize --pure (ggml 0.27) when these numbers were
// taken, for all matrices of a model with 124 million weights; those of q5_0 and q5_1 with what
// ggml_quantize_chunk makes, for two million weights.
TEST_CASE("blocks have the bytes that ggml gives them", "[stored_type]") {
  const std::map<std::string_view, std::string> expected = {
      {"q8_0", "d7298c3c77758702"}, {"q4_0", "58504e4d92ff8eca"}, {"q4_1", "bfb108db99082ae2"},
      {"q5_0", "fc57005a30789688"}, {"q5_1", "fdd11caf457dd15f"}, {"q4_k", "0afd03929e37a3bb"},
      {"q5_k", "3f6d02fc70eefcd4"}, {"q6_k", "2451af0f0221a996"}};
  Rng rng(5);
  Tensor x = normal(rng, {4, 512}, DType::f32);
  float* const values = x.mutable_data<float>();
  std::fill_n(values, 256, 0.0F);         // nothing
  std::fill_n(values + 256, 32, 0.25F);   // one number
  std::fill_n(values + 288, 32, 1e-20F);  // next to nothing
  std::fill_n(values + 320, 32, -3.0F);
  for (int i = 512; i < 544; ++i) values[i] = std::fabs(values[i]);
  for (const auto& [name, hash] : expected) {
    INFO(name);
    const std::vector<std::byte> bytes = narrowed(stored_type(name), x);
    CHECK(fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) == hash);
  }
}

// What ggml's dequantize_row functions (0.27) make of the same bytes.
TEST_CASE("blocks that are only read have the numbers that ggml reads", "[stored_type]") {
  const std::map<std::string_view, std::string> expected = {{"iq4_nl", "e8b76970e2513778"},
                                                            {"q2_k", "5e105fa90b4e3d06"},
                                                            {"q3_k", "a695b083b5c4262b"},
                                                            {"iq4_xs", "2c5c4f4e71a88e8b"}};
  for (const auto& [name, hash] : expected) {
    INFO(name);
    Rng rng(6);
    const StoredType& type = stored_type(name);
    CHECK((type.from_f32 == nullptr && !type.gguf_file));
    const std::vector<std::byte> bytes = some_blocks(type, 2048, rng);
    std::vector<float> numbers(2048);
    std::vector<double> f64(numbers.size());
    type.to_f32(bytes.data(), std::ssize(numbers), numbers.data());
    type.to_f64(bytes.data(), std::ssize(numbers), f64.data());
    CHECK(std::equal(numbers.begin(), numbers.end(), f64.begin()));
    for (float& x : numbers) x += 0.0F;  // no sign of 0
    const auto* const as_bytes = reinterpret_cast<const char*>(numbers.data());
    CHECK(fingerprint({as_bytes, 4 * numbers.size()}) == hash);
  }
}

// As ggml's dequantize_row_mxfp4 (0.27), which was compared for all scales but 255.
TEST_CASE("mxfp4 has floats of 4 bits times a power of two", "[stored_type]") {
  constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const StoredType& type = stored_type("mxfp4");
  for (int scale = 0; scale < 253; ++scale) {
    std::vector<std::byte> block = {static_cast<std::byte>(scale)};
    for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i | (15 - i) << 4));
    std::vector<double> expected;
    for (int i = 0; i < 32; ++i) {
      const int code = i < 16 ? i : 31 - i;
      expected.push_back(std::ldexp(kNumbers[code & 7], scale - 127) * (code < 8 ? 1 : -1));
    }
    std::vector<float> floats(32);
    std::vector<double> doubles(32);
    type.to_f32(block.data(), 32, floats.data());
    type.to_f64(block.data(), 32, doubles.data());
    CHECK(std::equal(floats.begin(), floats.end(), expected.begin()));
    CHECK(doubles == expected);
    block[0] = std::byte{255};
    type.to_f32(block.data(), 32, floats.data());
    CHECK(std::all_of(floats.begin(), floats.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_CASE("what a type cannot hold is found where it stands", "[stored_type]") {
  for (const StoredType* type : written_types()) {
    if (type->name == "f32") continue;  // holds whatever there is
    INFO(type->name);
    std::vector<float> x(3 * 256, 1.0F);
    std::vector<std::byte> bytes(4 * x.size());
    x[300] = 3.4e38F;
    CHECK(type->from_f32(x.data(), std::ssize(x), bytes.data()) == 300);
    x[300] = 1;
    CHECK(type->from_f32(x.data(), std::ssize(x), bytes.data()) == std::ssize(x));
  }
}

TEST_CASE("every type that safetensors has comes back from a file", "[stored_type]") {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  Rng rng(2);
  const Tensor x = normal(rng, {300, 512}, DType::f32);  // several pieces
  for (const StoredType* type : written_types()) {
    INFO(type->name);
    const std::vector<TensorToMake> tensors = {{"x", x.shape(), [&] { return x; }}};
    if (type->safetensors.empty()) {
      CHECK_THROWS_WITH(save_safetensors(path, tensors, *type),
                        ContainsSubstring(fmt::format("cannot store {}", type->name)));
      continue;
    }
    save_safetensors(path, tensors, *type);
    const auto file = open_safetensors(path);
    CHECK(file->at("x").type == type);
    const StoredTensor stored = file->stored("x");
    CHECK(&stored.type() == type);
    const std::vector<std::byte> expected = narrowed(*type, x);
    std::vector<std::byte> bytes(stored.bytes());
    REQUIRE(stored.read(0, bytes.data(), bytes.size()));
    CHECK(bytes == expected);
    const StoredTensor memory = in_memory(*type, x.shape(), expected);
    CHECK(same_bits(file->read("x"), memory.widened(DType::f32)));
    CHECK(same_bits(file->read("x", DType::f64), memory.widened(DType::f64)));
  }
}

TEST_CASE("i64 of a file becomes i32 where it fits", "[stored_type]") {
  const TempFolder folder;
  std::vector<std::int64_t> numbers = {-1, 1, INT32_MAX};
  const auto read = [&](DType as = DType::i32) {
    const std::string header = R"({"x":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}})";
    const std::uint64_t length = header.size();
    const auto path = folder.put(
        "x", std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                 std::string(reinterpret_cast<const char*>(numbers.data()), 24));
    return open_safetensors(path.string())->read("x", as);
  };
  CHECK(same_bits(read(), Tensor::from<std::int32_t>({-1, 1, INT32_MAX}, {3})));
  numbers[1] = std::int64_t{1} << 31;
  CHECK_THROWS_WITH(read(), ContainsSubstring("tensor 'x': 2147483648 is no i32"));
  CHECK(same_bits(read(DType::i64), Tensor::from(numbers, {3})));
}

TEST_CASE("bytes of a stored tensor are read from any place, and none beside it", "[stored_type]") {
  const TempFolder folder;
  const std::string path = folder / "file";
  save_safetensors(path, {{"a", ids({1, 2, 3})}, {"b", ids({4})}});
  const auto file = open_safetensors(path);
  const StoredTensor a = file->stored("a");
  CHECK(a.bytes() == 12);
  std::int32_t two[2] = {};
  auto* const to = reinterpret_cast<std::byte*>(two);
  CHECK(a.read(4, to, 8));
  CHECK((two[0] == 2 && two[1] == 3));
  CHECK_FALSE(a.read(8, to, 8));
  CHECK_FALSE(a.read(UINT64_MAX, to, 8));
  CHECK(a.read(12, to, 0));
  CHECK_THROWS_WITH(a.widened(DType::f32), ContainsSubstring("'a': i32 cannot be read as f32"));
  CHECK_THROWS_WITH(file->stored("c"), ContainsSubstring("there is no tensor 'c'"));
}

TEST_CASE("a transposed matrix is the one that permute makes", "[stored_type]") {
  Rng rng(3);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{64, 16}, Shape{130, 97}, Shape{3, 700}, Shape{0, 4}}) {
    const Tensor x = normal(rng, shape, DType::f32);
    for (const StoredType* type : written_types()) {
      if (type->block > 1) continue;
      INFO(fmt::format("{} {}", type->name, shape));
      const StoredTensor stored = in_memory(*type, shape, narrowed(*type, x));
      const StoredTensor t = stored.transposed();
      CHECK(t.shape() == Shape{shape[1], shape[0]});
      for (const DType as : {DType::f32, DType::f64}) {
        CHECK(same_bits(t.widened(as), permute(stored.widened(as), {1, 0})));
        CHECK(same_bits(t.transposed().widened(as), stored.widened(as)));
      }
      CHECK_THROWS_WITH(t.first_rows(0), ContainsSubstring("as it is stored"));
    }
    const Tensor f64 = x.to(DType::f64);
    CHECK(same_bits(StoredTensor(f64, "x").transposed().widened(DType::f64), permute(f64, {1, 0})));
  }
  const StoredTensor blocks(stored_type("q8_0"), {32, 32}, {}, "tensor 'x'");
  CHECK_THROWS_WITH(blocks.transposed(), ContainsSubstring("cannot be transposed"));
  CHECK_THROWS_WITH(StoredTensor(ids({1}), "x").transposed(),
                    ContainsSubstring("cannot be transposed"));
}

TEST_CASE("rows move as they are stored, blocks included", "[stored_type]") {
  Rng rng(4);
  const Tensor x = normal(rng, {7, 256}, DType::f32), row = normal(rng, {9}, DType::f32);
  const auto back = [](std::int64_t i) { return 6 - i; };
  for (const StoredType* type : written_types()) {
    INFO(type->name);
    const StoredTensor stored = in_memory(*type, x.shape(), narrowed(*type, x));
    const Tensor wide = stored.widened(DType::f32);
    CHECK(same_bits(stored.first_rows(3).widened(DType::f32), wide.rows(0, 3)));
    CHECK_THROWS_WITH(stored.first_rows(8), ContainsSubstring("no first 8 rows"));
    const StoredTensor moved_rows = stored.rows(6, back);
    const Tensor turned = moved_rows.widened(DType::f32);
    std::vector<std::byte> whole(moved_rows.bytes()), pieces(whole.size());
    REQUIRE(moved_rows.read(0, whole.data(), whole.size()));
    for (std::size_t at = 0; at < whole.size(); at += 7) {  // no piece ends where a row does
      REQUIRE(moved_rows.read(at, pieces.data() + at, std::min<std::size_t>(7, whole.size() - at)));
    }
    CHECK(pieces == whole);
    CHECK(turned.shape() == Shape{6, 256});
    for (std::int64_t i = 0; i < 6; ++i) {
      CHECK(same_bits(turned.rows(i, i + 1), wide.rows(6 - i, 7 - i)));
    }
    if (type->block > 1) {
      const StoredTensor one(*type, {256}, {}, "tensor 'x'");
      CHECK_THROWS_WITH(one.rows(2, back), ContainsSubstring("no rows that can move"));
    } else {  // rows of one element
      const StoredTensor elements = in_memory(*type, row.shape(), narrowed(*type, row));
      const Tensor plain = elements.widened(DType::f32),
                   moved = elements.rows(4, back).widened(DType::f32);
      for (std::int64_t i = 0; i < 4; ++i) CHECK(moved.at(i) == plain.at(6 - i));
    }
  }
}
