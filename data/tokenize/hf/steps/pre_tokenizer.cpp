#include "tapegrad/data/tokenize/hf/steps/pre_tokenizer.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"

namespace tapegrad::data {

void PreTokenizer::add_metaspace(std::string mark, Prepend prepend, bool cuts) {
  check(!mark.empty() && mark.size() == first_char(mark).size,
        "Metaspace has '{}' for a space, not one character", mark);
  steps_.emplace_back(Metaspace{std::move(mark), prepend, cuts});
}

void PreTokenizer::cut_from(std::size_t step, std::string_view text, bool first,
                            const Found& found) const {
  if (text.empty()) return;
  if (step == steps_.size()) return found(text);
  std::visit([&](const auto& kind) { cut_by(kind, step + 1, text, first, found); }, steps_[step]);
}

void PreTokenizer::cut_by(const GPT2&, std::size_t next, std::string_view text, bool first,
                          const Found& found) const {
  while (!text.empty()) {
    const std::size_t size = first_piece(text);
    cut_from(next, text.substr(0, size), first, found);
    text.remove_prefix(size);
    first = false;
  }
}

void PreTokenizer::cut_by(const PrefixSpace&, std::size_t next, std::string_view text, bool first,
                          const Found& found) const {
  if (text.starts_with(' ')) return cut_from(next, text, first, found);
  cut_from(next, " " + std::string(text), first, found);
}

void PreTokenizer::cut_by(const Split& step, std::size_t next, std::string_view text, bool first,
                          const Found& found) const {
  std::size_t done = 0;
  const auto pass_on = [&](std::size_t end) {
    cut_from(next, text.substr(done, end - done), first && done == 0, found);
    done = end;
  };
  step.regex.each_match(text, [&](std::size_t begin, std::size_t end) {
    if (step.match != Match::merged_with_previous) pass_on(begin);
    if (step.match == Match::removed) done = end;
    if (step.match != Match::merged_with_next) pass_on(end);
  });
  pass_on(text.size());
}

void PreTokenizer::cut_by(const Metaspace& step, std::size_t next, std::string_view text,
                          bool first, const Found& found) const {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2);
  for (const char c : text) c == ' ' ? marked += step.mark : marked += c;
  const bool prepends =
      step.prepend == Prepend::always || (step.prepend == Prepend::first && first);
  if (prepends && !marked.starts_with(step.mark)) marked.insert(0, step.mark);
  if (!step.cuts) return cut_from(next, marked, first, found);
  std::size_t done = 0;
  while (done < marked.size()) {
    const std::size_t end = std::min(marked.find(step.mark, done + 1), marked.size());
    cut_from(next, std::string_view(marked).substr(done, end - done), first && done == 0, found);
    done = end;
  }
}

}  // namespace tapegrad::data
