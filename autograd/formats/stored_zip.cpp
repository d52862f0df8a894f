#include "tapegrad/autograd/formats/stored_zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint64_t kMostDirectory = 16 << 20;
// The contents of a field whose value is in the ZIP64 fields.
constexpr std::uint32_t kSeeZip64 = 0xffffffff;
constexpr std::uint16_t kZip64Field = 1, kPaddingField = 0x4246;
constexpr std::uint64_t kAlignment = 64;

template <class T>
T at(std::string_view bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The 64-bit values of a file's extra fields, in order.
class Zip64Values {
 public:
  explicit Zip64Values(std::string_view extra) {
    while (extra.size() >= 4) {
      const std::size_t size = at<std::uint16_t>(extra, 2);
      const std::uint16_t id = at<std::uint16_t>(extra, 0);
      extra.remove_prefix(4);
      if (size > extra.size()) return;
      if (id == kZip64Field) values_ = extra.substr(0, size);
      extra.remove_prefix(size);
    }
  }
  // Replaces a value that refers to these by the next one. False if there is none.
  bool resolve(std::uint64_t& value) {
    if (value != kSeeZip64) return true;
    if (values_.size() < 8) return false;
    value = at<std::uint64_t>(values_, 0);
    values_.remove_prefix(8);
    return true;
  }

 private:
  std::string_view values_;
};

}  // namespace

StoredZip::StoredZip(const std::filesystem::path& path, bool deflated_too)
    : path_(path.string()), file_(path) {
  const Directory directory = find_directory();
  data_end_ = directory.begin;
  const std::string text = bytes(directory.begin, directory.size);
  std::string_view rest = text;
  while (!rest.empty()) read_entry(rest, deflated_too);
  check(entries_.size() == directory.entries, "{}: the archive says it has {} files, but lists {}",
        path_, directory.entries, entries_.size());
}

std::string StoredZip::bytes(std::uint64_t offset, std::uint64_t size) const {
  check(offset <= file_.size() && size <= file_.size() - offset,
        "{}: the archive is truncated, or broken", path_);
  std::string text(size, '\0');
  check(file_.read(offset, text.data(), size), "{}: reading failed", path_);
  return text;
}

StoredZip::Directory StoredZip::find_directory() const {
  const std::uint64_t tail = std::min<std::uint64_t>(file_.size(), kEndBytes + 0xffff);
  const std::string text = bytes(file_.size() - tail, tail);
  std::size_t end = text.size();  // where the record lies in the text; a comment may be behind it
  for (std::size_t i = text.size() < kEndBytes ? 0 : text.size() - kEndBytes + 1; i-- > 0;) {
    if (at<std::uint32_t>(text, i) == kEnd &&
        at<std::uint16_t>(text, i + 20) == text.size() - i - kEndBytes) {
      end = i;
      break;
    }
  }
  check(end < text.size(), "{}: it has no end of a zip archive: truncated, or of another kind",
        path_);
  Directory found{at<std::uint32_t>(text, end + 16), at<std::uint32_t>(text, end + 12),
                  at<std::uint16_t>(text, end + 10)};
  if (found.begin == kSeeZip64 || found.size == kSeeZip64 || found.entries == 0xffff) {
    const std::uint64_t place = file_.size() - tail + end;
    check(place >= kLocator64Bytes, "{}: its ZIP64 record is missing", path_);
    const std::string locator = bytes(place - kLocator64Bytes, kLocator64Bytes);
    const std::string end64 = bytes(at<std::uint64_t>(locator, 8), kEnd64Bytes);
    check(at<std::uint32_t>(locator, 0) == kLocator64 && at<std::uint32_t>(end64, 0) == kEnd64,
          "{}: its ZIP64 record is missing", path_);
    found = {at<std::uint64_t>(end64, 48), at<std::uint64_t>(end64, 40),
             at<std::uint64_t>(end64, 32)};
  }
  check(found.size <= kMostDirectory, "{}: the list of its files has {} bytes; {} are the most",
        path_, found.size, +kMostDirectory);
  return found;
}

void StoredZip::read_entry(std::string_view& directory, bool deflated_too) {
  check(directory.size() >= kCentralBytes && at<std::uint32_t>(directory, 0) == kCentral,
        "{}: the list of its files is broken", path_);
  const auto flags = at<std::uint16_t>(directory, 8), method = at<std::uint16_t>(directory, 10);
  std::uint64_t packed = at<std::uint32_t>(directory, 20), size = at<std::uint32_t>(directory, 24);
  std::uint64_t header = at<std::uint32_t>(directory, 42);
  const std::size_t name_size = at<std::uint16_t>(directory, 28);
  const std::size_t extra_size = at<std::uint16_t>(directory, 30);
  const std::size_t all = kCentralBytes + name_size + extra_size + at<std::uint16_t>(directory, 32);
  check(all <= directory.size(), "{}: the list of its files is broken", path_);
  const std::string name(directory.substr(kCentralBytes, name_size));
  Zip64Values values(directory.substr(kCentralBytes + name_size, extra_size));
  check(values.resolve(size) && values.resolve(packed) && values.resolve(header),
        "{}: '{}' has no ZIP64 sizes", path_, name);
  const bool deflated = deflated_too && method == 8;
  check((deflated || (method == 0 && packed == size)) && (flags & 1) == 0,
        "{}: '{}' is compressed or encrypted in a way that {} does not use", path_, name,
        deflated_too ? "numpy" : "torch.save");
  const Place place{0, packed, deflated, size, at<std::uint32_t>(directory, 16)};
  check(entries_.emplace(name, Entry{header, place}).second, "{}: '{}' is there twice", path_,
        name);
  directory.remove_prefix(all);
}

std::vector<std::string> StoredZip::entries() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

StoredZip::Place StoredZip::place(const std::string& entry) const {
  const auto found = entries_.find(entry);
  check(found != entries_.end(), "{}: there is no '{}' in it", path_, entry);
  const std::uint64_t offset = found->second.header;
  Place place = found->second.place;
  const std::string header = bytes(offset, kLocalBytes);
  check(at<std::uint32_t>(header, 0) == kLocal, "{}: '{}' is not where the list says", path_,
        entry);
  place.begin =
      offset + kLocalBytes + at<std::uint16_t>(header, 26) + at<std::uint16_t>(header, 28);
  check(place.begin <= data_end_ && place.size <= data_end_ - place.begin,
        "{}: '{}' reaches beyond the files of the archive", path_, entry);
  return place;
}

std::string StoredZip::read(const std::string& entry, std::int64_t most) const {
  const Place at = place(entry);
  check(at.size <= static_cast<std::uint64_t>(most), "{}: '{}' has {} bytes; {} are the most",
        path_, entry, at.size, most);
  return bytes(at.begin, at.size);
}

namespace {

// The part that both headers of a file have in common, from the flags to the length of its name.
std::string common_fields(const ZipFile& file, std::uint32_t crc) {
  const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(file.bytes.size(), kSeeZip64));
  std::string text;
  put<std::uint16_t>(text, 0);         // flags
  put<std::uint16_t>(text, 0);         // stored
  put<std::uint32_t>(text, 0x210000);  // 1 January 1980, the first day that there is
  put(text, crc);
  put(text, size);
  put(text, size);
  put(text, static_cast<std::uint16_t>(file.name.size()));
  return text;
}

std::string zip64_field(std::initializer_list<std::uint64_t> values) {
  std::string text;
  put(text, kZip64Field);
  put(text, static_cast<std::uint16_t>(8 * values.size()));
  for (const std::uint64_t value : values) put(text, value);
  return text;
}

std::string local_header(const ZipFile& file, std::uint32_t crc, std::uint64_t offset) {
  const std::uint64_t size = file.bytes.size();
  std::string extra = size >= kSeeZip64 ? zip64_field({size, size}) : "";
  const std::uint64_t begin = offset + kLocalBytes + file.name.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  put(extra, kPaddingField);
  put(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, 'Z');
  std::string text;
  put(text, kLocal);
  put<std::uint16_t>(text, 45);  // the version that knows ZIP64
  text += common_fields(file, crc);
  put(text, static_cast<std::uint16_t>(extra.size()));
  return text + file.name + extra;
}

std::string central_header(const ZipFile& file, std::uint32_t crc, std::uint64_t offset) {
  const std::uint64_t size = file.bytes.size();
  std::string extra;
  if (size >= kSeeZip64) {
    extra = zip64_field({size, size, offset});
  } else if (offset >= kSeeZip64) {
    extra = zip64_field({offset});
  }
  const bool is_far = size >= kSeeZip64 || offset >= kSeeZip64;
  std::string text;
  put(text, kCentral);
  put<std::uint16_t>(text, 45);
  put<std::uint16_t>(text, 45);
  text += common_fields(file, crc);
  put(text, static_cast<std::uint16_t>(extra.size()));
  text.append(10, '\0');  // comment, disk, attributes
  put(text, is_far ? kSeeZip64 : static_cast<std::uint32_t>(offset));
  return text + file.name + extra;
}

std::string archive_end(std::uint64_t files, std::uint64_t begin, std::uint64_t size) {
  std::string text;
  if (begin >= kSeeZip64 || files >= 0xffff) {
    put(text, kEnd64);
    put<std::uint64_t>(text, kEnd64Bytes - 12);
    put<std::uint16_t>(text, 45);
    put<std::uint16_t>(text, 45);
    put<std::uint64_t>(text, 0);  // disks
    for (const std::uint64_t value : {files, files, size, begin}) put(text, value);
    put(text, kLocator64);
    put<std::uint32_t>(text, 0);
    put<std::uint64_t>(text, begin + size);
    put<std::uint32_t>(text, 1);
  }
  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(files, 0xffff));
  put(text, kEnd);
  put<std::uint32_t>(text, 0);  // disks
  put(text, count);
  put(text, count);
  put(text, static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kSeeZip64)));
  put(text, static_cast<std::uint32_t>(std::min<std::uint64_t>(begin, kSeeZip64)));
  put<std::uint16_t>(text, 0);  // comment
  return text;
}

}  // namespace

void write_stored_zip(const std::filesystem::path& path, std::span<const ZipFile> files) {
  write_file_atomically(path, [&](FileWriter& out) {
    std::uint64_t offset = 0;
    std::string directory;
    for (const ZipFile& file : files) {
      check(file.name.size() <= 0xffff, "{}: a name of {} bytes is too long", path.string(),
            file.name.size());
      const auto crc = static_cast<std::uint32_t>(
          ::crc32_z(0, reinterpret_cast<const Bytef*>(file.bytes.data()), file.bytes.size()));
      const std::string header = local_header(file, crc, offset);
      directory += central_header(file, crc, offset);
      out.write(header);
      out.write(file.bytes);
      offset += header.size() + file.bytes.size();
    }
    out.write(directory);
    out.write(archive_end(files.size(), offset, directory.size()));
  });
}

}  // namespace tapegrad
