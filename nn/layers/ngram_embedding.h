#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// Embeddings of the last n tokens, for each n from 2 to DecoderConfig::ngrams, which a Decoder adds
// to that of the newest token (Huang et al., "Over-Tokenized Transformer", arXiv 2501.16975, 2025,
// section 3; modded-nanogpt has one of pairs). Attention need not learn then what short contexts
// say of the next token. They cost memory, and no products.
class NgramEmbedding {
 public:
  NgramEmbedding() = default;  // absent
  // A table "N.weight" for each N. It has ngram_rows rows, or (V + 1)ᴺ if that is less: there are
  // the V tokens, and none, which stands where a document or a window begins.
  NgramEmbedding(const Params& p, const DecoderConfig& config);
  bool exists() const { return !tables_.empty(); }

  // Their sum (B, T, C) for ids (B, T). `document_starts`: see TokenRows. With caches, row b goes
  // on behind the tokens of caches[b], as CachedLayer says; the model appends the new ones.
  Tensor operator()(const Tensor& ids, const Tensor& document_starts = {},
                    std::span<KVCache* const> caches = {}) const;

 private:
  struct Table {
    Embedding embedding;  // of the last n tokens
    std::int64_t rows;
  };
  std::vector<std::vector<std::int32_t>> rows_for(const Tensor& ids, const Tensor& document_starts,
                                                  std::span<KVCache* const> caches) const;

  std::vector<Table> tables_;  // n = 2, 3 …
  std::int64_t vocab_size_ = 0;
};

// How many rows a table for n tokens has: `most`, or fewer if there are not so many n-grams.
std::int64_t ngram_rows(std::int64_t vocab_size, int n, std::int64_t most);

// The row of an n-gram in such a table; a token that does not exist is vocab_size in it. Different
// n-grams have different rows if there are rows for all; otherwise several share one.
std::int64_t ngram_row(std::span<const std::int32_t> ngram, std::int64_t vocab_size,
                       std::int64_t rows);

}  // namespace tapegrad::nn
