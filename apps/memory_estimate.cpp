#include "apps/memory_estimate.h"

#include <unistd.h>

#include <algorithm>

#include "nn/summary.h"

namespace tapegrad::apps {

MemoryEstimate estimate_memory(const nn::GPTConfig& c, int64_t batch_size) {
  const auto C = static_cast<double>(c.n_embd), V = static_cast<double>(c.vocab_size);
  // What a block keeps of each token for its backward, in floats: as the ops stand, 13 channels,
  // twice the feed-forward's, and the statistics of its norms and its attention. Dropout adds masks
  // of one byte, the largest of them one for each weight of the attention.
  const double weights_of_attention = static_cast<double>(c.n_head * c.block_size);
  const double masks = c.dropout > 0 ? 1.1 * C + weights_of_attention / sizeof(float) : 0;
  const double inner = static_cast<double>(c.inner());
  const double block = c.placeholder ? 0 : 13 * C + 2 * inner + c.n_head + 4 + masks;
  // The embedding and the last norm, and their gradients at the start of the backward.
  const double token = c.n_layer * block + 7 * C;
  const double weights = sizeof(float) * static_cast<double>(nn::summary(c).parameters());
  const double tokens = static_cast<double>(batch_size) * static_cast<double>(c.block_size);
  const double logits = std::min(tokens, static_cast<double>(kLossChunk)) * V;
  return {.weights = weights,
          .gradients = weights,
          .optimizer = 2 * weights,
          .activations = sizeof(float) * (tokens * token + logits)};
}

MemoryEstimate estimate_memory(const nn::TransformerConfig& c, int64_t batch_size) {
  const auto C = static_cast<double>(c.n_embd), H = static_cast<double>(c.n_hidden);
  // As above, but for each attention: one of the source's layers, two of the target's.
  const double weights_of_attention = static_cast<double>(c.n_head * c.block_size);
  const double masks = c.dropout > 0 ? 1.1 * C + weights_of_attention / sizeof(float) : 0;
  // Of each token, in floats: both sides' layers keep 8 channels, their norms' statistics and the
  // MLP's hidden ones twice; the decoder's second attention has 4 of the target and 2 of the
  // source.
  const double source = c.n_layer * (10 * C + 2 * H + c.n_head + 4 + masks) + 4 * C;
  const double target = c.n_layer * (12 * C + 2 * H + 2 * c.n_head + 6 + 2 * masks) + 4 * C;
  const double weights = sizeof(float) * static_cast<double>(c.parameter_count());
  const double tokens = static_cast<double>(batch_size) * static_cast<double>(c.block_size);
  const double logits =
      std::min(tokens, static_cast<double>(kLossChunk)) * static_cast<double>(c.vocab_size);
  return {.weights = weights,
          .gradients = weights,
          .optimizer = 2 * weights,
          .activations = sizeof(float) * (tokens * (source + target) + logits)};
}

void check_memory(const MemoryEstimate& estimate) {
  const double present =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  check(present <= 0 || estimate.total() <= present,
        "training needs about {:.1f} GB (model and optimiser {:.1f} GB, activations {:.1f} GB), "
        "but this machine has {:.1f} GB. Use a smaller model, or a smaller --batch-size with more "
        "--gradient-accumulation-steps",
        estimate.total() / 1e9, (estimate.total() - estimate.activations) / 1e9,
        estimate.activations / 1e9, present / 1e9);
}

}  // namespace tapegrad::apps
