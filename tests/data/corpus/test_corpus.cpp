#include <sys/stat.h>

#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

Corpus read_one(const std::filesystem::path& path) { return read_corpus(std::vector{path}); }

}  // namespace

TEST_CASE("a single file is taken verbatim", "[corpus]") {
  const TempFolder folder;
  const auto file = folder.put("text", " caf\u00e9\r\n\uFEFFno newline at the end");
  const Corpus corpus = read_one(file);
  CHECK(corpus.text == TempFolder::get(file));
  CHECK(corpus.files == std::vector{file});
  CHECK(corpus.bytes == static_cast<int64_t>(corpus.text.size()));
  CHECK(corpus.skipped_files == 0);
}

TEST_CASE("a byte order mark is no part of a text", "[corpus]") {
  const TempFolder folder;
  const auto a = folder.put("a", "\uFEFFaa"), b = folder.put("b", "\uFEFFbb\n");
  CHECK(read_one(a).text == "aa");
  CHECK(read_corpus(std::vector{a, b}).text == "aa\n\nbb\n");
  CHECK(read_one(folder.path()).text == "aa\n\nbb\n");
  CHECK(read_one(folder.path()).bytes == 5);
  CHECK_THROWS_WITH(read_one(folder.put("mark", "\uFEFF")), ContainsSubstring("mark' is empty"));
}

TEST_CASE("several files are separated by an empty line, in the order given", "[corpus]") {
  const TempFolder folder;
  const auto b = folder.put("b", "bb\n");
  const auto a = folder.put("a", "aa");
  const auto c = folder.put("c", "cc");
  const Corpus corpus = read_corpus(std::vector{b, a, c});
  CHECK(corpus.text == "bb\n\naa\n\ncc");
  CHECK(corpus.files == std::vector{b, a, c});
  CHECK(corpus.bytes == 7);
}

TEST_CASE("a folder is read recursively in sorted order, without what is not text", "[corpus]") {
  const TempFolder folder;
  folder.put("z.txt", "z");
  folder.put("sub/b.txt", "b");
  folder.put("sub/a.txt", "a");
  folder.put(".hidden", "secret");
  folder.put(".git/config", "secret");
  folder.put("image", std::string_view("\x89PNG\0", 5));
  folder.put("latin1", "caf\xE9");
  folder.put("empty", "");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const Corpus corpus = read_one(folder.path());
  CHECK(corpus.text == "a\n\nb\n\nz");
  CHECK(corpus.files == std::vector{folder / "sub/a.txt", folder / "sub/b.txt", folder / "z.txt"});
  CHECK(corpus.skipped_files == 6);
}

TEST_CASE("links inside a folder lead to files, but not round in circles", "[corpus]") {
  const TempFolder folder;
  folder.put("a", "a");
  std::filesystem::create_symlink(folder / "a", folder / "b");
  std::filesystem::create_directory_symlink(folder.path(), folder / "loop");
  std::filesystem::create_symlink(folder / "none", folder / "dangling");
  std::filesystem::create_symlink(folder / "self", folder / "self");
  const Corpus corpus = read_one(folder.path());
  CHECK(corpus.text == "a\n\na");
  CHECK(corpus.skipped_files == 3);
}

TEST_CASE("a file that is named must be text", "[corpus]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(read_one(folder / "none"), ContainsSubstring("none': No such file"));
  CHECK_THROWS_WITH(read_one(folder.put("empty", "")), ContainsSubstring("empty' is empty"));
  CHECK_THROWS_WITH(read_one(folder.put("binary", std::string_view("ab\0c", 4))),
                    ContainsSubstring("binary' is binary, not text: byte 2 is NUL, in line 1"));
  CHECK_THROWS_WITH(read_one(folder.put("latin1", "caf\xE9!")),
                    ContainsSubstring("latin1' is not UTF-8 text: byte 3 is 0xe9, in line 1"));
  CHECK_THROWS_WITH(read_one(folder.put("third", "a\n\ncaf\xE9\n")),
                    ContainsSubstring("byte 6 is 0xe9, in line 3"));
  CHECK_THROWS_WITH(read_one(folder.put("nul", std::string_view("a\n\0\n", 4))),
                    ContainsSubstring("byte 2 is NUL, in line 2"));
  CHECK_THROWS_WITH(read_one(folder.put("cut", "caf\xC3")), ContainsSubstring("byte 3 is 0xc3"));
  CHECK_THROWS_WITH(read_one(folder.put(".latin1", "\xE9")), ContainsSubstring("not UTF-8"));
}

TEST_CASE("devices and pipes are refused without waiting", "[corpus]") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_one(folder / "pipe"), ContainsSubstring("it is a pipe"));
  CHECK_THROWS_WITH(read_one("/dev/zero"), ContainsSubstring("it is a device"));
}

TEST_CASE("a corpus without any text is an Error", "[corpus]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(read_corpus({}), ContainsSubstring("no file or folder"));
  folder.put("bin", std::string_view("\0", 1));
  CHECK_THROWS_WITH(read_one(folder.path()),
                    ContainsSubstring("has no file of UTF-8 text (1 skipped"));
}

TEST_CASE("the limit holds for all files together", "[corpus]") {
  const TempFolder folder;
  folder.put("a", "1234");
  folder.put("b", "5678");
  CHECK(read_corpus(std::vector{folder.path()}, {.max_bytes = 8}).bytes == 8);
  CHECK_THROWS_WITH(read_corpus(std::vector{folder.path()}, {.max_bytes = 7}),
                    ContainsSubstring("b' has 4 bytes, but the whole corpus may have 7 and has 4 "
                                      "already: tapegrad prepare makes tokens"));
}

TEST_CASE("split_text cuts after int(fraction x characters), never inside one", "[corpus]") {
  const TextSplit ascii = split_text("0123456789abcdefghi", 0.9);  // 0.9 x 19 = 17.1
  CHECK(ascii.train == "0123456789abcdefg");
  CHECK(ascii.val == "hi");
  const TextSplit wide = split_text("\u00e4\u4e2d\U0001F44Db", 0.5);
  CHECK(wide.train == "\u00e4\u4e2d");
  CHECK(wide.val == "\U0001F44Db");
}

TEST_CASE("split_text has 1,003,854 and 111,540 characters for 1,115,394", "[corpus]") {
  const std::string text(1'115'394, 'x');
  const TextSplit split = split_text(text, 0.9);
  CHECK(split.train.size() == 1'003'854);
  CHECK(split.val.size() == 111'540);
}

TEST_CASE("split_text takes the whole range of fractions and no other", "[corpus]") {
  CHECK(split_text("ab", 0).val == "ab");
  CHECK(split_text("ab", 1).train == "ab");
  CHECK(split_text("", 0.9).train.empty());
  CHECK_THROWS_AS(split_text("ab", -0.1), Error);
  CHECK_THROWS_AS(split_text("ab", 1.1), Error);
  CHECK_THROWS_AS(split_text("ab", std::stod("nan")), Error);
}
