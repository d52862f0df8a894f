#include "tapegrad/data/corpus.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/tokenize/utf8.h"

namespace tapegrad::data {

namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// The regular files below `folder` that are not hidden, sorted.
std::vector<fs::path> list_folder(const fs::path& folder, std::int64_t& skipped) {
  std::vector<fs::path> files;
  try {
    for (auto it = fs::recursive_directory_iterator(folder);
         it != fs::recursive_directory_iterator(); ++it) {
      const bool is_folder = !it->is_symlink() && it->is_directory();
      std::error_code dangling;
      if (is_hidden(it->path())) {
        it.disable_recursion_pending();
        ++skipped;
      } else if (it->is_regular_file(dangling)) {
        files.push_back(it->path());
      } else if (!is_folder) {
        ++skipped;
      }
    }
  } catch (const fs::filesystem_error& error) {
    fail("[corpus] cannot read the folder '{}': {}", folder.string(), error.code().message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The number of the line that contains the byte, counted from 1.
std::ptrdiff_t line_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  return 1 + std::count(before.begin(), before.end(), '\n');
}

// Why `text` cannot be used; nullopt if it can.
std::optional<std::string> find_fault(std::string_view text) {
  if (text.empty()) {
    return "is empty";
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fmt::format("is binary, not text: byte {} is NUL, in line {}", nul, line_of(text, nul));
  }
  if (const auto invalid = find_invalid_utf8(text)) {
    return fmt::format("is not UTF-8 text: byte {} is 0x{:02x}, in line {}", *invalid,
                       static_cast<std::uint8_t>(text[*invalid]), line_of(text, *invalid));
  }
  return std::nullopt;
}

// Reads the text of `path`. Error if the corpus would exceed max_bytes.
std::string read_next(const Corpus& corpus, const fs::path& path, std::int64_t max_bytes) {
  const std::int64_t room = max_bytes - corpus.bytes;
  std::error_code error;  // of a missing file, say: read_file reports it with the reason
  const auto size = fs::file_size(path, error);
  check(error || size <= static_cast<std::uint64_t>(room),
        "[corpus] '{}' has {} bytes, but the whole corpus may have {} and has {} already",
        path.string(), size, max_bytes, corpus.bytes);
  std::string text = read_file(path, room);
  text.erase(0, text.size() - without_byte_order_mark(text).size());
  return text;
}

void append(Corpus& corpus, const fs::path& path, std::string text) {
  corpus.bytes += static_cast<std::int64_t>(text.size());
  corpus.files.push_back(path);
  if (corpus.text.empty()) {
    corpus.text = std::move(text);
    return;
  }
  corpus.text += corpus.text.ends_with('\n') ? "\n" : "\n\n";
  corpus.text += text;
}

// Whether there is a NUL near the beginning. This saves reading a large binary file as a whole.
bool looks_binary(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;  // read_file reports what it is
  std::ifstream file(path, std::ios::binary);
  std::string start(std::size_t{1} << 16, ' ');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.find('\0') != std::string::npos;
}

void read_folder(Corpus& corpus, const fs::path& folder, std::int64_t max_bytes) {
  const std::size_t files_before = corpus.files.size();
  const std::int64_t skipped_before = corpus.skipped_files;
  for (const fs::path& file : list_folder(folder, corpus.skipped_files)) {
    if (looks_binary(file)) {
      ++corpus.skipped_files;
      continue;
    }
    std::string text = read_next(corpus, file, max_bytes);
    if (find_fault(text)) {
      ++corpus.skipped_files;
    } else {
      append(corpus, file, std::move(text));
    }
  }
  check(
      corpus.files.size() > files_before,
      "[corpus] the folder '{}' has no file of UTF-8 text ({} skipped as hidden, empty or binary)",
      folder.string(), corpus.skipped_files - skipped_before);
}

}  // namespace

Corpus read_corpus(std::span<const fs::path> paths, std::int64_t max_bytes) {
  check(!paths.empty(), "[corpus] no file or folder was given");
  Corpus corpus;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      read_folder(corpus, path, max_bytes);
      continue;
    }
    std::string text = read_next(corpus, path, max_bytes);
    if (const auto fault = find_fault(text)) {
      fail("[corpus] '{}' {}; a corpus is UTF-8 text", path.string(), *fault);
    }
    append(corpus, path, std::move(text));
  }
  return corpus;
}

TextSplit split_text(std::string_view text, double fraction) {
  check(fraction >= 0 && fraction <= 1, "[corpus] a split at {} is outside [0, 1]", fraction);
  const auto begins_char = [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0U) != 0x80U; };
  const auto characters = std::count_if(text.begin(), text.end(), begins_char);
  auto left = static_cast<std::int64_t>(fraction * static_cast<double>(characters));
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_char(text[end]) && left-- == 0) {
      break;
    }
  }
  return {text.substr(0, end), text.substr(end)};
}

}  // namespace tapegrad::data
