#include "tapegrad/data/shards.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kHeaderNumbers = 256, kHeaderBytes = 4 * kHeaderNumbers;
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
constexpr std::int64_t kPiecesAtOnce = 64;  // between two calls of on_bytes
constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

using Header = std::array<std::int32_t, 3>;  // its numbers that are not 0: magic, version, count

// The beginning of llm.c's header for ids of so many bits.
Header header_of(int bits, std::int32_t count) {
  return bits == 16 ? Header{20240520, 1, count} : Header{20240801, 7, count};
}

// 16 or 32 if the first number is one of llm.c's, or 0.
int bits_of_header(const Header& header) {
  for (const int bits : {16, 32}) {
    if (header[0] == header_of(bits, 0)[0]) return bits;
  }
  return 0;
}

Header read_header(const InputFile& file) {
  Header header{};
  if (file.size() >= kHeaderBytes && !file.read(0, header.data(), sizeof header)) header = {};
  return header;
}

std::uint32_t crc32_of(std::uint32_t before, const void* bytes, std::size_t size) {
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), size));
}
std::uint32_t crc32_of_both(std::uint32_t first, std::uint32_t second, std::int64_t second_bytes) {
  return static_cast<std::uint32_t>(::crc32_combine(first, second, second_bytes));
}

template <class Id>
void append_ids(std::span<const Token> tokens, std::string& buffer) {
  for (const Token token : tokens) {
    check(token >= 0 && std::uint32_t(token) <= std::numeric_limits<Id>::max(),
          "[shards] token {} does not fit into {} bits", token, 8 * sizeof(Id));
    const Id id = static_cast<Id>(token);
    buffer.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
}

template <class Id>
std::uint32_t largest_id(std::span<const char> bytes) {
  Id largest = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Id)) {
    Id id = 0;
    std::memcpy(&id, bytes.data() + at, sizeof id);
    largest = std::max(largest, id);
  }
  return largest;
}

// The findings in a piece of a file.
struct Piece {
  std::int64_t bytes = 0;
  std::uint32_t crc = 0, largest = 0;
};

Piece scan_piece(const TokenFile& file, std::int64_t begin, std::vector<char>& buffer) {
  const std::uint64_t at = file.offset + static_cast<std::uint64_t>(begin);
  check(file.file->read(at, buffer.data(), buffer.size()),
        "{}: it cannot be read at byte {}: it has been cut since it was opened, or the disk fails",
        file.path.string(), at);
  return {std::ssize(buffer), crc32_of(0, buffer.data(), buffer.size()),
          file.bits == 16 ? largest_id<std::uint16_t>(buffer) : largest_id<std::uint32_t>(buffer)};
}

// The pieces of these bytes behind the header, in their order.
std::vector<Piece> scan_pieces(const TokenFile& file, std::int64_t begin, std::int64_t bytes) {
  std::vector<Piece> pieces(static_cast<std::size_t>((bytes + kPieceBytes - 1) / kPieceBytes));
  parallel_for(std::ssize(pieces), 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<char> buffer;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t at = i * kPieceBytes;
      buffer.resize(static_cast<std::size_t>(std::min(bytes - at, kPieceBytes)));
      pieces[static_cast<std::size_t>(i)] = scan_piece(file, begin + at, buffer);
    }
  });
  return pieces;
}

// The file has, from this id on, one that is not of the vocabulary.
[[noreturn]] void refuse_id(const TokenFile& file, std::int64_t place, std::int64_t vocab_size) {
  const int bytes = file.bits / 8;
  for (; place < file.count; ++place) {
    std::uint32_t id = 0;
    if (!file.file->read(file.offset + static_cast<std::uint64_t>(place * bytes), &id,
                         static_cast<std::size_t>(bytes))) {
      break;
    }
    check(id < vocab_size, "{}: the id {} at place {} is not one of the {} tokens",
          file.path.string(), id, place, vocab_size);
  }
  fail("{} changes while it is read", file.path.string());
}

}  // namespace

int bits_for(std::int64_t vocab_size) { return vocab_size <= 1 << 16 ? 16 : 32; }

ShardWriter::ShardWriter(const std::filesystem::path& path, TokenFormat format, int bits)
    : name_(path.filename().string()), format_(format), bits_(bits), file_(path) {
  check(bits == 16 || bits == 32, "[shards] tokens of {} bits are not written", bits);
  file_.writer().write(header());
}

std::string ShardWriter::header() const {
  if (format_ == TokenFormat::nanogpt) return "";
  std::string bytes(kHeaderBytes, '\0');
  const Header header = header_of(bits_, static_cast<std::int32_t>(count_));
  std::memcpy(bytes.data(), header.data(), sizeof header);
  return bytes;
}

void ShardWriter::write(std::span<const Token> tokens) {
  check(format_ == TokenFormat::nanogpt || count_ + std::ssize(tokens) <= kMostLlmcTokens,
        "[shards] {}: more tokens than llm.c's header can count", name_);
  while (!tokens.empty()) {
    const auto some = tokens.first(std::min(tokens.size(), kBufferBytes / 4));
    buffer_.clear();
    bits_ == 16 ? append_ids<std::uint16_t>(some, buffer_)
                : append_ids<std::uint32_t>(some, buffer_);
    crc_ = crc32_of(crc_, buffer_.data(), buffer_.size());
    file_.writer().write(buffer_);
    count_ += std::ssize(some);
    tokens = tokens.subspan(some.size());
  }
}

ShardInfo ShardWriter::finish() {
  const std::string front = header();
  file_.writer().rewrite(0, front);
  file_.commit();
  const std::int64_t id_bytes = count_ * (bits_ / 8);
  return {name_, count_, std::ssize(front) + id_bytes,
          crc32_of_both(crc32_of(0, front.data(), front.size()), crc_, id_bytes)};
}

namespace {

// True if a file begins as one of llm.c's that has no tokens for training: a model, a tokenizer,
// the tasks of HellaSwag; or as its tokens with another first number. Ids of a text are no 480
// zeros.
bool is_other_llmc_file(const InputFile& file) {
  std::array<std::int32_t, kHeaderNumbers> numbers{};
  if (file.size() < kHeaderBytes || !file.read(0, numbers.data(), kHeaderBytes)) return false;
  return numbers[0] != 0 && std::all_of(numbers.begin() + 16, numbers.end(),
                                        [](std::int32_t number) { return number == 0; });
}

}  // namespace

TokenFile open_shard(const std::filesystem::path& path, std::optional<TokenFormat> format,
                     std::optional<int> bits, Links links) {
  TokenFile shard{.path = path, .file = std::make_shared<const InputFile>(path, links)};
  const std::uint64_t size = shard.file->size();
  const Header header = read_header(*shard.file);
  const int found = bits_of_header(header);
  const bool has_header = format ? *format == TokenFormat::llmc : found != 0;
  shard.bits = bits.value_or(has_header ? found : 16);
  check(
      format || has_header || !is_other_llmc_file(*shard.file),
      "{}: it begins with a header as files of llm.c do, but the first number is {}, not {} or {} "
      "as of tokens",
      path.string(), header[0], header_of(16, 0)[0], header_of(32, 0)[0]);
  const auto id_bytes = static_cast<std::uint64_t>(shard.bits / 8);
  if (has_header) {
    check(found != 0, "{}: it does not begin with llm.c's header", path.string());
    check(found == shard.bits, "{}: its header says ids of {} bits, not of {}", path.string(),
          found, shard.bits);
    shard.offset = kHeaderBytes;
    check(header[1] == header_of(found, 0)[1] && header[2] >= 0 &&
              size - kHeaderBytes == static_cast<std::uint64_t>(header[2]) * id_bytes,
          "{}: its header says version {} and {} tokens, which does not fit its {} bytes",
          path.string(), header[1], header[2], size);
  }
  check((size - shard.offset) % id_bytes == 0, "{}: {} bytes are no ids of {} bits", path.string(),
        size, shard.bits);
  shard.count = static_cast<std::int64_t>((size - shard.offset) / id_bytes);
  return shard;
}

ShardInfo scan_shard(const TokenFile& file, std::int64_t vocab_size,
                     const std::function<void(std::int64_t)>& on_bytes) {
  std::vector<char> front(file.offset);
  check(file.file->read(0, front.data(), front.size()), "{}: it cannot be read",
        file.path.string());
  std::uint32_t crc = crc32_of(0, front.data(), front.size());
  const std::int64_t id_bytes = file.count * (file.bits / 8);
  for (std::int64_t begin = 0; begin < id_bytes; begin += kPiecesAtOnce * kPieceBytes) {
    const std::int64_t bytes = std::min(id_bytes - begin, kPiecesAtOnce * kPieceBytes);
    std::int64_t at = begin;
    for (const Piece& piece : scan_pieces(file, begin, bytes)) {
      if (piece.largest >= vocab_size) refuse_id(file, at / (file.bits / 8), vocab_size);
      crc = crc32_of_both(crc, piece.crc, piece.bytes);
      at += piece.bytes;
    }
    if (on_bytes) on_bytes(bytes);
  }
  return {file.path.filename().string(), file.count, std::ssize(front) + id_bytes, crc};
}

}  // namespace tapegrad::data
