#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/corpus/corpus.h"

namespace tapegrad::data {

// A part of a text, of whole characters; see CorpusStream.
struct TextChunk {
  std::string_view text;             // may be empty, if `last`
  bool first = false, last = false;  // of its text: of a file, or a line of JSON lines
};

class TextFile;

// The texts of a corpus, one chunk after the other: what read_corpus reads, with its order, errors
// and limits, in little memory whatever the corpus. (A line of JSON lines is read as a whole.) A
// file of a folder is read twice if it is large: it may have to be left out for what comes late.
class CorpusStream {
 public:
  CorpusStream(std::span<const std::filesystem::path> paths, const CorpusOptions& options);
  ~CorpusStream();

  // The next chunk, which stays until the next call; false at the end. Errors: as of read_corpus,
  // but that a corpus may be empty.
  bool next(TextChunk& chunk);

  // The files read so far.
  const std::vector<std::filesystem::path>& files() const { return files_; }
  std::int64_t bytes() const { return bytes_; }  // of the texts
  std::int64_t skipped_files() const { return skipped_; }
  const std::vector<Corpus::Skipped>& faulty() const { return faulty_; }

 private:
  bool open_next();
  bool open_in_folder(const std::filesystem::path& path);
  void open(const std::filesystem::path& path);
  bool next_line(TextChunk& chunk);
  [[noreturn]] void fail_without_text(std::string_view line) const;
  std::string_view more();  // of the open file
  std::string advice() const;

  const CorpusOptions options_;
  std::deque<std::filesystem::path> paths_;   // that are to come
  std::deque<std::filesystem::path> folder_;  // the files of the folder that is read
  std::filesystem::path folder_path_;         // empty: none is
  std::size_t files_before_ = 0;              // the folder
  std::int64_t skipped_before_ = 0;

  std::unique_ptr<TextFile> file_;  // that is open
  std::filesystem::path path_;      // its
  std::string ahead_;               // a chunk of it that was read already
  bool first_ = true;               // nothing of it was given out
  bool is_lines_ = false, ended_ = false;
  std::string lines_, line_text_;  // of which line_begin_ bytes were given out
  std::size_t line_begin_ = 0;
  std::int64_t line_ = 0;

  std::vector<std::filesystem::path> files_;
  std::int64_t bytes_ = 0, skipped_ = 0;
  std::vector<Corpus::Skipped> faulty_;
};

}  // namespace tapegrad::data
