#pragma once

#include <cstdint>
#include <string>

namespace tapegrad::data {

// The bytes that a gzip or zstd file holds; those of any other file as they are. The kind is told
// by the first bytes. `name` is for messages. Error if the file is broken, cut short, or holds more
// than max_bytes: no more than that is ever unpacked.
std::string unpacked(std::string bytes, const std::string& name, std::int64_t max_bytes);
bool is_packed(const std::string& first_bytes);

// A text in another encoding as UTF-8. Error for an unknown encoding (see is_encoding in corpus.h),
// and for bytes that it does not have.
std::string to_utf8_from(const std::string& encoding, const std::string& text,
                         const std::string& name);

}  // namespace tapegrad::data
