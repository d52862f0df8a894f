#include <zlib.h>

#include "tapegrad/arrays/idx.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using arrays::load_idx;

namespace {

std::string bytes_of_codes(std::initializer_list<int> codes) {
  std::string text;
  for (const int code : codes) text += static_cast<char>(code);
  return text;
}

std::string zipped(const std::string& bytes) {
  const TempFolder folder;
  const std::string path = (folder / "x.gz").string();
  const gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(file);
  return TempFolder::get(path);
}

// Two images of one row and three columns, as MNIST's are.
const std::string kImages = bytes_of_codes({0, 0,   8,   3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3,  //
                                            0, 127, 255, 1, 2, 3});

}  // namespace

TEST_CASE("IDX files are read, plain and packed by gzip", "[idx]") {
  const TempFolder folder;
  for (const std::string& bytes : {kImages, zipped(kImages)}) {
    const Tensor images = load_idx(folder.put("images", bytes));
    CHECK(images.dtype() == DType::u8);
    CHECK(images.shape() == Shape{2, 1, 3});
    CHECK(list(images) == std::vector<double>{0, 127, 255, 1, 2, 3});
  }
}

TEST_CASE("IDX numbers of more bytes are in big-endian order", "[idx]") {
  const TempFolder folder;
  const auto read = [&](std::initializer_list<int> codes) {
    return load_idx(folder.put("numbers", bytes_of_codes(codes)));
  };
  CHECK(list(read({0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe})) ==
        std::vector<double>{258, -2});
  CHECK(list(read({0, 0, 0x0D, 1, 0, 0, 0, 1, 0xc0, 0x20, 0, 0})) == std::vector<double>{-2.5});
  CHECK(list(read({0, 0, 0x0E, 0, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0})) == std::vector<double>{1.5});
}

TEST_CASE("broken IDX files are errors that name the path", "[idx]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& bytes, const std::string& text) {
    CHECK_THROWS_WITH(load_idx(folder.put("x-ubyte", bytes)),
                      ContainsSubstring("x-ubyte") && ContainsSubstring(text));
  };
  for (std::size_t size = 0; size < kImages.size(); ++size) {
    refused(kImages.substr(0, size), size < 16 ? "it ends after" : "more than the file can hold");
  }
  refused(kImages + "x", "there are bytes behind the array, from byte 22 on");
  refused("GIF89a", "it does not begin as an IDX file does");
  refused(bytes_of_codes({0, 0, 9, 1, 0, 0, 0, 0}), "its type is 0x09; read are 0x08, 0x0C");
  refused(bytes_of_codes({0, 0, 8, 9}), "its array has 9 dimensions; 8 are the most");
  std::string many = bytes_of_codes({0, 0, 8, 8});
  many.append(32, '\xff');
  refused(many, "more than the file can hold");
  const std::string gzip = zipped(kImages);
  refused(gzip.substr(0, gzip.size() - 4), "cannot be unpacked: it is cut short");
  refused(zipped(many), "more than the file can hold");
}
