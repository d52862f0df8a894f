#include "data/loader.h"

#include <algorithm>

#include "autograd/check.h"

namespace tapegrad::data {

namespace {

constexpr int64_t max_batch_tokens = int64_t{1} << 30;

void check_sizes(int64_t batch_size, int64_t block_size) {
  check(batch_size >= 1, "[loader] batch_size is {}, but must be at least 1", batch_size);
  check(block_size >= 1, "[loader] block_size is {}, but must be at least 1", block_size);
  check(batch_size <= max_batch_tokens / block_size,
        "[loader] a batch of {} rows of {} tokens is too large; {} tokens are the most", batch_size,
        block_size, max_batch_tokens);
}

Batch empty_batch(int64_t B, int64_t T) {
  Batch batch{.B = B, .T = T, .inputs = {}, .targets = {}};
  batch.inputs.reserve(static_cast<size_t>(B * T));
  batch.targets.reserve(static_cast<size_t>(B * T));
  return batch;
}

void append_row(Batch& batch, std::span<const Token> tokens, int64_t begin) {
  const auto first = tokens.begin() + begin;
  batch.inputs.insert(batch.inputs.end(), first, first + batch.T);
  batch.targets.insert(batch.targets.end(), first + 1, first + 1 + batch.T);
}

}  // namespace

Loader::Loader(std::span<const Token> tokens, int64_t batch_size, int64_t block_size, Rng rng,
               std::string_view split)
    : tokens_(tokens), batch_size_(batch_size), block_size_(block_size), rng_(std::move(rng)) {
  check_sizes(batch_size, block_size);
  check(
      static_cast<int64_t>(tokens.size()) > block_size,
      "[loader] the {} split has {} tokens, but block_size {} needs at least {}: use more text or "
      "a smaller block_size",
      split, tokens.size(), block_size, block_size + 1);
}

Batch Loader::next() {
  Batch batch = empty_batch(batch_size_, block_size_);
  for (int64_t row = 0; row < batch_size_; ++row) {
    append_row(batch, tokens_, rng_.randint(static_cast<int64_t>(tokens_.size()) - block_size_));
  }
  return batch;
}

SequentialBatches::SequentialBatches(std::span<const Token> tokens, int64_t batch_size,
                                     int64_t block_size, std::string_view split)
    : tokens_(tokens), batch_size_(batch_size), block_size_(block_size) {
  check_sizes(batch_size, block_size);
  check(tokens.size() > 1,
        "[loader] the {} split has {} tokens, but needs at least 2: use more text", split,
        tokens.size());
}

std::optional<Batch> SequentialBatches::next() {
  const int64_t targets = static_cast<int64_t>(tokens_.size()) - 1 - position_;
  if (targets == 0) {
    return std::nullopt;
  }
  const int64_t rows = std::min(batch_size_, targets / block_size_);
  Batch batch = rows > 0 ? empty_batch(rows, block_size_) : empty_batch(1, targets);
  for (int64_t row = 0; row < batch.B; ++row) {
    append_row(batch, tokens_, position_);
    position_ += batch.T;
  }
  return batch;
}

}  // namespace tapegrad::data
