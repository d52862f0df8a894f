// Corpora that are packed, JSON lines, or in other encodings.

#include <zlib.h>
#include <zstd.h>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/internal/text_file.h"
#include "tapegrad/data/corpus/internal/unpack.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

std::string gzipped(const std::string& text) {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program zstd does
  out.resize(::ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ::ZSTD_freeCCtx(context);
  return out;
}

Corpus read(const std::filesystem::path& path, const CorpusOptions& options = {}) {
  return read_corpus(std::vector{path}, options);
}

// Bytes that arrive in chunks of a few.
class FewBytes : public Bytes {
 public:
  explicit FewBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string_view next() override {
    const std::string_view next = std::string_view(bytes_).substr(at_, 1 + at_ % 100);
    at_ += next.size();
    return next;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

std::string all_unpacked(std::string bytes) {
  std::string text;
  const auto source = unpacked(std::make_unique<FewBytes>(std::move(bytes)), "x");
  for (std::string_view next; !(next = source->next()).empty();) text += next;
  return text;
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + '\n';
  return text;
}

}  // namespace

TEST_CASE("packed files are read as what they hold", "[packed-corpus]") {
  const TempFolder folder;
  const std::string text = long_text();
  for (const auto& pack : {gzipped, zstd}) {
    const std::string packed = pack(text);
    CHECK(all_unpacked(packed) == text);
    CHECK(all_unpacked(packed + packed) == text + text);  // as `cat a.gz b.gz` makes
    CHECK(all_unpacked(pack("")).empty());
    CHECK_THROWS_WITH(
        read(folder.put("bomb", packed), {.max_bytes = static_cast<int64_t>(packed.size())}),
        ContainsSubstring("bomb' has more than"));
    for (const std::size_t cut : {packed.size() - 1, packed.size() / 2, std::size_t{5}}) {
      CHECK_THROWS_WITH(all_unpacked(packed.substr(0, cut)),
                        ContainsSubstring("'x' cannot be unpacked: it is cut short"));
    }
    std::string broken = packed;
    broken[broken.size() / 2] = static_cast<char>(broken[broken.size() / 2] ^ 0x55);
    CHECK_THROWS_WITH(all_unpacked(broken), ContainsSubstring("cannot be unpacked"));
  }
  CHECK(all_unpacked("plain") == "plain");
  // In a folder, too, where other files with NULs are left out.
  folder.put("in/a.txt.gz", gzipped("one\n"));
  folder.put("in/b.zst", zstd("two\n"));
  folder.put("in/c", std::string("\0\0", 2));
  const Corpus corpus = read(folder / "in");
  CHECK(corpus.text == "one\n\ntwo\n");
  CHECK(corpus.skipped_files == 1);
}

TEST_CASE(
    "a small file that unpacks to much is refused by name, within the memory that it may take",
    "[packed-corpus]") {
  const TempFolder folder;
  std::string text;
  while (text.size() < (64 << 20)) text += "the cat sat on the mat and looked at the dog\n";
  const auto bomb = folder.put("bomb.zst", zstd(text));
  CHECK(std::filesystem::file_size(bomb) < 100'000);
  CHECK_THROWS_WITH(
      read(bomb, {.max_bytes = 1 << 20, .why_max = "a sixth of the memory"}),
      ContainsSubstring("bomb.zst' has more than 1048576 bytes of text, but the whole corpus may "
                        "have 1048576, a sixth of the memory and has 0 already: tapegrad prepare"));
  const auto lines = folder.put("long.jsonl", "{\"text\": \"" + std::string(33 << 20, 'a'));
  CHECK_THROWS_WITH(read(lines),
                    ContainsSubstring("long.jsonl', line 1 has more than 33554432 bytes"));
  // Whatever room there is, no more of it is unpacked.
  constexpr std::int64_t most = std::int64_t{1} << 60;
  TextFile file(bomb, {.max_bytes = most}, most);
  std::size_t taken = 0;
  const auto take_all = [&] {
    for (std::string_view part; !(part = file.next()).empty();) taken += part.size();
  };
  CHECK_THROWS_WITH(take_all(), ContainsSubstring("unpacks to more than 16777216, which is too "
                                                  "much for a packed file of its size: if all of "
                                                  "that is wanted, unpack it first"));
  CHECK(taken <= 16 << 20);
}

TEST_CASE("a log that repeats itself is read, though it packs to a few thousandths",
          "[packed-corpus]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; text.size() < (20 << 20); ++i) {
    text += "12:00:00 request " + std::to_string(i / 100 * 7919) + " was answered\n";
  }
  const auto log = folder.put("log.zst", zstd(text));
  const auto size = std::filesystem::file_size(log);
  CHECK(text.size() > 200 * size);
  CHECK(text.size() < 900 * size);
  const bool same = read(log).text == text;  // no failure prints all of it
  CHECK(same);
}

TEST_CASE("files of other kinds are named, with what to do", "[packed-corpus]") {
  const TempFolder folder;
  const auto complaint = [&](const std::string& name, const std::string& bytes) -> std::string {
    try {
      read(folder.put(name, bytes));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string rest("\0\0\x04\xe6", 4), records = " [\n {\"text\": \"a\"}]\n";
  CHECK_THAT(complaint("a.xz", "\xFD\x37zXZ" + rest), ContainsSubstring("a.xz' is packed by xz"));
  CHECK_THAT(complaint("a.bz2", "BZh91AY&SY" + rest), ContainsSubstring("bunzip2"));
  CHECK_THAT(complaint("a.parquet", "PAR1\x15" + rest), ContainsSubstring("to_json("));
  for (const auto& [name, bytes] :
       {std::pair("a.json", records), {"b.json.gz", gzipped(records)}}) {
    CHECK_THAT(complaint(name, bytes), ContainsSubstring("jq -c '.[]'"));
  }
  CHECK(complaint("c.json", "[1, 2]") == "");
  CHECK(complaint("c.txt", records) == "");
  folder.put("in/a.json", records);
  CHECK(read(folder / "in").text == records);
}

TEST_CASE("JSON lines are texts of their own", "[packed-corpus]") {
  const TempFolder folder;
  const std::string lines =
      "{\"text\": \"one\\n\", \"story\": \"1\"}\r\n\n{\"text\": \"\xC3\xA9\", \"story\": \"2\"}";
  const auto plain = folder.put("a.jsonl", lines);
  CHECK(read(plain).text == "one\n\n\xC3\xA9");
  CHECK(read(plain, {.field = "story"}).text == "1\n\n2");
  CHECK(read(folder.put("b.ndjson.gz", gzipped(lines))).text == "one\n\n\xC3\xA9");
  CHECK(read(folder.put("c.txt", lines)).text == lines);
  const auto fails = [&](const std::string& line, const std::string& message) {
    CHECK_THROWS_WITH(read(folder.put("bad.jsonl", "{\"text\": \"x\"}\n" + line)),
                      ContainsSubstring("bad.jsonl', line 2") && ContainsSubstring(message));
  };
  fails("{\"text\": 1}", "'text' is not a text");
  fails("{\"prompt\": \"x\", \"more\": {\"text\": [1]}}",
        "has no text 'text': its keys are \"prompt\", \"more\". --field names the one to learn");
  fails("{}", "its keys are none");
  fails("[]", "is not a JSON object with a text 'text' (--field)");
  fails("{\"text\": \"x\"",
        "is not a JSON object with a text 'text' (--field): not valid JSON at byte");
  fails("{\"text\": \"a\\ud83d b\"}", "half of a surrogate pair");
  fails("{\"text\": \"a\\ude00\"}", "half of a surrogate pair");
  fails("{\"text\": \"a\\u0000b\"}", "has a NUL");
  fails("{\"a\": " + std::string(100, '['), "nested too deeply");
  fails(std::string(100, '['), "is not a JSON object");
  CHECK_THROWS_WITH(read(folder.put("e.jsonl", "{\"text\": \"\"}\n")),
                    ContainsSubstring("there is no text"));
}

TEST_CASE("files in another encoding are named, and read if it is", "[packed-corpus]") {
  const TempFolder folder;
  folder.put("in/latin.txt", "caf\xE9\n");
  folder.put("in/utf.txt", "tea\n");
  const Corpus corpus = read(folder / "in");
  CHECK(corpus.text == "tea\n");
  REQUIRE(corpus.faulty.size() == 1);
  CHECK(corpus.faulty[0].file.filename() == "latin.txt");
  CHECK(corpus.faulty[0].reason == "is not UTF-8 text: byte 3 is 0xe9, in line 1");
  CHECK(read(folder / "in", {.encoding = "latin-1"}).text == "caf\xC3\xA9\n\ntea\n");
  CHECK_THROWS_WITH(read(folder / "in/latin.txt"), ContainsSubstring("unless --encoding names"));
  const auto wide = folder.put("wide", std::string("\xFF\xFEh\0i\0", 6));
  CHECK(read(wide, {.encoding = "utf-16"}).text == "hi");
  CHECK_THROWS_WITH(read(wide, {.encoding = "klingon"}),
                    ContainsSubstring("no encoding 'klingon'"));
  CHECK_THROWS_WITH(read(folder / "in/latin.txt", {.encoding = "ascii"}),
                    ContainsSubstring("is not ascii text: byte 3 does not fit"));
}
