#include "tapegrad/data/corpus/corpus.h"

#include <algorithm>
#include <new>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus_stream.h"
#include "tapegrad/data/corpus/internal/text_file.h"
#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {

namespace {

void append(const TextChunk& chunk, Corpus& corpus) {
  if (chunk.first) {
    check(corpus.documents.size() < kMostDocuments, "[corpus] there are more than {} documents",
          kMostDocuments);
    if (!corpus.text.empty()) corpus.text += empty_line_after(corpus.text);
    corpus.documents.push_back({corpus.text.size(), corpus.text.size()});
  }
  corpus.text += chunk.text;
  corpus.documents.back().end = corpus.text.size();
}

}  // namespace

Corpus read_corpus(std::span<const std::filesystem::path> paths, const CorpusOptions& options) {
  CorpusStream stream(paths, options);
  Corpus corpus;
  TextChunk chunk;
  while (stream.next(chunk)) {
    try {
      append(chunk, corpus);
    } catch (const std::bad_alloc&) {
      fail(
          "[corpus] '{}': there is no memory for more than the {} bytes of text that were read: {}",
          stream.files().back().string(), corpus.text.size(), kWithoutLimit);
    }
  }
  check(!corpus.text.empty(), "[corpus] there is no text in {}", paths.front().string());
  corpus.files = stream.files();
  corpus.bytes = stream.bytes();
  corpus.skipped_files = stream.skipped_files();
  corpus.faulty = stream.faulty();
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
