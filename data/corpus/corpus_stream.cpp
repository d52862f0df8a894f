#include "tapegrad/data/corpus/corpus_stream.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/corpus/internal/json_lines.h"
#include "tapegrad/data/corpus/internal/text_file.h"

namespace tapegrad::data {
namespace {

namespace fs = std::filesystem;

// A file of a folder that has no more text than this is read once.
constexpr std::size_t kMostAhead = std::size_t{4} << 20;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// The regular files below `folder` that are not hidden, sorted.
std::deque<fs::path> list_folder(const fs::path& folder, std::int64_t& skipped) {
  std::deque<fs::path> files;
  std::error_code error, dangling;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (is_hidden(it->path())) {
      it.disable_recursion_pending();
      ++skipped;
    } else if (it->is_regular_file(dangling)) {
      files.push_back(it->path());
    } else if (!fs::is_directory(it->symlink_status(dangling))) {
      ++skipped;
    }
  }
  check(!error, "[corpus] cannot read the folder '{}': {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::string extension_of(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension().string();
}

bool is_json_lines(const fs::path& path) {
  return extension_of(path) == ".jsonl" || extension_of(path) == ".ndjson";
}

// True if a text begins as a list of objects in JSON does.
bool begins_as_records(std::string_view text) {
  for (const char bracket : {'[', '{'}) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with(bracket)) return false;
    text.remove_prefix(1);
  }
  return true;
}

}  // namespace

CorpusStream::CorpusStream(std::span<const fs::path> paths, const CorpusOptions& options)
    : options_(options), paths_(paths.begin(), paths.end()) {
  check(!paths.empty(), "[corpus] no file or folder was given");
}

CorpusStream::~CorpusStream() = default;

std::string CorpusStream::advice() const {
  return options_.encoding == "utf-8" ? ", unless --encoding names another one" : "";
}

bool CorpusStream::open_next() {
  while (true) {
    if (!folder_path_.empty()) {
      while (!folder_.empty()) {
        const fs::path path = std::move(folder_.front());
        folder_.pop_front();
        if (open_in_folder(path)) return true;
      }
      check(files_.size() > files_before_,
            "[corpus] the folder '{}' has no file of UTF-8 text ({} skipped as hidden, empty or "
            "binary)",
            folder_path_.string(), skipped_ - skipped_before_);
      folder_path_.clear();
    }
    if (paths_.empty()) return false;
    const fs::path path = std::move(paths_.front());
    paths_.pop_front();
    std::error_code error;
    if (is_stdin(path) || !fs::is_directory(path, error)) {
      open(path);
      return true;
    }
    folder_path_ = path;
    files_before_ = files_.size();
    skipped_before_ = skipped_;
    folder_ = list_folder(path, skipped_);
  }
}

void CorpusStream::open(const fs::path& path) {
  path_ = path;
  file_ = std::make_unique<TextFile>(path, options_, options_.max_bytes - bytes_);
  first_ = true;
  ended_ = false;
  is_lines_ = is_json_lines(path);
  ahead_.clear();
  lines_.clear();
  line_begin_ = 0;
  line_ = 0;
  files_.push_back(path);
}

// False if the file is to be left out.
bool CorpusStream::open_in_folder(const fs::path& path) {
  open(path);
  std::string start;
  bool large = false;
  for (std::string_view text; !(text = file_->next()).empty();) {
    large = large || start.size() + text.size() > kMostAhead;
    if (!large) start += text;
  }
  if (file_->fault()) {
    if (!file_->looks_binary() && *file_->fault() != "is empty") {
      faulty_.push_back({path, *file_->fault()});
    }
    ++skipped_;
    files_.pop_back();
    file_.reset();
    return false;
  }
  if (large) {
    files_.pop_back();
    open(path);
  } else {
    ahead_ = std::move(start);
  }
  return true;
}

std::string_view CorpusStream::more() {
  if (first_ && !ahead_.empty()) {
    first_ = false;
    return ahead_;
  }
  const bool first = std::exchange(first_, false);
  const std::string_view text = file_->next();
  if (const auto& fault = file_->fault()) {
    fail("[corpus] '{}' {}; a corpus is UTF-8 text{}", path_.string(), *fault, advice());
  }
  // In a folder, such a file is as much text as its neighbours.
  check(
      !first || !folder_path_.empty() || extension_of(path_) != ".json" || !begins_as_records(text),
      "[corpus] '{}' is a list in JSON, where each text must be an object on a line of its own: "
      "`jq -c '.[]' FILE > FILE.jsonl` makes lines of it, and --field names the text's key",
      path_.string());
  return text;
}

// The text of the next line that has one; false at the end of the file.
bool CorpusStream::next_line(TextChunk& chunk) {
  for (std::size_t searched = line_begin_;;) {
    const std::size_t end = std::min(lines_.find('\n', searched), lines_.size());
    if (end == lines_.size() && !ended_) {
      check(static_cast<std::int64_t>(end - line_begin_) <= options_.max_line_bytes,
            "[corpus] '{}', line {} has more than {} bytes", path_.string(), line_ + 1,
            options_.max_line_bytes);
      lines_.erase(0, line_begin_);
      line_begin_ = 0;
      searched = lines_.size();
      const std::string_view text = more();
      ended_ = text.empty();
      lines_ += text;
      continue;
    }
    if (line_begin_ >= lines_.size()) return false;
    const std::string_view line(lines_.data() + line_begin_, end - line_begin_);
    line_begin_ = searched = end + 1;
    ++line_;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    std::optional<std::string> text;
    try {
      text = text_of_json_line(line, options_.field);
    } catch (const Error& error) {
      fail("[corpus] '{}', line {}: {}", path_.string(), line_, error.what());
    }
    if (!text) fail_without_text(line);
    if (text->empty()) continue;
    line_text_ = *std::move(text);
    chunk = {line_text_, true, true};
    return true;
  }
}

// Says which keys the line has in place of the one whose text is wanted.
void CorpusStream::fail_without_text(std::string_view line) const {
  const auto keys = keys_of_json_line(line);
  const std::string where = fmt::format("[corpus] '{}', line {}", path_.string(), line_);
  if (!keys) {
    constexpr int kMostDepth = 64;
    std::string why;
    try {
      parse_json<Json>(line, kMostDepth);
    } catch (const Error& error) {
      why = fmt::format(": {}", error.what());
    }
    fail("{} is not a JSON object with a text '{}' (--field){}", where, options_.field, why);
  }
  check(std::count(keys->begin(), keys->end(), options_.field) == 0, "{}: '{}' is not a text",
        where, options_.field);
  constexpr std::size_t most_keys = 8, most_bytes = 40;
  std::string shown;
  for (std::size_t i = 0; i < std::min(keys->size(), most_keys); ++i) {
    shown += (i > 0 ? ", " : "") + json_text(Json(keys->at(i).substr(0, most_bytes)));
  }
  if (keys->size() > most_keys) shown += " …";
  fail("{} has no text '{}': its keys are {}. --field names the one to learn", where,
       options_.field, shown.empty() ? "none" : shown);
}

bool CorpusStream::next(TextChunk& chunk) {
  while (file_ || open_next()) {
    if (is_lines_) {
      if (!next_line(chunk)) {
        file_.reset();
        continue;
      }
    } else {
      const bool first = first_;
      const std::string_view text = more();
      chunk = {text, first, text.empty()};
      if (text.empty()) file_.reset();
    }
    bytes_ += std::ssize(chunk.text);
    return true;
  }
  return false;
}

}  // namespace tapegrad::data
