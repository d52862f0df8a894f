#include "tapegrad/data/corpus.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/autograd/base/file.h"
#include "tapegrad/data/tokenize/document_ends.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/data/unpack.h"

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

bool is_stdin(const fs::path& path) { return path == "-"; }

std::string read_stdin(std::int64_t max_bytes) {
  std::string text;
  std::vector<char> chunk(std::size_t{1} << 16);
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
    text.append(chunk.data(), count);
    check(static_cast<std::int64_t>(text.size()) <= max_bytes,
          "[corpus] stdin has more than {} bytes", max_bytes);
  }
  return text;
}

bool is_json_lines(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

// The corpus so far, and how it grows.
class Reader {
 public:
  explicit Reader(const CorpusOptions& options) : options_(options) {}

  // A text that must be good.
  void read(const fs::path& path) {
    const std::string text = read_next(path);
    if (const auto fault = find_fault(text)) {
      fail("[corpus] '{}' {}; a corpus is UTF-8 text{}", path.string(), *fault, advice());
    }
    append(path, text);
  }

  void read_folder(const fs::path& folder);
  Corpus take() { return std::move(corpus_); }

 private:
  std::string advice() const {
    return options_.encoding == "utf-8" ? ", unless --encoding names another one" : "";
  }

  // The text of `path`, in UTF-8 if that is possible.
  std::string read_next(const fs::path& path) {
    const std::int64_t room = options_.max_bytes - corpus_.bytes;
    std::error_code error;  // of a missing file, say: read_file reports it with the reason
    const auto size = fs::file_size(path, error);
    check(error || size <= static_cast<std::uint64_t>(room),
          "[corpus] '{}' has {} bytes, but the whole corpus may have {} and has {} already",
          path.string(), size, options_.max_bytes, corpus_.bytes);
    std::string text =
        unpacked(is_stdin(path) ? read_stdin(room) : read_file(path, room), path.string(), room);
    if (options_.encoding != "utf-8") text = to_utf8_from(options_.encoding, text, path.string());
    text.erase(0, text.size() - without_byte_order_mark(text).size());
    return text;
  }

  // A file's text, or the texts of its lines.
  void append(const fs::path& path, const std::string& text) {
    corpus_.files.push_back(path);
    if (!is_json_lines(path)) return append_text(text);
    std::int64_t number = 0;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      ++number;
      const std::string_view line(text.data() + begin, end - begin);
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      append_text(text_of_line(line, path, number));
    }
  }

  std::string text_of_line(std::string_view line, const fs::path& path, std::int64_t number) const {
    using nlohmann::json;
    constexpr int most_depth = 64;
    const auto shallow = [](int depth, json::parse_event_t, const json&) {
      check(depth <= most_depth, "the JSON is nested too deeply");
      return true;
    };
    json object;
    try {
      object = json::parse(line, shallow, false);
    } catch (const Error& error) {
      fail("[corpus] '{}', line {}: {}", path.string(), number, error.what());
    }
    const auto field = object.is_object() ? object.find(options_.field) : object.end();
    check(object.is_object() && field != object.end() && field->is_string(),
          "[corpus] '{}', line {} is not a JSON object with a text '{}' (--field)", path.string(),
          number, options_.field);
    auto text = field->get<std::string>();
    check(text.find('\0') == text.npos, "[corpus] '{}', line {}: the text has a NUL", path.string(),
          number);
    return text;
  }

  void append_text(const std::string& text) {
    if (text.empty()) return;
    corpus_.bytes += static_cast<std::int64_t>(text.size());
    check(corpus_.documents.size() < kMostDocuments, "[corpus] there are more than {} documents",
          kMostDocuments);
    if (!corpus_.text.empty()) corpus_.text += empty_line_after(corpus_.text);
    const std::size_t begin = corpus_.text.size();
    corpus_.text += text;
    corpus_.documents.push_back({begin, corpus_.text.size()});
  }

  const CorpusOptions& options_;
  Corpus corpus_;
};

// Whether there is a NUL near the beginning. This saves reading a large binary file as a whole.
bool looks_binary(const fs::path& path, const std::string& encoding) {
  if (encoding != "utf-8") return false;  // UTF-16 has NULs
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;  // read_file reports what it is
  std::ifstream file(path, std::ios::binary);
  std::string start(std::size_t{1} << 16, ' ');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return !is_packed(start) && start.find('\0') != std::string::npos;
}

void Reader::read_folder(const fs::path& folder) {
  const std::size_t files_before = corpus_.files.size();
  const std::int64_t skipped_before = corpus_.skipped_files;
  for (const fs::path& file : list_folder(folder, corpus_.skipped_files)) {
    if (looks_binary(file, options_.encoding)) {
      ++corpus_.skipped_files;
      continue;
    }
    const std::string text = read_next(file);
    if (const auto fault = find_fault(text)) {
      ++corpus_.skipped_files;
      if (!text.empty()) corpus_.faulty.push_back({file, *fault});
    } else {
      append(file, text);
    }
  }
  check(
      corpus_.files.size() > files_before,
      "[corpus] the folder '{}' has no file of UTF-8 text ({} skipped as hidden, empty or binary)",
      folder.string(), corpus_.skipped_files - skipped_before);
}

}  // namespace

Corpus read_corpus(std::span<const fs::path> paths, const CorpusOptions& options) {
  check(!paths.empty(), "[corpus] no file or folder was given");
  Reader reader(options);
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!is_stdin(path) && fs::is_directory(path, error)) {
      reader.read_folder(path);
    } else {
      reader.read(path);
    }
  }
  Corpus corpus = reader.take();
  check(!corpus.text.empty(), "[corpus] there is no text in {}", paths.front().string());
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
