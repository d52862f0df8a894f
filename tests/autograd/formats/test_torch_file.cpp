#include <cstring>

#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/autograd/formats/torch_file.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A tensor of any storage, offset, shape and strides.
struct Described {
  std::string type = "FloatStorage";
  std::int64_t elements = 6, offset = 0;
  std::vector<std::int64_t> shape = {2, 3}, strides = {3, 1};
};

// The instructions that a writer was given.
template <class Write>
std::string instructions(const Write& write) {
  PickleWriter w;
  write(w);
  const std::string bytes = w.take();
  return bytes.substr(2, bytes.size() - 3);
}

std::string integer(std::int64_t value) {
  return instructions([&](PickleWriter& w) { w.integer(value); });
}
std::string text(std::string_view value) {
  return instructions([&](PickleWriter& w) { w.text(value); });
}
std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string all = "(";
  for (const std::int64_t n : numbers) all += integer(n);
  return all + "t";
}

std::string pickle_of(const Described& d) {
  return "\x80\x02}" + text("x") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
         "ctorch\n" + d.type + "\n" + text("0") + text("cuda:0") + integer(d.elements) + "tQ" +
         integer(d.offset) + tuple(d.shape) + tuple(d.strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtRs.";
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

const std::string kSix = floats({1, 2, 3, 4, 5, 6});

std::filesystem::path put_file(const TempFolder& folder, const std::string& pickle,
                               const std::string& storage = kSix,
                               const std::string& order = "little") {
  const auto path = folder / "file.pt";
  const ZipFile files[] = {{"any/data.pkl", pickle},
                           {"any/byteorder", order},
                           {"any/data/0", storage},
                           {"any/version", "3\n"}};
  write_stored_zip(path, files);
  return path;
}

Tensor read_x(const std::filesystem::path& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  return tensors_of(file, file->root())->read("x");
}

std::string complaint(const std::filesystem::path& path) {
  try {
    read_x(path);
    return "";
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring(path.string()));
    return error.what();
  }
}

}  // namespace

TEST_CASE("tensors lie in their storage with an offset and strides", "[torch_file]") {
  const TempFolder folder;
  const auto read = [&](const Described& d) { return read_x(put_file(folder, pickle_of(d))); };
  CHECK(same_bits(read({}), Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})));
  CHECK(same_bits(read({.shape = {3, 2}, .strides = {1, 3}}),
                  Tensor::from<float>({1, 4, 2, 5, 3, 6}, {3, 2})));
  CHECK(same_bits(read({.offset = 1, .shape = {2}, .strides = {4}}),
                  Tensor::from<float>({2, 6}, {2})));
  CHECK(same_bits(read({.offset = 5, .shape = {}, .strides = {}}), Tensor::scalar(6)));
  CHECK(same_bits(read({.shape = {1, 2, 1}, .strides = {99, 1, 77}}),
                  Tensor::from<float>({1, 2}, {1, 2, 1})));
  CHECK(read({.shape = {0, 3}, .strides = {3, 1}}).shape() == Shape{0, 3});
}

TEST_CASE("each type of a storage is read", "[torch_file]") {
  const TempFolder folder;
  const auto read = [&](const std::string& type, const std::string& bytes) {
    const Described d{.type = type, .elements = 2, .shape = {2}, .strides = {1}};
    return read_x(put_file(folder, pickle_of(d), bytes));
  };
  const Tensor expected = Tensor::from<float>({1, -2}, {2});
  CHECK(same_bits(read("HalfStorage", std::string("\0\x3c\0\xc0", 4)), expected));
  CHECK(same_bits(read("BFloat16Storage", std::string("\x80\x3f\0\xc0", 4)), expected));
  const double doubles[] = {1, -2};
  CHECK(same_bits(read("DoubleStorage", {reinterpret_cast<const char*>(doubles), 16}),
                  expected.to(DType::f64)));
  std::int64_t longs[] = {1, -2};
  const auto read_longs = [&] {
    return read("LongStorage", {reinterpret_cast<const char*>(longs), 16});
  };
  CHECK(same_bits(read_longs(), Tensor::from<std::int64_t>({1, -2}, {2})));
  longs[1] = std::int64_t{1} << 31;
  CHECK(read_longs().dtype() == DType::i64);
}

TEST_CASE("tensors outside of their storage are refused before anything is allocated",
          "[torch_file]") {
  const TempFolder folder;
  const std::int64_t most = INT64_MAX;
  const Described broken[] = {
      {.offset = 1},
      {.offset = -1},
      {.offset = most},
      {.offset = 6, .shape = {}, .strides = {}},
      {.shape = {2, 4}, .strides = {3, 1}},
      {.shape = {2, 3}, .strides = {-3, 1}},
      {.shape = {2, 3}, .strides = {most, most}},
      {.shape = {-1}, .strides = {1}},
      {.shape = {1'000'000'000}, .strides = {0}},
      {.shape = {most, most}, .strides = {0, 0}},
      {.shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .strides = {1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {.elements = 7},
      {.elements = most, .shape = {most}, .strides = {1}},
      {.type = "DoubleStorage"},
  };
  for (const Described& d : broken) {
    INFO(d.type << d.elements << " " << d.offset);
    CHECK(complaint(put_file(folder, pickle_of(d))) != "");
  }
}

TEST_CASE("archives of another kind are refused with the reason", "[torch_file]") {
  const TempFolder folder;
  const std::string pickle = pickle_of({});
  CHECK_THAT(complaint(put_file(folder, pickle, kSix, "big")), ContainsSubstring("little-endian"));
  CHECK_THAT(complaint(put_file(folder, "\x80\x02]q")), ContainsSubstring("file.pt"));
  CHECK_THAT(complaint(folder.put("text", "no zip")), ContainsSubstring("no end of a zip"));
  CHECK_THAT(complaint(folder.put("old", "\x80\x02\x8a\x0a")),
             ContainsSubstring("a PyTorch before 1.6, which is not read"));
  const ZipFile other[] = {{"readme", "text"}};
  write_stored_zip(folder / "other", other);
  CHECK_THAT(complaint(folder / "other"), ContainsSubstring("no data.pkl"));
  const ZipFile twice[] = {{"a/data.pkl", pickle}, {"a/data.pkl", pickle}};
  write_stored_zip(folder / "twice", twice);
  CHECK_THAT(complaint(folder / "twice"), ContainsSubstring("there twice"));
  const ZipFile no_storage[] = {{"a/data.pkl", pickle}};
  write_stored_zip(folder / "none", no_storage);
  CHECK_THAT(complaint(folder / "none"), ContainsSubstring("no 'a/data/0'"));
}

TEST_CASE("an archive that is cut off or changed anywhere never does harm", "[torch_file]") {
  const TempFolder folder(memory_folder());
  const std::string whole = TempFolder::get(put_file(folder, pickle_of({})));
  for (std::size_t size = 0; size < whole.size(); size += 3) {
    CHECK(complaint(folder.put("cut", whole.substr(0, size))) != "");
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char value : {'\0', '\xff', '\x01'}) {
      std::string changed = whole;
      changed[i] = value;
      complaint(folder.put("changed", changed));  // an Error, or a tensor
    }
  }
}

TEST_CASE("sizes and places of ZIP64 are read", "[torch_file]") {
  const TempFolder folder;
  const std::string plain = TempFolder::get(put_file(folder, pickle_of({})));
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, plain.data() + at, bytes);
    return value;
  };
  const auto little = [](std::uint64_t value, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  // The same archive, whose list and end have all values in the fields of ZIP64.
  const std::size_t end = plain.size() - 22, begin = number(end + 16, 4);
  std::string text = plain.substr(0, begin);
  for (std::size_t at = begin; at < end;) {
    const std::size_t name = number(at + 28, 2);
    std::string entry = plain.substr(at, 46 + name);
    const std::string extra = little(1, 2) + little(24, 2) + little(number(at + 24, 4), 8) +
                              little(number(at + 20, 4), 8) + little(number(at + 42, 4), 8);
    entry.replace(20, 8, 8, '\xff').replace(42, 4, 4, '\xff').replace(30, 2, little(28, 2));
    text += entry + extra;
    at += 46 + name + number(at + 30, 2);
  }
  const std::uint64_t end64 = text.size(), files = number(end + 10, 2);
  text += little(0x06064b50, 4) + little(44, 8) + little(0, 12 - 4) + little(0, 4) +
          little(files, 8) + little(files, 8) + little(end64 - begin, 8) + little(begin, 8);
  text += little(0x07064b50, 4) + little(0, 4) + little(end64, 8) + little(1, 4);
  std::string last = plain.substr(end);
  last.replace(8, 4, 4, '\xff').replace(12, 8, 8, '\xff');
  const auto path = folder.put("file64.pt", text + last);
  CHECK(same_bits(read_x(path), Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})));
  // Without the record, all values are wrong.
  text.replace(end64, 4, 4, '\0');
  CHECK_THAT(complaint(folder.put("file64.pt", text + last)), ContainsSubstring("ZIP64 record"));
}

TEST_CASE("masks may stand in a file beside weights", "[torch_file]") {
  const TempFolder folder;
  for (const std::string type : {"BoolStorage", "ByteStorage"}) {
    const auto file =
        std::make_shared<const TorchFile>(put_file(folder, pickle_of({.type = type}), "123456"));
    CHECK(tensors_of(file, file->root())->at("x").shape == Shape{2, 3});
  }
}
