#include "tapegrad/data/corpus/documents.h"

#include <algorithm>
#include <numeric>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {
namespace {

// The documents, of which one may be cut, before and after a byte of the text.
DocumentSplit cut_at(std::string_view text, const std::vector<std::string_view>& documents,
                     std::size_t byte) {
  DocumentSplit split{{}, {}, false};
  for (const std::string_view document : documents) {
    const auto begin = static_cast<std::size_t>(document.data() - text.data());
    const std::size_t size = std::min(byte - std::min(byte, begin), document.size());
    if (size > 0) split.train.push_back(document.substr(0, size));
    if (size < document.size()) split.val.push_back(document.substr(size));
  }
  return split;
}

}  // namespace

std::vector<std::string_view> cut_documents(std::string_view text,
                                            std::span<const TextRange> ranges,
                                            const Separators& separators) {
  std::vector<std::string_view> documents;
  std::string_view blank;  // the first range of white space alone
  std::vector<DocumentEdge> edges;
  for (const TextRange& range : ranges) {
    const std::string_view all = text.substr(range.begin, range.end - range.begin);
    if (blank.empty() && is_blank(all)) blank = all;
    edges.clear();
    DocumentCutter(separators).scan(all, 0, true, edges);
    check(documents.size() + edges.size() / 2 <= kMostDocuments,
          "[corpus] there are more than {} documents", kMostDocuments);
    for (std::size_t i = 0; i < edges.size(); i += 2) {
      documents.push_back(all.substr(edges[i].place, edges[i + 1].place - edges[i].place));
    }
  }
  if (documents.empty() && !blank.empty()) documents.push_back(blank);
  check(!documents.empty(), "[corpus] between the separators there is nothing but white space");
  return documents;
}

std::vector<bool> draw_documents(std::span<const std::size_t> sizes, double val_fraction,
                                 Rng& rng) {
  if (sizes.size() < 2) return {};
  const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  // Rounded, so that one of ten equal documents is a tenth.
  const auto share = [&](double part) {
    return static_cast<std::size_t>(part * static_cast<double>(all) + 0.5);
  };
  const std::size_t wanted = share(val_fraction), least = share(val_fraction / 2);
  const std::size_t most = all - share((1 - val_fraction) / 2);
  std::vector<bool> chosen(sizes.size());
  std::vector<std::size_t> rest;
  std::size_t bytes = 0;
  for (const std::int64_t drawn : rng.randperm(std::ssize(sizes))) {
    const auto i = static_cast<std::size_t>(drawn);
    if (bytes + sizes[i] <= wanted) {
      chosen[i] = true;
      bytes += sizes[i];
    } else if (bytes < least) {
      rest.push_back(i);
    }
  }
  const auto smaller = [&](std::size_t a, std::size_t b) { return sizes[a] < sizes[b]; };
  std::stable_sort(rest.begin(), rest.end(), smaller);
  for (const std::size_t i : rest) {
    if (bytes >= least || bytes + sizes[i] > most) break;
    chosen[i] = true;
    bytes += sizes[i];
  }
  const bool all_or_none = bytes == 0 || bytes == all;  // all: shares are rounded
  if (all_or_none || bytes < least) chosen.clear();
  return chosen;
}

DocumentSplit split_documents(std::string_view text, const std::vector<std::string_view>& documents,
                              double val_fraction, Rng& rng) {
  check(val_fraction > 0 && val_fraction < 1, "[corpus] a validation part of {} is not in (0, 1)",
        val_fraction);
  std::vector<std::size_t> sizes;
  for (const std::string_view document : documents) sizes.push_back(document.size());
  const std::vector<bool> chosen = draw_documents(sizes, val_fraction, rng);
  if (chosen.empty()) {
    return cut_at(text, documents, split_text(text, 1 - val_fraction).train.size());
  }
  DocumentSplit split;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    (chosen[i] ? split.val : split.train).push_back(documents[i]);
  }
  return split;
}

}  // namespace tapegrad::data
