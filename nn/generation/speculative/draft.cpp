#include "tapegrad/nn/generation/speculative/draft.h"

#include <algorithm>
#include <utility>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::nn {
namespace {

std::vector<float> next_logits(const Decoder& model, std::span<const std::int32_t> unread,
                               KVCache& cache) {
  KVCache* const caches[] = {&cache};
  const Tensor ids = Tensor::from(Tokens(unread.begin(), unread.end()), {1, std::ssize(unread)});
  const Tensor logits = model.last_logits(ids, caches).to(DType::f32);
  const auto values = logits.values<float>();
  return {values.begin(), values.end()};
}

}  // namespace

Draft::Draft(const GenerateOptions& options, std::int64_t prompt_tokens)
    : options_(options), prompt_tokens_(prompt_tokens), cache_(empty_cache()) {}

// With room for no more than the text needs, as the model's has.
KVCache Draft::empty_cache() const {
  const std::int64_t block = options_.draft->config.block_size;
  return KVCache(std::min(block, prompt_tokens_ + std::min(options_.max_new_tokens, block)));
}

Tokens Draft::propose(std::span<const std::int32_t> text, std::int64_t most, const Rng& draws) {
  const std::int64_t block = options_.draft->config.block_size, size = std::ssize(text);
  most = std::min(most, block / 2);
  if (most <= 0) return {};
  KVCache cache = std::exchange(cache_, empty_cache());  // after an error, it is read again
  text_cache_.clear();
  if (size + most - first_ > block) {  // the draft goes on with half of what it can see
    first_ = size - block / 2;
    cache.clear();
  }
  Tokens seen(text.begin() + first_, text.end());
  const std::size_t known = seen.size();
  cache.truncate(std::ssize(seen) - 1);
  const std::int64_t prompt = std::clamp<std::int64_t>(prompt_tokens_ - first_, 0, size - first_);
  Rng rng = draws;
  try {
    if (size - first_ - cache.length() > kPiece) {
      const auto piece = std::span(seen).subspan(static_cast<std::size_t>(cache.length()), kPiece);
      next_logits(*options_.draft, piece, cache);
      cache_ = std::move(cache);
      return {};
    }
    while (std::ssize(seen) < size - first_ + most) {
      const auto unread = std::span(seen).subspan(static_cast<std::size_t>(cache.length()));
      std::vector<float> logits = next_logits(*options_.draft, unread, cache);
      const bool is_text = std::ssize(seen) == size - first_;
      if (is_text && most > 1 && cache.positions_of_places() > 0) text_cache_ = cache.clone();
      seen.push_back(pick_token(std::move(logits), options_, rng, seen, prompt));
    }
  } catch (const BrokenLogits& error) {
    fail("[draft] of the draft model: {}", error.what());
  }
  cache_ = std::move(cache);
  return {seen.begin() + static_cast<std::ptrdiff_t>(known), seen.end()};
}

KVCache Draft::take_cache() {
  return first_ == 0 ? std::exchange(cache_, empty_cache()) : KVCache();
}

// The last token of a proposal was not read. Right tokens are read again by a recurrent draft,
// which may not be cut behind them.
void Draft::learn(std::int64_t proposed, std::int64_t right) {
  const std::int64_t left = cache_.length() - std::max<std::int64_t>(proposed - 1 - right, 0);
  if (cache_.reachable(left) < text_cache_.length()) cache_ = std::exchange(text_cache_, KVCache());
  cache_.truncate(left);
  text_cache_.clear();
}

}  // namespace tapegrad::nn
