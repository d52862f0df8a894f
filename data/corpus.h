#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data {

struct Corpus {
  std::string text;  // UTF-8 without NUL
  std::vector<std::filesystem::path> files;
  int64_t bytes = 0;          // of the files; `text` also has what separates them
  int64_t skipped_files = 0;  // in folders: hidden, empty, not text, or not regular
};

// Reads files and, recursively, folders, in the order given and by name inside a folder. One file
// is taken as it is; between two files there is an empty line (and, where a file ends in the middle
// of a line, the end of that line).
//
// A path that is missing, unreadable, empty, binary (has a NUL) or not UTF-8 is an Error; inside a
// folder, files that are hidden or not text are skipped instead, and links to folders not followed.
// So are a folder without any text, no path at all, and more than `max_bytes`.
Corpus read_corpus(std::span<const std::filesystem::path> paths,
                   int64_t max_bytes = int64_t{4} << 30);

struct TextSplit {
  std::string_view train, val;  // parts of the text that was split
};

// The first int(fraction · n) of the n characters (code points) train, the rest validates, as
// nanoGPT splits a text. `fraction` must be in [0, 1].
TextSplit split_text(std::string_view text, double fraction);

}  // namespace tapegrad::data
