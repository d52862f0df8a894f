#include <filesystem>
#include <fstream>
#include <numeric>

#include "tapegrad/base/error.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/data/shards.h"
#include "tapegrad/data/tokens.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

std::vector<Token> counting(std::int64_t count, Token first = 0) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// The same tokens, cut into files of so many each.
TokenSource in_files(const TempFolder& folder, std::span<const Token> tokens, std::size_t per_file,
                     TokenFormat format, int bits) {
  std::vector<TokenFile> files;
  for (std::size_t at = 0; at < tokens.size(); at += per_file) {
    const auto path = folder / fmt::format("{}.bin", files.size());
    ShardWriter writer(path, format, bits);
    writer.write(tokens.subspan(at, std::min(per_file, tokens.size() - at)));
    writer.finish();
    files.push_back(open_shard(path, format, bits));
  }
  return TokenSource(std::move(files));
}

bool same_batch(const Batch& a, const Batch& b) {
  return a.B == b.B && a.T == b.T && a.inputs == b.inputs && a.targets == b.targets;
}

}  // namespace

TEST_CASE("windows of files are those of the tokens in memory, across the ends of files",
          "[tokens]") {
  const std::vector<Token> all = counting(10'000, 300);
  for (const auto format : {TokenFormat::nanogpt, TokenFormat::llmc}) {
    for (const int bits : {16, 32}) {
      for (const std::size_t per_file : {1000u, 4999u, 10'000u, 333u}) {
        const TempFolder folder(memory_folder());  // each file is synced
        const TokenSource files = in_files(folder, all, per_file, format, bits);
        REQUIRE(files.size() == 10'000);
        CHECK(values_of(files) == all);
        std::vector<Token> window(4500);
        for (const std::int64_t begin : {0, 1, 999, 1000, 4998, 5500}) {
          files.copy(begin, window);
          CHECK(window == counting(4500, 300 + static_cast<Token>(begin)));
        }
      }
    }
  }
}

TEST_CASE("batches of files are those of the tokens in memory", "[tokens]") {
  const TempFolder folder;
  const std::vector<Token> all = counting(1000);
  const TokenSource files = in_files(folder, all, 301, TokenFormat::nanogpt, 16);
  Loader here(all, 4, 16, Rng(7)), there(files, 4, 16, Rng(7));
  const EpochLoader::Options epochs{.batch_size = 3, .block_size = 16, .stride = 5};
  EpochLoader pass_here(all, epochs, Rng(7)), pass_there(files, epochs, Rng(7));
  for (int i = 0; i < 50; ++i) {
    CHECK(same_batch(here.next(), there.next()));
    CHECK(same_batch(pass_here.next(), pass_there.next()));
  }
  const SequentialBatches side_here(all, 4, 16, 7), side_there(files, 4, 16, 7);
  for (std::int64_t i = 0; i < side_here.size(); ++i) {
    CHECK(same_batch(side_here[i], side_there[i]));
  }
}

TEST_CASE("ids above 65,535 keep their bits", "[tokens]") {
  const TempFolder folder;
  const std::vector<Token> all = {0, 65'535, 65'536, 128'255, INT32_MAX};
  for (const auto format : {TokenFormat::nanogpt, TokenFormat::llmc}) {
    CHECK(values_of(in_files(folder, all, 2, format, 32)) == all);
  }
}

TEST_CASE("places outside of the tokens are Errors", "[tokens]") {
  const TempFolder folder;
  const std::vector<Token> all = counting(10);
  for (const TokenSource& tokens :
       {TokenSource(all), in_files(folder, all, 3, TokenFormat::nanogpt, 16)}) {
    std::vector<Token> out(4);
    CHECK_NOTHROW(tokens.copy(6, out));
    for (const std::int64_t begin : {std::int64_t{7}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
      CHECK_THROWS_WITH(tokens.copy(begin, out), ContainsSubstring("of the 10 that there are"));
    }
    out.resize(11);
    CHECK_THROWS_AS(tokens.copy(0, out), Error);
  }
  CHECK_NOTHROW(TokenSource().copy(0, {}));
  CHECK(TokenSource().size() == 0);
}

TEST_CASE("tokens that are given away live as long as their handles", "[tokens]") {
  TokenSource copy;
  {
    const TokenSource owner(counting(1000));
    copy = owner;
  }
  CHECK(values_of(copy) == counting(1000));
}

TEST_CASE("a file that is cut while it is read is an Error that names it", "[tokens]") {
  const TempFolder folder;
  const TokenSource files = in_files(folder, counting(100'000), 50'000, TokenFormat::nanogpt, 32);
  std::filesystem::resize_file(folder / "1.bin", 100);
  std::vector<Token> out(10);
  CHECK_NOTHROW(files.copy(49'990, out));
  CHECK_THROWS_WITH(files.copy(50'020, out), ContainsSubstring((folder / "1.bin").string()));
}

TEST_CASE("a file that was replaced is read as it was when it was opened", "[tokens]") {
  const TempFolder folder;
  const TokenSource files = in_files(folder, counting(100), 100, TokenFormat::nanogpt, 16);
  std::filesystem::remove(folder / "0.bin");
  folder.put("0.bin", "x");
  CHECK(values_of(files) == counting(100));
}

#ifndef TAPEGRAD_SANITIZED  // AddressSanitizer keeps what is freed
namespace {

// Bytes of memory that this process has, those of mapped files included.
std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("memory does not grow with what is read of a file", "[tokens]") {
  const TempFolder folder;
  // Without blocks on the disk: a gigabyte of zeros.
  const auto path = folder.put("large.bin", "");
  std::filesystem::resize_file(path, std::int64_t{1} << 30);
  const TokenSource tokens({open_shard(path)});
  REQUIRE(tokens.size() == std::int64_t{1} << 29);
  Loader loader(tokens, 8, 1024, Rng(1));
  loader.next();
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < 10'000; ++i) loader.next();  // of 160 MB
  CHECK(resident_bytes() - before < 4 << 20);
}
#endif
