#include <zlib.h>

#include <cstring>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/data/shards.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

// The bytes of numbers, as a file has them.
template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::vector<std::int32_t> numbers(256);
  numbers[0] = magic, numbers[1] = version, numbers[2] = count;
  return bytes_of(numbers);
}

std::uint32_t crc32_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

ShardInfo write(const std::filesystem::path& path, TokenFormat format, int bits,
                const std::vector<Token>& tokens) {
  ShardWriter writer(path, format, bits);
  // In two pieces, as a program that streams does.
  const std::span<const Token> all(tokens);
  writer.write(all.first(tokens.size() / 3));
  writer.write(all.subspan(tokens.size() / 3));
  CHECK(writer.size() == std::ssize(tokens));
  return writer.finish();
}

}  // namespace

TEST_CASE("shards are written as nanoGPT and llm.c write them", "[shards]") {
  const TempFolder folder;
  const std::vector<Token> tokens = {1, 65'535, 7, 0};
  const std::string narrow = bytes_of<std::uint16_t>({1, 65'535, 7, 0});
  const std::string wide = bytes_of<std::uint32_t>({1, 65'535, 7, 0});
  const auto check_file = [&](TokenFormat format, int bits, const std::string& expected) {
    const auto path = folder / "a.bin";
    const ShardInfo info = write(path, format, bits, tokens);
    CHECK(TempFolder::get(path) == expected);
    CHECK(info == ShardInfo{"a.bin", 4, std::ssize(expected), crc32_of(expected)});
    CHECK(scan_shard(open_shard(path, format, bits), 65'536) == info);
  };
  check_file(TokenFormat::nanogpt, 16, narrow);
  check_file(TokenFormat::nanogpt, 32, wide);
  check_file(TokenFormat::llmc, 16, header(20240520, 1, 4) + narrow);
  check_file(TokenFormat::llmc, 32, header(20240801, 7, 4) + wide);
  CHECK(bits_for(65'536) == 16);
  CHECK(bits_for(65'537) == 32);
}

TEST_CASE("a shard appears when it is complete, and leaves nothing behind", "[shards]") {
  const TempFolder folder;
  {
    ShardWriter writer(folder / "a.bin", TokenFormat::llmc, 16);
    writer.write(std::vector<Token>(1'000'000, 5));
    CHECK(!std::filesystem::exists(folder / "a.bin"));
    CHECK(folder.entries() == 1);
  }
  CHECK(folder.entries() == 0);
  ShardWriter writer(folder / "a.bin", TokenFormat::nanogpt, 16);
  CHECK_THROWS_WITH(writer.write(std::vector<Token>{65'536}), ContainsSubstring("16 bits"));
  CHECK_THROWS_WITH(writer.write(std::vector<Token>{-1}), ContainsSubstring("token -1"));
}

TEST_CASE("a scan finds what all of a large file is, on any number of threads", "[shards]") {
  const TempFolder folder;
  std::vector<Token> tokens(40'000'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i * 31 % 50'000);
  const auto path = folder / "a.bin";
  const ShardInfo info = write(path, TokenFormat::llmc, 16, tokens);
  CHECK(info.crc32 == crc32_of(TempFolder::get(path)));
  const int threads = num_threads();
  for (const int n : {1, 3}) {
    set_num_threads(n);
    std::int64_t bytes = 0;
    CHECK(scan_shard(open_shard(path), 50'000, [&](std::int64_t more) { bytes += more; }) == info);
    CHECK(bytes == 80'000'000);
  }
  set_num_threads(threads);
}

TEST_CASE("a token outside of the vocabulary is named with its place", "[shards]") {
  const TempFolder folder;
  for (const int bits : {16, 32}) {
    std::vector<Token> tokens(3'000'000, 9);
    tokens[2'345'678] = 10, tokens[2'999'999] = 12;
    const auto path = folder / "a.bin";
    write(path, TokenFormat::nanogpt, bits, tokens);
    const TokenFile file = open_shard(path, TokenFormat::nanogpt, bits);
    CHECK_NOTHROW(scan_shard(file, 13));
    CHECK_THROWS_WITH(scan_shard(file, 10),
                      ContainsSubstring("a.bin: the id 10 at place 2345678 is not one of the 10"));
  }
  folder.put("b.bin", bytes_of<std::uint32_t>({1, 0x8000'0000u}));
  CHECK_THROWS_WITH(scan_shard(open_shard(folder / "b.bin", {}, 32), INT32_MAX),
                    ContainsSubstring("the id 2147483648 at place 1"));
}

TEST_CASE("shards that are not what they say are refused by name", "[shards]") {
  const TempFolder folder;
  const auto complaint = [&](const std::string& bytes, std::optional<TokenFormat> format = {},
                             std::optional<int> bits = {}) -> std::string {
    try {
      open_shard(folder.put("a.bin", bytes), format, bits);
      return "";
    } catch (const Error& error) {
      CHECK_THAT(error.what(), ContainsSubstring("a.bin"));
      return error.what();
    }
  };
  const std::string ids = bytes_of<std::uint16_t>({1, 2, 3, 4});
  CHECK(complaint(header(20240520, 1, 4) + ids) == "");
  CHECK(complaint(header(20240801, 7, 2) + ids) == "");
  CHECK(complaint("") == "");
  CHECK_THAT(complaint(header(20240520, 1, 5) + ids), ContainsSubstring("5 tokens"));
  CHECK_THAT(complaint(header(20240520, 1, 3) + ids), ContainsSubstring("3 tokens"));
  CHECK_THAT(complaint(header(20240520, 1, -1) + ids), ContainsSubstring("-1 tokens"));
  CHECK_THAT(complaint(header(20240520, 7, 4) + ids), ContainsSubstring("version 7"));
  CHECK_THAT(complaint(header(20240801, 1, 2) + ids), ContainsSubstring("version 1"));
  CHECK_THAT(complaint(header(20240801, 7, INT32_MAX) + ids), ContainsSubstring("does not fit"));
  CHECK_THAT(complaint(header(20240522, 1, 4) + ids),
             ContainsSubstring("but the first number is 20240522, not 20240520 or 20240801"));
  CHECK(complaint(std::string(1024, '\0') + ids) == "");
  CHECK(complaint(header(20240522, 1, 4) + ids, TokenFormat::nanogpt) == "");
  CHECK_THAT(complaint("abc"), ContainsSubstring("3 bytes are no ids of 16 bits"));
  CHECK_THAT(complaint("abcdef", TokenFormat::nanogpt, 32), ContainsSubstring("no ids of 32 bits"));
  CHECK_THAT(complaint(ids, TokenFormat::llmc), ContainsSubstring("llm.c's header"));
  CHECK_THAT(complaint(header(20240520, 1, 4) + ids, TokenFormat::llmc, 32),
             ContainsSubstring("ids of 16 bits, not of 32"));
  CHECK_THROWS_AS(open_shard(folder / "nothing.bin"), Error);
}
