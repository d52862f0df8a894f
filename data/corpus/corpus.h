#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/corpus/documents.h"

namespace tapegrad::data {

struct Corpus {
  // A file of a folder that was left out, though it may be meant: "is not UTF-8 text: byte 3 …".
  struct Skipped {
    std::filesystem::path file;
    std::string reason;
  };
  std::string text;  // UTF-8 without NUL
  std::vector<std::filesystem::path> files;
  std::vector<TextRange> documents;  // files, and lines of JSON lines, in `text`
  std::int64_t bytes = 0;            // of the texts, without the separators that `text` has
  std::int64_t skipped_files = 0;    // in folders: hidden, empty, not text, or not regular
  std::vector<Skipped> faulty = {};  // of these, the ones that are text of another kind
};

struct CorpusOptions {
  std::int64_t max_bytes = std::int64_t{4} << 30;        // of all texts together, unpacked
  std::string why_max = {};                              // the origin of that limit, for messages
  std::string field = "text";                            // that JSON lines have the text in
  std::string encoding = "utf-8";                        // of the files; any that iconv knows
  std::int64_t max_line_bytes = std::int64_t{32} << 20;  // of a line of JSON lines
};

// True if iconv knows an encoding of this name: "latin-1", "utf-16".
bool is_encoding(const std::string& name);

// Reads files and, recursively, folders: paths in the given order, the files of a folder sorted by
// name. "-" is stdin. Files that gzip or zstd packed are unpacked. Of files of JSON lines (their
// names end in .jsonl or .ndjson, packed or not), each line is an object with a text in `field`. An
// empty line separates two texts; one that lacks a final line break gets one first.
//
// Errors: no path is given; a file is missing, unreadable, empty, binary (it contains a NUL),
// broken or not in the encoding; a line is not such an object; a folder contains no text; the texts
// have more than max_bytes in all, or more than there is memory for. Inside a folder, files that
// are hidden, empty or not text are skipped, and links to folders are not followed.
Corpus read_corpus(std::span<const std::filesystem::path> paths, const CorpusOptions& options = {});

struct TextSplit {
  std::string_view train, val;  // views of the text that was split
};

// Splits a text of n characters (code points) as nanoGPT does: the first int(fraction · n) are for
// training, the rest for validation. `fraction` must be in [0, 1].
TextSplit split_text(std::string_view text, double fraction);

}  // namespace tapegrad::data
