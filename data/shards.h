#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tapegrad/base/file.h"
#include "tapegrad/data/tokens.h"

namespace tapegrad::data {

// Files of tokens:
//   nanogpt  ids alone, of 16 bits: nanoGPT's train.bin. Of 32 bits if the vocabulary has more than
//            65,536 tokens, which the file does not say.
//   llm.c    ids behind 256 numbers of 32 bits: 20240520, version 1, the number of ids, which have
//            16 bits; or 20240801, version 7, and ids of 32 bits, as llm.c has them for Llama 3.
enum class TokenFormat { nanogpt, llmc };
// llm.c's header has the number of a file's tokens in 32 bits.
inline constexpr std::int64_t kMostLlmcTokens = INT32_MAX;
inline constexpr std::string_view kTokenFormatNames[] = {"nanogpt", "llm.c"};
inline std::span<const std::string_view> names_of(TokenFormat) { return kTokenFormatNames; }

// 16, or 32 where these do not suffice.
int bits_for(std::int64_t vocab_size);

// A shard as data.json lists it.
struct ShardInfo {
  std::string name;  // of the file, in the folder of data.json
  std::int64_t tokens = 0, bytes = 0;
  std::uint32_t crc32 = 0;  // of the whole file: zlib's crc32, as many tools compute it

  friend bool operator==(const ShardInfo&, const ShardInfo&) = default;
};

// Writes a shard. Its file appears under its name when it is complete: see AtomicFile.
class ShardWriter {
 public:
  // `bits`: 16 or 32.
  ShardWriter(const std::filesystem::path& path, TokenFormat format, int bits);

  // Error for a token that has more bits.
  void write(std::span<const Token> tokens);
  std::int64_t size() const { return count_; }  // tokens
  // The last call.
  ShardInfo finish();

 private:
  std::string header() const;  // empty if the format has none

  std::string name_;
  TokenFormat format_;
  int bits_;
  std::int64_t count_ = 0;
  std::uint32_t crc_ = 0;  // of the ids
  std::string buffer_;
  AtomicFile file_;
};

// Opens a shard. Without a format, it is what the file's beginning says; without a width, what the
// header says, or 16 bits. Errors: a file that cannot be read; whose size is not that of whole ids,
// or not what its header says; another format or width.
TokenFile open_shard(const std::filesystem::path& path, std::optional<TokenFormat> format = {},
                     std::optional<int> bits = {}, Links links = Links::followed);

// Reads all of a shard, on all threads, and says what it is. Calls `on_bytes` with the number of
// bytes of each piece that it has read, from the calling thread. Errors: an id that is not below
// `vocab_size`, with its place; a file that has been cut since it was opened.
ShardInfo scan_shard(const TokenFile& file, std::int64_t vocab_size,
                     const std::function<void(std::int64_t)>& on_bytes = {});

}  // namespace tapegrad::data
