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
  std::int64_t bytes = 0;          // of the files, without the separators that `text` has
  std::int64_t skipped_files = 0;  // in folders: hidden, empty, not text, or not regular
};

// Reads files and, recursively, folders: paths in the given order, the files of a folder sorted by
// name. An empty line separates two files; a file that lacks a final line break gets one first.
//
// Errors: no path is given; a file is missing, unreadable, empty, binary (it contains a NUL) or not
// UTF-8; a folder contains no text; the files have more than `max_bytes` in all. Inside a folder,
// files that are hidden, empty or not text are skipped, and links to folders are not followed.
Corpus read_corpus(std::span<const std::filesystem::path> paths,
                   std::int64_t max_bytes = std::int64_t{4} << 30);

struct TextSplit {
  std::string_view train, val;  // views of the text that was split
};

// Splits a text of n characters (code points) as nanoGPT does: the first int(fraction · n) are for
// training, the rest for validation. `fraction` must be in [0, 1].
TextSplit split_text(std::string_view text, double fraction);

}  // namespace tapegrad::data
