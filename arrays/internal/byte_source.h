#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/autograd/formats/stored_zip.h"
#include "tapegrad/autograd/tensor/shape.h"
#include "tapegrad/data/corpus/internal/unpack.h"

namespace tapegrad::arrays {

// The bytes of a file or of a file in an archive, one after the other, unpacked where they are
// packed. Errors name the file.
class ByteSource {
 public:
  // A file as it is, or unpacked if it is one of gzip.
  static ByteSource of_file(const std::filesystem::path& path);
  // A file of an archive, which must live as long.
  static ByteSource of_archive(const StoredZip& zip, const std::string& entry);

  const std::string& name() const { return name_; }
  // No more bytes than these can follow, whatever the file says of itself.
  std::uint64_t most_left() const { return most_ - done_; }

  // Copies the next bytes. Error if the file ends before.
  void read(void* to, std::size_t bytes);
  // Error if bytes are left, or if the checksum of the archive is another one.
  void check_end();

  // Error unless a tensor of that shape, with elements of `size` bytes, can be in the rest.
  void check_room(const Shape& shape, std::size_t size) const;

 private:
  ByteSource(std::string name, std::unique_ptr<data::Bytes> bytes, std::uint64_t most)
      : name_(std::move(name)), bytes_(std::move(bytes)), most_(most) {}
  bool fill();  // false at the end

  std::string name_;
  std::unique_ptr<data::Bytes> bytes_;
  std::uint64_t most_, done_ = 0;
  std::string_view chunk_;  // bytes that are read and not yet taken
  std::uint32_t crc_ = 0;
  std::optional<std::uint32_t> expected_crc_;
};

}  // namespace tapegrad::arrays
