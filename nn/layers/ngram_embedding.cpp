#include "tapegrad/nn/layers/ngram_embedding.h"

#include <algorithm>

namespace tapegrad::nn {
namespace {

// The end of a step of SplitMix64 (Steele et al., "Fast Splittable Pseudorandom Number Generators",
// 2014, section 5): each bit of the result depends on all of x.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

std::int64_t ngram_rows(std::int64_t vocab_size, int n, std::int64_t most) {
  std::int64_t rows = 1;
  for (int i = 0; i < n && rows < most; ++i) rows *= vocab_size + 1;
  return std::min(rows, most);
}

std::int64_t ngram_row(std::span<const std::int32_t> ngram, std::int64_t vocab_size,
                       std::int64_t rows) {
  const int n = static_cast<int>(ngram.size());
  const bool each_has_one = ngram_rows(vocab_size, n, rows + 1) <= rows;
  const auto digits = static_cast<std::uint64_t>(vocab_size) + 1;
  std::uint64_t number = 0;
  for (const std::int32_t token : ngram) {
    const auto digit = static_cast<std::uint64_t>(token);
    number = each_has_one ? number * digits + digit : mixed(number + digit + 1);
  }
  return static_cast<std::int64_t>(number % static_cast<std::uint64_t>(rows));
}

NgramEmbedding::NgramEmbedding(const Params& p, const DecoderConfig& c)
    : vocab_size_(c.vocab_size) {
  for (int n = 2; n <= c.ngrams; ++n) {
    const std::int64_t rows = nn::ngram_rows(c.vocab_size, n, c.ngram_rows);
    tables_.push_back({Embedding(p / n, rows, c.n_embd), rows});
  }
}

// The rows of each table for the tokens of `ids`.
std::vector<std::vector<std::int32_t>> NgramEmbedding::rows_for(
    const Tensor& ids, const Tensor& document_starts, std::span<KVCache* const> caches) const {
  const std::int64_t B = ids.dim(0), T = ids.dim(1);
  const auto* tokens = ids.data<std::int32_t>();
  const auto* starts = document_starts.defined() ? document_starts.data<std::int32_t>() : nullptr;
  const std::size_t longest = tables_.size() + 1;
  const std::vector<std::int32_t> nothing(longest, static_cast<std::int32_t>(vocab_size_));
  std::vector<std::vector<std::int32_t>> rows(tables_.size());
  std::vector<std::int32_t> recent;  // the last tokens
  for (std::int64_t b = 0; b < B; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const bool goes_on = !caches.empty() && b > 0 && caches[at] == caches[at - 1];
    if (!goes_on) recent = nothing;
    if (!goes_on && !caches.empty()) {
      const std::span<const std::int32_t> before = caches[at]->tokens();
      const auto last = before.last(std::min(before.size(), longest));
      recent.insert(recent.end(), last.begin(), last.end());
    }
    for (std::int64_t t = 0; t < T; ++t) {
      if (starts != nullptr && starts[b * T + t] == t) recent = nothing;
      recent.push_back(tokens[b * T + t]);
      recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(longest));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto ngram = std::span(recent).last(i + 2);
        rows[i].push_back(
            static_cast<std::int32_t>(ngram_row(ngram, vocab_size_, tables_[i].rows)));
      }
    }
  }
  return rows;
}

Tensor NgramEmbedding::operator()(const Tensor& ids, const Tensor& document_starts,
                                  std::span<KVCache* const> caches) const {
  const std::vector<std::vector<std::int32_t>> rows = rows_for(ids, document_starts, caches);
  Tensor sum = tables_[0].embedding(Tensor::from(rows[0], ids.shape()));
  for (std::size_t i = 1; i < tables_.size(); ++i) {
    sum = sum + tables_[i].embedding(Tensor::from(rows[i], ids.shape()));
  }
  return sum;
}

}  // namespace tapegrad::nn
