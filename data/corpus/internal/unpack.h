#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tapegrad::data {

// Bytes that come one chunk after the other, so that a file of any size needs little memory.
class Bytes {
 public:
  virtual ~Bytes() = default;
  // The next bytes, which stay until the next call; none at the end.
  virtual std::string_view next() = 0;
};

// The unpacked bytes of a gzip or zstd file; the bytes of any other file as they are. The kind is
// told by the first bytes. `name` is for messages. next() throws Error if the file is broken or cut
// short.
std::unique_ptr<Bytes> unpacked(std::unique_ptr<Bytes> packed, std::string name);

// The unpacked bytes of a file in a zip archive that deflate has packed. Errors as for unpacked().
std::unique_ptr<Bytes> inflated(std::unique_ptr<Bytes> packed, std::string name);

// A text in another encoding as UTF-8. Error for an unknown encoding (see is_encoding in corpus.h);
// next() throws one for bytes that it does not have.
std::unique_ptr<Bytes> to_utf8_from(const std::string& encoding, std::unique_ptr<Bytes> text,
                                    std::string name);

}  // namespace tapegrad::data
