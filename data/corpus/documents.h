#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/corpus/document_cutter.h"

namespace tapegrad::data {

// The bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

// The documents of a corpus: each range of `text`, cut at the separators. Views of `text`, in its
// order. What has nothing but white space is no document: a range of it, or what is beside
// `separators.text`, is left out, and beside `end_of_text` it belongs to its neighbour, so that
// each such token of the text is in a document. A range that is blank is a document if there is no
// other. Error if there is none, or if there are more than kMostDocuments.
std::vector<std::string_view> cut_documents(std::string_view text,
                                            std::span<const TextRange> ranges,
                                            const Separators& separators);
inline constexpr std::size_t kMostDocuments = std::size_t{1} << 27;

struct DocumentSplit {
  std::vector<std::string_view> train, val;  // in the order of the text
  bool whole = true;                         // no document was cut in two
};

// Draws documents of these sizes for validation until they have `val_fraction` of all bytes; one
// that would make it more is passed over. While they have less than half of that, the smallest one
// that is left follows, if the training part keeps half of its share. True for each document that
// is for validation; empty if they cannot be divided: one document, or documents of which one has
// nearly all the text.
std::vector<bool> draw_documents(std::span<const std::size_t> sizes, double val_fraction, Rng& rng);

// The documents of `text` as draw_documents divides them. If they cannot be divided, the last part
// of the text is for validation, cut where split_text cuts it.
DocumentSplit split_documents(std::string_view text, const std::vector<std::string_view>& documents,
                              double val_fraction, Rng& rng);

}  // namespace tapegrad::data
