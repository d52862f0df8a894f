#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/corpus/corpus_stream.h"
#include "tapegrad/data/corpus/document_cutter.h"

namespace tapegrad::data {

// A part of a document, or all of it; never empty.
struct DocumentPiece {
  std::string_view text;
  bool first = false, last = false;  // of its document
};

// How documents are cut into pieces.
struct PieceCut {
  // A place inside a text, as near to its end as may be, where it can be cut; 0 if there is none.
  std::function<std::size_t(std::string_view)> last_place;
  // A document of more than `usual` bytes is cut where that is possible. No piece has more than
  // `most`.
  std::size_t usual = std::size_t{1} << 20, most = std::size_t{4} << 20;
};
// Between any two characters.
PieceCut cut_anywhere();

// The documents of a corpus, as cut_documents finds them, in pieces; in little memory whatever the
// corpus. A text of white space alone has no document.
class DocumentStream {
 public:
  DocumentStream(std::span<const std::filesystem::path> paths, const CorpusOptions& options,
                 Separators separators, PieceCut cut);

  // The next piece, which stays until the next call; false at the end. Errors: as of CorpusStream;
  // a piece would have more than the most bytes; more white space than that separates two
  // documents.
  bool next(DocumentPiece& piece);

  const CorpusStream& corpus() const { return corpus_; }  // read so far

 private:
  bool give(DocumentPiece& piece);
  bool give_part(DocumentPiece& piece, std::string_view known, bool whole);
  bool read();

  CorpusStream corpus_;
  const Separators separators_;
  const PieceCut cut_;
  DocumentCutter cutter_;
  std::string window_;  // of the text that is read, from byte begin_ on
  std::size_t begin_ = 0;
  std::deque<DocumentEdge> edges_;
  std::size_t at_ = 0;                  // of the text: what was given out ends here
  bool inside_ = false, first_ = true;  // of a document
};

}  // namespace tapegrad::data
