#include "tapegrad/data/corpus/internal/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kReadChunk = std::size_t{1} << 18;
// Texts pack to a tenth, logs that repeat themselves to a few hundredths or thousandths. A file
// that unpacks to more than this may be a bomb.
constexpr std::int64_t kMostTimes = 1000, kLeastBomb = std::int64_t{16} << 20;

// A file that grows while it is read ends where it ended at first.
class FileBytes : public Bytes {
 public:
  explicit FileBytes(const std::filesystem::path& path) : path_(path), file_(path) {}
  std::string_view next() override {
    const std::size_t size = std::min<std::uint64_t>(kReadChunk, file_.size() - at_);
    check(size == 0 || file_.read(at_, chunk_.data(), size),
          "[corpus] '{}' cannot be read behind byte {}", path_.string(), at_);
    at_ += size;
    return {chunk_.data(), size};
  }
  std::uint64_t size() const { return file_.size(); }

 private:
  std::filesystem::path path_;
  InputFile file_;
  std::uint64_t at_ = 0;
  std::vector<char> chunk_ = std::vector<char>(kReadChunk);
};

class StdinBytes : public Bytes {
 public:
  std::string_view next() override {
    const std::size_t size = std::fread(chunk_.data(), 1, chunk_.size(), stdin);
    check(!std::ferror(stdin), "[corpus] stdin cannot be read: {}",
          std::generic_category().message(errno));
    return {chunk_.data(), size};
  }

 private:
  std::vector<char> chunk_ = std::vector<char>(kReadChunk);
};

// Says what else than text a file is that begins so, and what to do.
std::optional<std::string> other_kind(std::string_view begin) {
  if (begin.starts_with("\xFD\x37zXZ")) return "is packed by xz, which is not read: unxz FILE";
  if (begin.starts_with("BZh") && begin.find("1AY&SY") == 4) {
    return "is packed by bzip2, which is not read: bunzip2 FILE";
  }
  if (begin.starts_with("PAR1\x15")) {
    return "is Parquet, which is not read; in Python, pandas.read_parquet(FILE).to_json("
           "'texts.jsonl', orient='records', lines=True) makes JSON lines of it";
  }
  return std::nullopt;
}

}  // namespace

TextFile::TextFile(const std::filesystem::path& path, const CorpusOptions& options,
                   std::int64_t room)
    : name_(path.string()),
      room_(room),
      most_(options.max_bytes),
      most_unpacked_(room),
      why_most_(options.why_max.empty() ? "" : ", " + options.why_max) {
  if (is_stdin(path)) {
    bytes_ = std::make_unique<StdinBytes>();
  } else {
    auto file = std::make_unique<FileBytes>(path);
    check(file->size() <= static_cast<std::uint64_t>(room),
          "[corpus] '{}' has {} bytes, but the whole corpus may have {}{} and has {} already: {}",
          name_, file->size(), most_, why_most_, most_ - room_, kWithoutLimit);
    packed_ = static_cast<std::int64_t>(file->size());
    if (packed_ < room / kMostTimes) most_unpacked_ = std::max(kLeastBomb, kMostTimes * packed_);
    bytes_ = std::move(file);
  }
  bytes_ = unpacked(std::move(bytes_), name_);
  if (options.encoding != "utf-8") {
    bytes_ = to_utf8_from(options.encoding, std::move(bytes_), name_);
  }
}

std::string_view TextFile::next() {
  while (!ended_) {
    lines_ +=
        std::count(chunk_.begin(), chunk_.begin() + static_cast<std::ptrdiff_t>(given_), '\n');
    before_ += static_cast<std::int64_t>(given_);
    chunk_.erase(0, given_);
    given_ = 0;
    const std::string_view more = bytes_->next();
    ended_ = more.empty();
    chunk_ += more;
    if (!begun_ && (ended_ || chunk_.size() >= 3)) {  // as many as the mark has
      begun_ = true;
      chunk_.erase(0, chunk_.size() - without_byte_order_mark(chunk_).size());
      fault_ = other_kind(chunk_);
    }
    check(
        before_ + std::ssize(chunk_) <= room_,
        "[corpus] '{}' has more than {} bytes of text, but the whole corpus may have {}{} and has "
        "{} already: {}",
        name_, room_, most_, why_most_, most_ - room_, kWithoutLimit);
    check(before_ + std::ssize(chunk_) <= most_unpacked_,
          "[corpus] '{}' has {} bytes and unpacks to more than {}, which is too much for a packed "
          "file of its size: if all of that is wanted, unpack it first",
          name_, packed_, most_unpacked_);
    if (!begun_) continue;
    given_ = fault_ ? 0 : check_text();
    if (ended_ && before_ + std::ssize(chunk_) == 0) fault_ = "is empty";
    if (fault_) {
      ended_ = true;
      return {};
    }
    if (given_ > 0) return std::string_view(chunk_).substr(0, given_);
  }
  return {};
}

// The bytes of chunk_ that are whole characters, unless there is a fault.
std::size_t TextFile::check_text() {
  const std::string_view text = chunk_;
  const auto line_of = [&](std::size_t byte) {
    return lines_ +
           std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
  };
  const auto invalid = find_invalid_utf8(text);
  const std::size_t nul = text.find('\0');
  if (nul != text.npos) {
    const std::int64_t place = before_ + static_cast<std::int64_t>(nul);
    looks_binary_ = place < std::int64_t{1} << 16;
    fault_ = fmt::format("is binary, not text: byte {} is NUL, in line {}", place, line_of(nul));
  } else if (invalid) {
    const bool is_cut =
        !ended_ && first_char(text.substr(*invalid)).kind == Utf8Char::Kind::incomplete;
    if (is_cut) return *invalid;
    fault_ = fmt::format("is not UTF-8 text: byte {} is 0x{:02x}, in line {}",
                         before_ + static_cast<std::int64_t>(*invalid),
                         static_cast<std::uint8_t>(text[*invalid]), line_of(*invalid));
  }
  return text.size();
}

}  // namespace tapegrad::data
