#include "tapegrad/arrays/internal/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tapegrad/base/file.h"

namespace tapegrad::arrays {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;
// Deflate packs 258 bytes into two bits at best.
constexpr std::uint64_t kMostPacked = 1032;

// Bytes of a file from one place to another.
class FileRange : public data::Bytes {
 public:
  FileRange(const InputFile& file, std::string name, std::uint64_t begin, std::uint64_t size)
      : file_(file), name_(std::move(name)), at_(begin), end_(begin + size) {}
  std::string_view next() override {
    const std::size_t size = std::min<std::uint64_t>(kChunk, end_ - at_);
    chunk_.resize(size);
    check(file_.read(at_, chunk_.data(), size), "{}: reading failed behind byte {}", name_, at_);
    at_ += size;
    return {chunk_.data(), size};
  }

 private:
  const InputFile& file_;
  std::string name_;
  std::uint64_t at_, end_;
  std::vector<char> chunk_;
};

// The same of a whole file that nobody else holds open.
class WholeFile : public data::Bytes {
 public:
  explicit WholeFile(const std::filesystem::path& path)
      : file_(path), range_(file_, path.string(), 0, file_.size()) {}
  std::string_view next() override { return range_.next(); }
  const InputFile& file() const { return file_; }

 private:
  InputFile file_;
  FileRange range_;
};

}  // namespace

ByteSource ByteSource::of_file(const std::filesystem::path& path) {
  auto whole = std::make_unique<WholeFile>(path);
  const std::uint64_t size = whole->file().size();
  char magic[2] = {};
  const bool gzip =
      size > 2 && whole->file().read(0, magic, 2) && magic[0] == '\x1f' && magic[1] == '\x8b';
  if (!gzip) return {path.string(), std::move(whole), size};
  return {path.string(), data::unpacked(std::move(whole), path.string()), kMostPacked * size};
}

ByteSource ByteSource::of_archive(const StoredZip& zip, const std::string& entry) {
  const StoredZip::Place place = zip.place(entry);
  const std::string name = fmt::format("{}: '{}'", zip.name(), entry);
  std::unique_ptr<data::Bytes> bytes =
      std::make_unique<FileRange>(zip.file(), name, place.begin, place.size);
  if (place.deflated) bytes = data::inflated(std::move(bytes), name);
  const std::uint64_t most = place.deflated ? kMostPacked * place.size : place.size;
  ByteSource source(name, std::move(bytes), std::min(most, place.unpacked));
  source.expected_crc_ = place.crc;
  return source;
}

bool ByteSource::fill() {
  if (!chunk_.empty()) return true;
  chunk_ = bytes_->next();
  if (chunk_.empty()) return false;  // zlib begins anew at no bytes
  crc_ = static_cast<std::uint32_t>(
      ::crc32_z(crc_, reinterpret_cast<const Bytef*>(chunk_.data()), chunk_.size()));
  return true;
}

void ByteSource::read(void* to, std::size_t bytes) {
  char* place = static_cast<char*>(to);
  while (bytes > 0) {
    check(fill() && done_ < most_, "{}: it ends after {} bytes, in the middle of its contents",
          name_, done_);
    const std::size_t size = std::min<std::uint64_t>({bytes, chunk_.size(), most_left()});
    std::memcpy(place, chunk_.data(), size);
    chunk_.remove_prefix(size);
    place += size;
    bytes -= size;
    done_ += size;
  }
}

void ByteSource::check_end() {
  check(!fill(), "{}: there are bytes behind the array, from byte {} on", name_, done_);
  check(!expected_crc_ || crc_ == *expected_crc_,
        "{}: it is broken: its bytes do not have the archive's checksum", name_);
}

void ByteSource::check_room(const Shape& shape, std::size_t size) const {
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  // Of no elements, whatever the other sizes are, as long as they can be multiplied.
  const std::uint64_t most = is_empty ? std::uint64_t{1} << 40 : most_left() / size;
  std::uint64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (dim == 0) continue;
    check(static_cast<std::uint64_t>(dim) <= most / count,
          "{}: its header says {}, which is more than the file can hold", name_, shape);
    count *= static_cast<std::uint64_t>(dim);
  }
}

}  // namespace tapegrad::arrays
