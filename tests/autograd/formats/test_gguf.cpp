#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/autograd/tensor/some_blocks.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

GgufTensor tensor(const std::string& name, const StoredType& type, const Tensor& values) {
  return {name, &type, values.shape(), [values] { return values; }};
}

// A file piece by piece, of which each may lie.
struct Bytes {
  std::string text;
  template <class T>
  Bytes& put(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& u32(std::uint32_t value) { return put(value); }
  Bytes& u64(std::uint64_t value) { return put(value); }
  Bytes& name(const std::string& value) {
    u64(value.size());
    text += value;
    return *this;
  }
  Bytes& begin(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    text = "GGUF";
    return u32(version).u64(tensors).u64(keys);
  }
  // A tensor of so many elements in one row.
  Bytes& row(const std::string& n, std::uint64_t elements, std::uint32_t type, std::uint64_t at) {
    return name(n).u32(1).u64(elements).u32(type).u64(at);
  }
  Bytes& data(std::size_t bytes, std::size_t alignment = 32) {
    text.resize((text.size() + alignment - 1) / alignment * alignment + bytes);
    return *this;
  }
};

std::string complaint(const TempFolder& folder, const Bytes& bytes) {
  const std::string path = folder.put("file.gguf", bytes.text).string();
  try {
    const GgufFile file(path);
    for (const auto& [name, entry] : file.entries()) file.read(name);
    return "";
  } catch (const Error& e) {
    const std::string text = e.what();
    CHECK_THAT(text, ContainsSubstring(path));
    return text;
  }
}

}  // namespace

TEST_CASE("GGUF comes back as it was written", "[gguf]") {
  const TempFolder folder;
  const auto path = folder / "file.gguf";
  Rng rng(1);
  const GgufKeys keys = {{"flag", true},
                         {"whole", std::int64_t{4'000'000'000}},
                         {"number", 1e-5},
                         {"text", std::string("é\n")},
                         {"texts", std::vector<std::string>{"a", "", "Ġb"}},
                         {"wholes", std::vector<std::int64_t>{-1, 0, INT32_MAX}},
                         {"numbers", std::vector<double>{0.5, 0.1}}};
  const Tensor matrix = normal(rng, {3, 64}, DType::f32), row = normal(rng, {5}, DType::f32);
  const Tensor large = normal(rng, {70, 1024}, DType::f32);  // read and written in pieces
  write_gguf(
      path, keys,
      {tensor("row", stored_type("f32"), row), tensor("matrix", stored_type("f32"), matrix),
       tensor("half", stored_type("f16"), matrix), tensor("bf16", stored_type("bf16"), matrix),
       tensor("large", stored_type("f32"), large), tensor("q8", stored_type("q8_0"), large)});
  const GgufFile file(path);
  CHECK(file.keys() == keys);
  CHECK(file.metadata() == Metadata{{"text", "é\n"}});
  CHECK(same_bits(file.read("row"), row));
  CHECK(same_bits(file.read("matrix"), matrix));
  CHECK(same_bits(file.read("large"), large));
  CHECK(same_bits(file.read("large", DType::f64), large.to(DType::f64)));
  const Tensor half = file.read("half"), bf = file.read("bf16");
  REQUIRE(half.shape() == matrix.shape());
  for (std::int64_t i = 0; i < matrix.numel(); ++i) {
    const float x = matrix.data<float>()[i];
    CHECK(half.data<float>()[i] == to_float(to_f16(x)));
    CHECK(bf.data<float>()[i] == to_float(to_bf16(x)));
  }
  CHECK(file.at("q8").type == &stored_type("q8_0"));
  const Tensor q8 = file.read("q8");
  for (std::int64_t b = 0; b < large.numel(); b += 32) {
    float most = 0;
    for (std::int64_t i = b; i < b + 32; ++i) {
      most = std::max(most, std::abs(large.data<float>()[i]));
    }
    for (std::int64_t i = b; i < b + 32; ++i) {  // half a step, and the scale's rounding
      const float off = std::abs(q8.data<float>()[i] - large.data<float>()[i]);
      if (!(off <= most / 127 * 0.57F)) FAIL("element " << i << " is off by " << off);
    }
  }
}

TEST_CASE("every type that ggml has comes back from GGUF", "[gguf]") {
  const TempFolder folder;
  Rng rng(5);
  const Tensor x = normal(rng, {3, 2, 256}, DType::f32);
  int written = 0;
  for (const StoredType& type : stored_types()) {
    if (type.from_f32 == nullptr) continue;
    INFO(type.name);
    if (!type.ggml) {
      CHECK_THROWS_WITH(write_gguf(folder / "file", {}, {tensor("x", type, x)}),
                        ContainsSubstring(fmt::format("no type {}", type.name)));
      continue;
    }
    ++written;
    write_gguf(folder / "file", {}, {tensor("x", type, x), tensor("y", type, x)});
    const GgufFile file(folder / "file");
    CHECK(file.at("y").type == &type);
    const auto values = x.values<float>();
    std::vector<std::byte> bytes(stored_bytes(type, x.shape()).value()), read(bytes.size());
    type.from_f32(values.data(), x.numel(), bytes.data());
    const StoredTensor stored = file.stored("y");
    REQUIRE(stored.bytes() == bytes.size());
    REQUIRE(stored.read(0, read.data(), read.size()));
    CHECK(read == bytes);
    std::vector<float> wide(values.size());
    type.to_f32(bytes.data(), x.numel(), wide.data());
    CHECK(same_bits(file.read("y"), Tensor::from(wide, x.shape())));
    CHECK(same_bits(file.read("x"), file.read("y")));
  }
  CHECK(written >= 4);
}

TEST_CASE("types that are only read come from GGUF", "[gguf]") {
  const TempFolder folder;
  Rng rng(6);
  int read = 0;
  for (const StoredType& type : stored_types()) {
    if (!type.ggml || type.block == 1 || type.from_f32 != nullptr) continue;
    INFO(type.name);
    ++read;
    const std::vector<std::byte> blocks = some_blocks(type, 768, rng);
    Bytes b;
    b.begin(1, 0).name("t").u32(2).u64(256).u64(3).u32(*type.ggml).u64(0).data(0);
    b.text.append(reinterpret_cast<const char*>(blocks.data()), blocks.size());
    const GgufFile file(folder.put("file", b.text));
    CHECK(file.at("t").type == &type);
    std::vector<float> wide(768);
    type.to_f32(blocks.data(), 768, wide.data());
    CHECK(same_bits(file.read("t"), Tensor::from(wide, {3, 256})));
    CHECK_THROWS_AS(write_gguf(folder / "out", {}, {tensor("t", type, Tensor::ones({256}))}),
                    Error);
  }
  CHECK(read == 5);
}

TEST_CASE("Q8_0 rounds as llama.cpp does", "[gguf]") {
  // The largest is 127: the scale is 1, and halves go away from zero.
  std::vector<float> values(64, 0.0F);
  values[0] = 127, values[1] = 0.5F, values[2] = -0.5F, values[3] = 2.5F, values[4] = -2.49F;
  values[40] = 1e-30F;  // the second block's scale is 0 in f16
  const TempFolder folder;
  write_gguf(folder / "file", {},
             {tensor("x", stored_type("q8_0"), Tensor::from(values, {2, 32}))});
  const std::string bytes = TempFolder::get(folder / "file");
  const std::string data = bytes.substr(bytes.size() - 96);  // 68, and padding
  CHECK(data.substr(0, 8) == std::string("\x00\x3c\x7f\x01\xff\x03\xfe\x00", 8));
  CHECK(data.substr(34, 2) == std::string(2, '\0'));
  const Tensor back = GgufFile(folder / "file").read("x");
  CHECK(back.at(3) == 3);
  CHECK(back.at(40) == 0);
}

TEST_CASE("weights that a type cannot hold, and rows without whole blocks, are refused", "[gguf]") {
  const TempFolder folder;
  const auto write = [&](const StoredType& type, float value, std::int64_t n) {
    write_gguf(folder / "file", {},
               {tensor("x", type, Tensor::full({n}, static_cast<double>(value)))});
  };
  for (const auto& [type, value] : {std::pair("f16", 65520.0F), std::pair("bf16", 3.4e38F),
                                    std::pair("q8_0", 1e7F), std::pair("q8_0", std::nanf(""))}) {
    CHECK_THROWS_WITH(write(stored_type(type), value, 32),
                      ContainsSubstring("'x' has the value") &&
                          ContainsSubstring(fmt::format("which {} cannot hold", type)));
  }
  CHECK_THROWS_WITH(write(stored_type("q8_0"), 1, 33), ContainsSubstring("whole blocks of 32"));
  const auto twice = tensor("x", stored_type("f32"), Tensor::ones({1}));
  CHECK_THROWS_WITH(write_gguf(folder / "file", {}, {twice, twice}), ContainsSubstring("twice"));
  CHECK_THROWS_WITH(write_gguf(folder / "file", {{"k", std::int64_t{-1}}}, {}),
                    ContainsSubstring("the key 'k' cannot be -1"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("a GGUF file that could not be read is not written", "[gguf]") {
  const TempFolder folder;
  const auto write = [&](const GgufKeys& keys) { write_gguf(folder / "file", keys, {}); };
  GgufKeys many;
  for (std::uint64_t i = 0; i < GgufFile::kMaxNames; ++i) many.emplace(std::to_string(i), true);
  write(many);
  CHECK(GgufFile(folder / "file").keys().size() == many.size());
  many.emplace("one more", true);
  CHECK_THROWS_WITH(write(many), ContainsSubstring("100001 keys are more than the 100000"));
  CHECK_THROWS_WITH(write({{"k", std::string(GgufFile::kMaxHeaderBytes, 'x')}}),
                    ContainsSubstring("bytes of keys and names are more than"));
  CHECK_THROWS_WITH(write({{"k", std::vector<std::int64_t>(GgufFile::kMaxArray + 1)}}),
                    ContainsSubstring("4000001 elements of k are more than"));
}

TEST_CASE("types of values that other programs write are read", "[gguf]") {
  const TempFolder folder;
  Bytes b;
  b.begin(0, 9, 2);
  b.name("u8").u32(0).put<std::uint8_t>(200);
  b.name("i8").u32(1).put<std::int8_t>(-3);
  b.name("u16").u32(2).put<std::uint16_t>(60000);
  b.name("i16").u32(3).put<std::int16_t>(-3);
  b.name("i32").u32(5).put<std::int32_t>(-3);
  b.name("u64").u32(10).put<std::uint64_t>(UINT64_MAX);
  b.name("i64").u32(11).put<std::int64_t>(INT64_MIN);
  b.name("f64").u32(12).put<double>(0.1);
  b.name("flags").u32(9).u32(7).u64(2).put<std::uint8_t>(1).put<std::uint8_t>(0);
  const GgufFile file(folder.put("file", b.text));
  CHECK(file.keys() == GgufKeys{{"u8", std::int64_t{200}},
                                {"i8", std::int64_t{-3}},
                                {"u16", std::int64_t{60000}},
                                {"i16", std::int64_t{-3}},
                                {"i32", std::int64_t{-3}},
                                {"u64", 0x1p64},
                                {"i64", std::int64_t{INT64_MIN}},
                                {"f64", 0.1},
                                {"flags", std::vector<std::int64_t>{1, 0}}});
}

TEST_CASE("alignment, and padding that is missing at the end, are as the file says", "[gguf]") {
  const TempFolder folder;
  Bytes b;
  b.begin(2, 1).name("general.alignment").u32(4).u32(64);
  b.row("a", 1, 0, 0).row("b", 1, 0, 64).data(68, 64);
  CHECK(complaint(folder, b) == "");
  b.text.pop_back();
  CHECK_THAT(complaint(folder, b), ContainsSubstring("truncated?"));
  b.text.append(61, '\0');
  CHECK(complaint(folder, b) == "");
  b.text.pop_back();
  CHECK_THAT(complaint(folder, b),
             ContainsSubstring("within the padding behind tensor 'b': trunc"));
  Bytes odd;
  odd.begin(1, 1).name("general.alignment").u32(4).u32(48).row("a", 1, 0, 0).data(64);
  CHECK_THAT(complaint(folder, odd), ContainsSubstring("general.alignment is not a power of two"));
  Bytes unaligned;
  unaligned.begin(1, 0).row("a", 1, 0, 4).data(64);
  CHECK_THAT(complaint(folder, unaligned), ContainsSubstring("not aligned to 32"));
}

TEST_CASE("a tensor whose type or shape was made smaller is seen by the gap behind it", "[gguf]") {
  const TempFolder folder;
  const auto file = [](std::uint64_t first, std::uint64_t second, std::uint64_t last) {
    Bytes b;
    b.begin(2, 0).row("a", first, 0, 0).row("b", second, 0, 512).data(last);
    return b;
  };
  CHECK(complaint(folder, file(128, 64, 768)) == "");
  CHECK(complaint(folder, file(121, 57, 768)) == "");  // a gap of padding alone
  CHECK_THAT(complaint(folder, file(120, 64, 768)),
             ContainsSubstring("32 bytes between the tensors 'a' and 'b' belong to neither"));
  CHECK_THAT(complaint(folder, file(128, 56, 768)),
             ContainsSubstring("32 bytes behind the last tensor, 'b'"));
  Bytes late;
  late.begin(1, 0).row("a", 8, 0, 32).data(64);
  CHECK_THAT(complaint(folder, late), ContainsSubstring("32 bytes before the first tensor, 'a'"));
  // Half of the bytes, as f16 (1) in place of f32.
  Bytes half;
  half.begin(2, 0).row("a", 128, 1, 0).row("b", 64, 0, 512).data(768);
  CHECK_THAT(complaint(folder, half), ContainsSubstring("256 bytes between"));
}

TEST_CASE("a broken GGUF file is refused, and nothing large is allocated", "[gguf]") {
  constexpr std::uint64_t huge = std::uint64_t{1} << 60;
  const TempFolder folder;
  const auto file = [](auto fill) {
    Bytes b;
    fill(b);
    return b;
  };
  const std::pair<Bytes, std::string> cases[] = {
      {file([](Bytes& b) { b.text = "GG"; }), "ends within its first bytes"},
      {file([](Bytes& b) { b.text = "GGML0000000000000000"; }), "does not begin with GGUF"},
      {file([](Bytes& b) { b.begin(0, 0, 1); }), "of version 1"},
      {file([](Bytes& b) { b.begin(0, 0, 0x03000000); }), "big-endian"},
      {file([](Bytes& b) { b.text = "GGUF", b.u32(3).u64(0); }), "ends within keys"},
      {file([](Bytes& b) { b.begin(huge, 0).data(100); }), "tensors, but"},
      {file([](Bytes& b) { b.begin(0, huge).data(100); }), "keys, but"},
      {file([](Bytes& b) { b.begin(0, 1).u64(huge).data(100); }), "bytes of a key's name, but"},
      {file([](Bytes& b) { b.begin(0, 1).name("k").u32(8).u64(huge).data(9); }), "k, but"},
      {file([](Bytes& b) { b.begin(0, 1).name("k").u32(9).u32(8).u64(huge).data(9); }),
       "elements of k, but"},
      {file([](Bytes& b) { b.begin(0, 1).name("k").u32(9).u32(9).u64(1).data(99); }),
       "list of lists"},
      {file([](Bytes& b) { b.begin(0, 1).name("k").u32(9).u32(77).u64(1).data(99); }),
       "list of the unknown type 77"},
      {file([](Bytes& b) { b.begin(0, 1).name("k").u32(13).data(99); }), "unknown type 13"},
      {file([](Bytes& b) { b.begin(0, 2).name("k").u32(4).u32(1).name("k").u32(4).u32(1); }),
       "the key 'k' is there twice"},
      {file([](Bytes& b) { b.begin(1, 0).name("t").u32(5).data(200); }), "has 5 dimensions"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", huge, 0, 0).data(100); }),
       "more elements than the file has bits"},
      {file([](Bytes& b) {
         b.begin(1, 0).name("t").u32(2).u64(1u << 31).u64(huge).u32(0).u64(0).data(100);
       }),
       "more elements than the file has bits"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 0, 0, 0).data(100); }), "or none"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 64, 0, 0).data(255); }), "there are 255"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 1, 0, huge).data(100); }), "from byte"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 32, 16, 0).data(100); }),
       "the type IQ2_XXS (16)"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 256, 34, 0).data(100); }), "the type TQ1_0 (34)"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 64, 42, 0).data(100); }), "the type Q2_0 (42)"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 128, 12, 0).data(100); }),
       "tensor 't' of type q4_k has rows that are not of whole blocks of 256"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 32, 4000, 0).data(100); }), "number 4000"},
      {file([](Bytes& b) { b.begin(1, 0).row("t", 33, 8, 0).data(100); }), "whole blocks of 32"},
      {file([](Bytes& b) { b.begin(1, 0).name("t").u32(0).u32(8).u64(0).data(100); }),
       "whole blocks of 32"},
      {file([](Bytes& b) { b.begin(2, 0).row("t", 1, 0, 0).row("t", 1, 0, 32).data(100); }),
       "the tensor 't' is there twice"},
      {file([](Bytes& b) { b.begin(2, 0).row("t", 9, 0, 0).row("u", 1, 0, 32).data(100); }),
       "'t' and 'u' overlap"},
  };
  const std::size_t before = memory_stats().live;
  reset_peak_memory();
  for (const auto& [bytes, expected] : cases) {
    CHECK_THAT(complaint(folder, bytes), ContainsSubstring(expected));
  }
  CHECK(memory_stats().peak - before < 1 << 20);
  CHECK_THROWS_WITH(GgufFile(folder / "none"), ContainsSubstring("none"));
  CHECK_THROWS_WITH(GgufFile(folder.path()), ContainsSubstring("folder"));
}

TEST_CASE("only a file is taken for GGUF that begins as one", "[gguf]") {
  const TempFolder folder;
  CHECK(begins_as_gguf(folder.put("a", "GGUF")));
  CHECK_FALSE(begins_as_gguf(folder.put("b", "GGU")));
  CHECK_FALSE(begins_as_gguf(folder.put("c", "{}")));
  CHECK_FALSE(begins_as_gguf(folder.path()));
  CHECK_FALSE(begins_as_gguf(folder / "none"));
}
