#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <stdexcept>
#include <string>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

// Makes writing beyond `bytes` of a file fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("read_file returns all bytes of a file", "[file]") {
  const TempFolder folder;
  const std::string bytes("a\0\xFF\r\n", 5);
  CHECK(read_file(folder.put("small", bytes)) == bytes);
  CHECK(read_file(folder.put("empty", "")).empty());
  const std::string large(3'000'001, 'x');
  CHECK((read_file(folder.put("large", large)) == large));
  CHECK_FALSE(read_file("/proc/self/status").empty());  // has a size of 0 until it is read
}

TEST_CASE("read_file names the path and the reason when it fails", "[file]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(read_file(folder / "none"), ContainsSubstring("none': No such file"));
  CHECK_THROWS_WITH(read_file(folder.path()), ContainsSubstring("it is a folder"));
  CHECK_THROWS_WITH(read_file("/dev/zero"), ContainsSubstring("it is a device"));
  CHECK_THROWS_AS(read_file(""), Error);
}

TEST_CASE("path_exists and is_folder tell what is there, or why that cannot be told", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "");
  CHECK(path_exists(file));
  CHECK(path_exists(folder.path()));
  CHECK_FALSE(path_exists(folder / "none"));
  CHECK_FALSE(path_exists(file / "inner"));
  CHECK_FALSE(path_exists(""));
  CHECK(is_folder(folder.path()));
  CHECK_FALSE(is_folder(file));
  CHECK_FALSE(is_folder(folder / "none"));
  const std::string name(256, 'a');
  CHECK_THROWS_WITH(path_exists(folder / name), ContainsSubstring(name + "': File name too long"));
  CHECK_THROWS_AS(is_folder(folder / name), Error);
}

TEST_CASE("paths are made whole and folders listed, or an Error says why not", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "");
  std::filesystem::create_symlink(folder.path(), folder / "link");
  CHECK(absolute_path("a/b") == std::filesystem::current_path() / "a/b");
  CHECK(resolved_path(folder / "link/file") == resolved_path(file));
  CHECK(resolved_path(folder / "link/none") == resolved_path(folder.path()) / "none");
  CHECK(resolved_path("none/at/all") == resolved_path(".") / "none/at/all");
  CHECK(list_folder(folder.path()).size() == 2);
  const std::string name(256, 'a');
  CHECK_THROWS_AS(absolute_path(""), Error);
  CHECK_THROWS_WITH(resolved_path(folder / name),
                    ContainsSubstring(name + "': File name too long"));
  CHECK_THROWS_WITH(list_folder(file), ContainsSubstring("file': Not a directory"));
}

TEST_CASE("a file that says more bytes than there is memory for is not read", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 42);  // without room on the disk
  CHECK_THROWS_WITH(read_file(file, INT64_MAX),
                    ContainsSubstring("it has 4398046511104 bytes, but"));
}

TEST_CASE("read_file does not wait for a pipe", "[file]") {
  const TempFolder folder;
  const auto pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(pipe), ContainsSubstring("it is a pipe"));
}

TEST_CASE("an InputFile reads any part of a file, and nothing behind its end", "[file]") {
  const TempFolder folder;
  const InputFile file(folder.put("digits", "0123456789"));
  CHECK(file.size() == 10);
  std::string part(3, ' ');
  CHECK(file.read(7, part.data(), 3));
  CHECK(part == "789");
  CHECK(file.read(0, part.data(), 3));
  CHECK(part == "012");
  CHECK(file.read(10, part.data(), 0));
  CHECK_FALSE(file.read(8, part.data(), 3));
  CHECK_FALSE(file.read(100, part.data(), 1));
  CHECK_THROWS_WITH(InputFile(folder / "none"), ContainsSubstring("none': No such file"));
  CHECK_THROWS_WITH(InputFile(folder.path()), ContainsSubstring("it is a folder"));
}

TEST_CASE("read_file refuses more than the accepted size", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "12345");
  CHECK(read_file(file, 5) == "12345");
  CHECK_THROWS_WITH(read_file(file, 4), ContainsSubstring("it has 5 bytes, and 4 are the most"));
  CHECK_THROWS_WITH(read_file("/proc/self/status", 10), ContainsSubstring("it has more than"));
}

TEST_CASE("write_file_atomically replaces a file and leaves nothing else behind", "[file]") {
  const TempFolder folder;
  write_file_atomically(folder / "file", "first");
  CHECK(TempFolder::get(folder / "file") == "first");
  write_file_atomically(folder / "file", "");
  CHECK(TempFolder::get(folder / "file").empty());
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file is written from parts of any size in their order", "[file]") {
  const TempFolder folder;
  std::string expected;
  write_file_atomically(folder / "file", [&](FileWriter& file) {
    for (const size_t size : {5U, 0U, 700'000U, 700'000U, 2'000'000U, 1U}) {
      const std::string part(size, static_cast<char>('a' + expected.size() % 26));
      file.write(part);
      expected += part;
    }
  });
  CHECK((TempFolder::get(folder / "file") == expected));
}

TEST_CASE("an exception while writing keeps the old file and no temporary one", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "old");
  const auto interrupted = [](FileWriter& writer) {
    writer.write(std::string(5'000'000, 'x'));
    throw std::runtime_error("interrupted");
  };
  CHECK_THROWS_WITH(write_file_atomically(file, interrupted), "interrupted");
  CHECK(TempFolder::get(file) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a disk that cannot take the file is an Error that keeps the old one", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "old");
  std::string message;
  {
    const FileSizeLimit limit(100'000);
    try {
      write_file_atomically(file, std::string(200'000, 'x'));
    } catch (const Error& error) {
      message = error.what();
    }
  }
  CHECK_THAT(message, ContainsSubstring("[file] cannot write '" + file.string() + "': "));
  CHECK_THAT(message, ContainsSubstring("File too large"));
  CHECK(TempFolder::get(file) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("places that cannot be written are Errors", "[file]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(write_file_atomically(folder / "none/file", "x"),
                    ContainsSubstring("none/file': No such file"));
  CHECK_THROWS_WITH(write_file_atomically(folder.path(), "x"), ContainsSubstring("is a folder"));
  CHECK_THROWS_WITH(write_file_atomically("/dev/null", "x"), ContainsSubstring("is a device"));
  CHECK_THROWS_AS(write_file_atomically("", "x"), Error);
}

TEST_CASE("a symbolic link is replaced, and not the file behind it", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("inner/file", "old");
  std::filesystem::create_symlink(file, folder / "link");
  write_file_atomically(folder / "link", "new");
  CHECK(TempFolder::get(file) == "old");
  CHECK(TempFolder::get(folder / "link") == "new");
  CHECK_FALSE(std::filesystem::is_symlink(folder / "link"));
}

TEST_CASE("a link is not read where links are refused", "[file]") {
  const TempFolder folder;
  std::filesystem::create_symlink(folder.put("file", "secret"), folder / "link");
  CHECK(read_file(folder / "link") == "secret");
  CHECK_THROWS_WITH(read_file(folder / "link", 100, Links::refused),
                    ContainsSubstring("link': it is a symbolic link"));
  CHECK(read_file(folder / "file", 100, Links::refused) == "secret");
}

TEST_CASE("lines are added to a file of that name alone", "[file]") {
  const TempFolder folder;
  const auto file = folder.put("file", "old\n");
  AppendedFile(file).append("new\n");
  CHECK(TempFolder::get(file) == "old\nnew\n");
  AppendedFile(folder / "made").append("line\n");
  CHECK(TempFolder::get(folder / "made") == "line\n");
  std::filesystem::create_symlink(file, folder / "symbolic");
  CHECK_THROWS_WITH(AppendedFile(folder / "symbolic"), ContainsSubstring("a symbolic link"));
  std::filesystem::create_hard_link(file, folder / "hard");
  CHECK_THROWS_WITH(AppendedFile(folder / "hard"), ContainsSubstring("a file of another name"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(AppendedFile(folder / "pipe"), Error);
}
