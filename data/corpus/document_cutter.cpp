#include "tapegrad/data/corpus/document_cutter.h"

#include <algorithm>

#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {

DocumentCutter::DocumentCutter(const Separators& separators)
    : separator_(separators.text), mark_(separators.end_of_text) {}

std::size_t DocumentCutter::Finder::next(std::string_view window, std::size_t begin,
                                         std::size_t from) {
  const std::size_t end = begin + window.size();
  if (text_.empty() || (found_ == kNone && searched_ >= end)) return kNone;
  if (found_ != kNone && found_ >= from) return found_;
  // The part that was searched in vain may have ended with a beginning of the text.
  const std::size_t again = found_ == kNone ? searched_ - std::min(searched_, text_.size() - 1) : 0;
  const std::size_t place = window.find(text_, std::max(from, again) - begin);
  found_ = place == window.npos ? kNone : begin + place;
  searched_ = end;
  return found_;
}

void DocumentCutter::scan(std::string_view window, std::size_t begin, bool last,
                          std::vector<DocumentEdge>& edges) {
  const std::size_t end = begin + window.size();
  // The text that follows may make another event of these last bytes.
  const std::size_t held = last ? 0 : separator_.size() + mark_.size();
  const std::size_t limit = end - std::min(held, window.size());
  while (true) {
    const std::size_t separator = separator_.next(window, begin, at_);
    const std::size_t mark = mark_.next(window, begin, at_);
    const bool is_mark =
        mark != Finder::kNone && (separator == Finder::kNone || mark + mark_.size() <= separator);
    const std::size_t event = is_mark ? mark : separator;
    const bool found = event != Finder::kNone && (last || event < limit);
    const std::size_t text_end = found ? event : std::max(at_, limit);
    see_text(window.substr(at_ - begin, text_end - at_), edges);
    at_ = text_end;
    if (!found) break;
    if (is_mark) {
      has_marks_ = true;
      segment_has_words_ = false;
      at_ = segment_ = mark + mark_.size();
    } else {
      end_piece(edges);
      at_ = piece_ = segment_ = separator + separator_.size();
    }
  }
  if (last) end_piece(edges);
}

void DocumentCutter::see_text(std::string_view text, std::vector<DocumentEdge>& edges) {
  if (segment_has_words_ || is_blank(text)) return;
  if (has_words_) edges.push_back({segment_, false});
  edges.push_back({has_words_ ? segment_ : piece_, true});
  has_words_ = segment_has_words_ = true;
}

// A piece of marks alone is a document, too.
void DocumentCutter::end_piece(std::vector<DocumentEdge>& edges) {
  if (!has_words_ && has_marks_) edges.push_back({piece_, true});
  if (has_words_ || has_marks_) edges.push_back({at_, false});
  has_marks_ = has_words_ = segment_has_words_ = false;
}

std::size_t DocumentCutter::needed_from() const {
  return segment_has_words_ ? at_ : has_words_ ? segment_ : piece_;
}

}  // namespace tapegrad::data
