#include "tapegrad/arrays/npy.h"
#include "tapegrad/autograd/formats/stored_zip.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using arrays::load_npy;
using arrays::load_npz;

namespace {

std::filesystem::path numpy_file(const std::string& name) { return golden_file("arrays/" + name); }

const std::vector<double> kNumbers{1, -2.5, 3e30, 0, 0.1, -7};

// A file of that dict and these bytes behind it.
std::string npy_of(const std::string& dict, const std::string& bytes = "") {
  const auto size = static_cast<std::uint16_t>(dict.size());
  return "\x93NUMPY\x01" + std::string(1, '\0') + static_cast<char>(size & 0xff) +
         static_cast<char>(size >> 8) + dict + bytes;
}

std::string dict_of(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

}  // namespace

TEST_CASE("arrays that numpy saved are read", "[npy]") {
  const auto read = [](const std::string& name, DType dtype, const Shape& shape) {
    const Tensor t = load_npy(numpy_file(name + ".npy"));
    CHECK(t.dtype() == dtype);
    CHECK(t.shape() == shape);
    return list(t);
  };
  CHECK(read("f8", DType::f64, {2, 3}) == kNumbers);
  CHECK(read("f4", DType::f32, {2, 3}) == list(Tensor::from(kNumbers, {6}).to(DType::f32)));
  CHECK(read("i4", DType::i32, {3}) == std::vector<double>{1, -2, 2147483647});
  CHECK(read("i8", DType::i64, {2, 1}) == std::vector<double>{5, -2147483648.0});
  CHECK(read("u1", DType::u8, {1, 2, 3}) == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(read("bool", DType::boolean, {2}) == std::vector<double>{1, 0});
  CHECK(read("wide", DType::i64, {2}) == std::vector<double>{1, 2147483648.0});
  CHECK(read("scalar", DType::f32, {}) == std::vector<double>{2.5});
  CHECK(read("empty", DType::f32, {0, 3}).empty());
}

TEST_CASE("arrays that cannot be read are refused by what they are", "[npy]") {
  const auto refused = [](const std::string& name, const std::string& text) {
    const auto path = numpy_file(name + ".npy");
    CHECK_THROWS_WITH(load_npy(path), ContainsSubstring(path.string()) && ContainsSubstring(text));
  };
  refused("big", "its type is '>f4', in big-endian order; save array.astype('<f4')");
  refused("fortran", "in Fortran's order, column by column; save numpy.ascontiguousarray(array)");
  refused("fields", "its elements have fields");
  refused("half", "its type is '<f2'; read are f4, f8, i4, i8, u1 and bool");
}

TEST_CASE("broken .npy files are errors that name path and place", "[npy]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& bytes, const std::string& text) {
    const auto path = folder.put("x.npy", bytes);
    CHECK_THROWS_WITH(load_npy(path), ContainsSubstring("x.npy: ") && ContainsSubstring(text));
  };
  const std::string whole = TempFolder::get(numpy_file("f4.npy"));
  for (const std::size_t size : {0UL, 7UL, 9UL, 20UL, 127UL, 128UL, 151UL}) {
    INFO(size);
    refused(whole.substr(0, size), "");
  }
  refused(whole.substr(0, 151), "its header says (2, 3), which is more than the file can hold");
  refused(whole + "x", "there are bytes behind the array, from byte 152 on");
  refused("PK whatever", "it does not begin as an .npy file does");
  refused("\x93NUMPY\x04" + whole.substr(7), "its format is version 4; versions 1 to 3 are read");
  refused(npy_of(dict_of("<f4", "(1)")), "more than the file can hold");
  refused(npy_of(dict_of("<f4", "(9223372036854775807, 9223372036854775807)")), "can hold");
  refused(npy_of(dict_of("<f4", "(0, 9223372036854775807)")), "can hold");
  refused(npy_of(dict_of("<f4", "(9223372036854775808,)")), "where a size should be");
  refused(npy_of(dict_of("<f4", "(-1,)")), "where a size should be");
  refused(npy_of(dict_of("<f4", "(1,1,1,1,1,1,1,1,1)")), "more than 8 dimensions");
  refused(npy_of("{'descr': '<f4', 'fortran_order': False}"), "lacks one of");
  refused(npy_of("{'descr': '<f4', 'fortran_order': maybe}"), "where True or False should be");
  refused(npy_of("{'descr': '<f4', 'colour': 'red'}"), "where a key of numpy's should be");
  refused(npy_of(dict_of("<f4", "()") + "x", "1234"), "where the end should be, there is 'x");
  refused(npy_of("{'descr: 4"), "where the end of a text should be");
  refused(npy_of(dict_of("\x01\xff", "()")), "its type is '?");
}

TEST_CASE("saved arrays are numpy's files, byte for byte", "[npy]") {
  const TempFolder folder;
  for (const char* name : {"f4", "f8", "i4", "i8", "bool", "u1", "scalar", "empty"}) {
    INFO(name);
    const auto path = numpy_file(std::string(name) + ".npy");
    arrays::save_npy(folder / "x.npy", load_npy(path));
    CHECK(TempFolder::get(folder / "x.npy") == TempFolder::get(path));
  }
  CHECK_THROWS_AS(arrays::save_npy(folder / "none.npy", Tensor()), Error);
  CHECK_FALSE(std::filesystem::exists(folder / "none.npy"));
}

TEST_CASE("archives of numpy are read, stored and deflated", "[npy]") {
  const auto name = GENERATE("stored.npz", "deflated.npz");
  const auto found = load_npz(numpy_file(name));
  CHECK(found.size() == 3);
  CHECK(same_bits(found.at("x"), load_npy(numpy_file("f4.npy"))));
  CHECK(list(found.at("labels")) == std::vector<double>{3, 1});
  CHECK(found.at("zeros").shape() == Shape{100, 100});
  CHECK(list(found.at("zeros")) == std::vector<double>(10'000, 0));
}

TEST_CASE("saved archives are read again, and two tensors of a name are refused", "[npy]") {
  const TempFolder folder;
  const auto path = folder / "x.npz";
  const Tensor a = Tensor::from<float>({1, 2}, {2}), b = Tensor::from<std::int32_t>({7}, {1, 1});
  arrays::save_npz(path, {{"b", b}, {"a", a}});
  const auto found = load_npz(path);
  CHECK(found.size() == 2);
  CHECK(same_bits(found.at("a"), a));
  CHECK(same_bits(found.at("b"), b));
  CHECK_THROWS_WITH(arrays::save_npz(path, {{"a", a}, {"a", b}}),
                    ContainsSubstring("two tensors have the name 'a'"));
}

TEST_CASE("broken archives are errors that name path and file", "[npy]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& bytes, const std::string& text) {
    const auto path = folder.put("x.npz", bytes);
    CHECK_THROWS_WITH(load_npz(path), ContainsSubstring("x.npz: ") && ContainsSubstring(text));
  };
  std::string stored = TempFolder::get(numpy_file("stored.npz"));
  std::string deflated = TempFolder::get(numpy_file("deflated.npz"));
  refused(stored.substr(0, 1000), "it has no end of a zip archive");
  ++stored[stored.find("\n") + 2];  // a byte of the first array
  refused(stored, "'x.npy': it is broken: its bytes do not have the archive's checksum");
  deflated[60] = '\xff';
  refused(deflated, "'x.npy'");
  const ZipFile others[] = {{"notes.txt", "hello"}};
  write_stored_zip(folder / "x.npz", others);
  CHECK_THROWS_WITH(load_npz(folder / "x.npz"),
                    ContainsSubstring("'notes.txt' in it is not an .npy file"));
}
