#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/corpus/internal/unpack.h"

namespace tapegrad::data {

// Advice for a text that is too large for memory.
inline constexpr std::string_view kWithoutLimit =
    "tapegrad prepare makes tokens of it, and --data, which trains from these, has no such limit";

inline bool is_stdin(const std::filesystem::path& path) { return path == "-"; }

// The text of a file, or of stdin: unpacked, in UTF-8, without its byte order mark, and checked.
class TextFile {
 public:
  // At most `room` bytes may follow; `max_bytes` is the limit of which they are left, for messages.
  // Errors: a file that cannot be opened, or is too large.
  TextFile(const std::filesystem::path& path, const CorpusOptions& options, std::int64_t room);

  // The next part of the text, of whole characters, which stays until the next call; none at the
  // end, or at a fault. Errors: a file that cannot be read, is broken or too large.
  std::string_view next();

  // Why the text cannot be used, once that was found: "is empty".
  const std::optional<std::string>& fault() const { return fault_; }
  // True if it has a NUL near its beginning, as files have that are not meant to be text.
  bool looks_binary() const { return looks_binary_; }

 private:
  std::size_t check_text();

  std::string name_;
  std::int64_t room_, most_;
  std::int64_t packed_ = 0;     // bytes of the file
  std::int64_t most_unpacked_;  // bytes of text that a file of this size may have
  std::string why_most_;
  std::unique_ptr<Bytes> bytes_;
  std::string chunk_;        // the result of next(), and the beginning of a character behind it
  std::size_t given_ = 0;    // bytes of chunk_
  std::int64_t before_ = 0;  // bytes of the text before chunk_
  std::int64_t lines_ = 1;   // up to there
  bool begun_ = false, ended_ = false, looks_binary_ = false;
  std::optional<std::string> fault_;
};

}  // namespace tapegrad::data
