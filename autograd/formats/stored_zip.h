#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/file.h"

namespace tapegrad {

// A zip archive whose files are stored as they are, without compression, or by deflate if its
// reader knows what to do with these; beyond 4 GB as ZIP64.
// PKWARE, "APPNOTE.TXT: .ZIP File Format Specification", section 4.3.
class StoredZip {
 public:
  // Reads the archive's list of files. Error, naming the path, if it is broken, or has files that
  // are compressed (but for deflate, with `deflated_too`) or encrypted.
  explicit StoredZip(const std::filesystem::path& path, bool deflated_too = false);

  const std::string& name() const { return path_; }
  const InputFile& file() const { return file_; }
  bool contains(const std::string& entry) const { return entries_.contains(entry); }
  // The names of all files, ascending.
  std::vector<std::string> entries() const;
  // The bytes of a file of the archive lie between these two of file(). Error if there is none of
  // this name, or if it does not lie within the archive.
  struct Place {
    std::uint64_t begin, size;
    bool deflated;
    std::uint64_t unpacked;  // bytes, as the archive's list says
    std::uint32_t crc;       // of the unpacked bytes
  };
  Place place(const std::string& entry) const;
  // The bytes at its place; Error if they are more than `most`.
  std::string read(const std::string& entry, std::int64_t most) const;

 private:
  struct Entry {
    std::uint64_t header;
    Place place;  // whose begin is in the header
  };
  struct Directory {
    std::uint64_t begin, size, entries;
  };
  Directory find_directory() const;
  void read_entry(std::string_view& directory, bool deflated_too);
  std::string bytes(std::uint64_t offset, std::uint64_t size) const;

  std::string path_;
  InputFile file_;
  std::uint64_t data_end_ = 0;  // where the list of files begins
  std::map<std::string, Entry> entries_;
};

struct ZipFile {
  std::string name;
  std::string_view bytes;
};
// Writes such an archive; the bytes of each file begin at a multiple of 64, as torch.save has them.
void write_stored_zip(const std::filesystem::path& path, std::span<const ZipFile> files);

}  // namespace tapegrad
