#include "tapegrad/data/corpus/document_stream.h"

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

PieceCut cut_anywhere() {
  return {[](std::string_view text) {
    std::size_t place = text.size();
    do {
      place -= place > 0 ? 1 : 0;
    } while (place > 0 && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80);
    return place;
  }};
}

DocumentStream::DocumentStream(std::span<const std::filesystem::path> paths,
                               const CorpusOptions& options, Separators separators, PieceCut cut)
    : corpus_(paths, options),
      separators_(std::move(separators)),
      cut_(std::move(cut)),
      cutter_(separators_) {}

bool DocumentStream::next(DocumentPiece& piece) {
  while (!give(piece)) {
    if (!read()) return false;
  }
  return true;
}

// The next piece, if the text that is read so far decides it.
bool DocumentStream::give(DocumentPiece& piece) {
  if (!inside_) {
    if (edges_.empty()) return false;
    at_ = edges_.front().place;
    edges_.pop_front();
    inside_ = first_ = true;
  }
  const bool whole = !edges_.empty();
  const std::size_t end = whole ? edges_.front().place : std::max(at_, cutter_.needed_from());
  if (!give_part(piece, std::string_view(window_).substr(at_ - begin_, end - at_), whole)) {
    return false;
  }
  piece.first = first_;
  first_ = false;
  at_ += piece.text.size();
  if (piece.last) {
    edges_.pop_front();
    inside_ = false;
  }
  return true;
}

// A piece of the rest of a document, of which `known` is decided: all of it if it is the whole.
bool DocumentStream::give_part(DocumentPiece& piece, std::string_view known, bool whole) {
  if (whole && known.size() <= cut_.usual) {
    piece = {.text = known, .last = true};
    return true;
  }
  for (std::size_t size = cut_.usual; size < known.size() || whole; size *= 2) {
    size = std::min({size, known.size(), cut_.most});
    if (const std::size_t place = cut_.last_place(known.substr(0, size))) {
      piece = {.text = known.substr(0, place)};
      return true;
    }
    if (size == known.size()) {
      piece = {.text = known, .last = true};
      return true;
    }
    check(
        size < cut_.most,
        "[corpus] '{}' has a document with {} bytes in which there is no place to cut it for this "
        "tokenizer: --separator makes documents shorter",
        corpus_.files().back().string(), size);
  }
  check(known.size() <= cut_.most,
        "[corpus] '{}' has a document with more than {} bytes, which cannot be cut for this "
        "tokenizer: --separator makes documents shorter",
        corpus_.files().back().string(), cut_.most);
  return false;
}

bool DocumentStream::read() {
  TextChunk chunk;
  if (!corpus_.next(chunk)) return false;
  if (chunk.first) {
    cutter_ = DocumentCutter(separators_);
    window_.clear();
    begin_ = 0;
  } else {
    const std::size_t needed =
        inside_ ? std::min(at_, cutter_.needed_from()) : cutter_.needed_from();
    window_.erase(0, needed - begin_);
    begin_ = needed;
  }
  const std::size_t blank = begin_ + window_.size() - cutter_.needed_from();
  constexpr std::size_t most_blank = std::size_t{16} << 20;
  check(blank <= most_blank,
        "[corpus] '{}' has more than {} bytes of white space that may separate documents",
        corpus_.files().back().string(), most_blank);
  window_ += chunk.text;
  std::vector<DocumentEdge> found;
  cutter_.scan(window_, begin_, chunk.last, found);
  edges_.insert(edges_.end(), found.begin(), found.end());
  return true;
}

}  // namespace tapegrad::data
