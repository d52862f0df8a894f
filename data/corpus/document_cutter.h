#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// Where one document ends and the next one begins, inside a file or a line of JSON lines.
struct Separators {
  std::string text = {};  // is part of neither document; empty: there is none
  // A token's text, <|endoftext|>, which separates, too; it stays with the document that it ends.
  // Empty: there is none.
  std::string end_of_text = {};
};

// A document begins or ends at this byte of its text.
struct DocumentEdge {
  std::size_t place;
  bool begins;
  friend bool operator==(const DocumentEdge&, const DocumentEdge&) = default;
};

// Finds the documents of a text that may arrive in parts: see cut_documents for the rules. Bytes
// are counted from the beginning of the text.
//
// Between two separators lies a piece, and between two marks (end_of_text) of a piece a segment.
// A segment that is not blank begins a new document if the one before has words already. So a blank
// segment is undecided until something else follows it.
class DocumentCutter {
 public:
  explicit DocumentCutter(const Separators& separators);

  // `window` is the text from byte `begin` on, which must be needed_from() or less; `last` says
  // that the text ends where it does. Appends the edges that are found to `edges`, in order.
  void scan(std::string_view window, std::size_t begin, bool last,
            std::vector<DocumentEdge>& edges);

  // Later edges lie here or behind. Later calls need the text from here on.
  std::size_t needed_from() const;

 private:
  // Finds the next place of a text, and remembers it.
  class Finder {
   public:
    static constexpr std::size_t kNone = SIZE_MAX;
    explicit Finder(std::string text) : text_(std::move(text)) {}
    std::size_t size() const { return text_.size(); }
    // At `from` or behind; kNone if the window has none, or if the text is empty.
    std::size_t next(std::string_view window, std::size_t begin, std::size_t from);

   private:
    std::string text_;
    std::size_t found_ = kNone, searched_ = 0;  // up to there
  };

  void see_text(std::string_view text, std::vector<DocumentEdge>& edges);
  void end_piece(std::vector<DocumentEdge>& edges);

  Finder separator_, mark_;
  std::size_t at_ = 0;                          // all before was seen
  std::size_t piece_ = 0, segment_ = 0;         // where these begin
  bool has_marks_ = false, has_words_ = false;  // the piece
  bool segment_has_words_ = false;
};

}  // namespace tapegrad::data
