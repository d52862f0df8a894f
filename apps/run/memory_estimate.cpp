#include "tapegrad/run/memory_estimate.h"

#include <unistd.h>

#include <algorithm>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/nn/summary.h"

namespace tapegrad::apps {

namespace {

// What differs between the models, in floats.
struct Counts {
  double parameters;
  double head;                // of these the head's
  double kept;                // until the backward
  double scratch;             // of the largest part of the backward
  double tokens, vocab_size;  // what the head is given, and makes of each
  double rounded;             // that a number rounded for a product takes
};

double floats_of_rounded(Precision precision) {
  if (precision == Precision::full) return 0;
  return has_bf16_instructions() ? 0.5 : 1;
}

MemoryEstimate estimate_of(const Counts& c) {
  const double weights = sizeof(float) * c.parameters;
  const double logits = std::min(c.tokens, static_cast<double>(kLossChunk)) * c.vocab_size;
  const double loss = logits + c.rounded * (logits + c.head);
  const double activations = sizeof(float) * (c.kept + std::max(c.scratch, loss));
  // The head's gradient is made with the loss, before any activation goes.
  const double early = activations + sizeof(float) * c.head, late = weights;
  return {.weights = weights,
          .gradients = weights,
          .optimizer = 2 * weights,
          .activations = activations,
          .total = 3 * weights + std::max(early, late)};
}

// Dropout's decisions, a bit for each, in floats per token.
double masks(double channels, int n_head, std::int64_t keys) {
  return (channels + static_cast<double>(n_head * keys)) / (8 * sizeof(float));
}

}  // namespace

MemoryEstimate estimate_memory(const nn::GPTConfig& c, int64_t batch_size,
                               const MemoryOptions& options) {
  const auto C = static_cast<double>(c.n_embd), V = static_cast<double>(c.vocab_size);
  const double inner = static_cast<double>(c.inner());
  // What a block keeps of each token: the inputs of its norms, Q, K and V, the attention's output,
  // the hidden layer before gelu or after relu, and statistics. Norms and gelu are made again, but
  // not what is dropped out behind gelu.
  const bool hidden_twice = c.ff_dropout && c.dropout > 0;
  double block = 6 * C + (hidden_twice ? 2 : 1) * inner + c.n_head + 4;
  if (options.stored_masks && c.dropout > 0) block += masks(2 * C, c.n_head, c.block_size);
  const double tokens = static_cast<double>(batch_size) * static_cast<double>(c.block_size);
  const double blocks = c.placeholder ? 0 : c.n_layer;
  const double kept = (options.recompute ? C * blocks : block * blocks) + 2 * C;
  const double rounded = floats_of_rounded(options.precision);
  const double backward =
      c.placeholder ? 0 : (2 + rounded) * inner + (options.recompute ? block : 0);
  return estimate_of({.parameters = static_cast<double>(nn::summary(c).parameters()),
                      .head = V * C,
                      .kept = tokens * kept,
                      .scratch = tokens * backward,
                      .tokens = tokens,
                      .vocab_size = V,
                      .rounded = rounded});
}

MemoryEstimate estimate_memory(const nn::TransformerConfig& c, const PairSizes& batch,
                               const MemoryOptions& options) {
  const auto C = static_cast<double>(c.n_embd), H = static_cast<double>(c.n_hidden);
  const auto V = static_cast<double>(c.vocab_size);
  // As above, of a token on each side: the decoder's second attention has 3 channels more of the
  // target and 2 more of the source.
  double source = 6 * C + H + c.n_head + 4 + 2 * C;
  double target = 9 * C + H + 2 * c.n_head + 6;
  if (options.stored_masks && c.dropout > 0) {
    source += masks(2 * C, c.n_head, batch.source);
    target += masks(3 * C, c.n_head, batch.source + batch.target);
  }
  const auto sources = static_cast<double>(batch.rows * batch.source);
  const auto targets = static_cast<double>(batch.rows * batch.target);
  const double rounded = floats_of_rounded(options.precision);
  return estimate_of(
      {.parameters = static_cast<double>(c.parameter_count()),
       .head = V * C,
       .kept = sources * (c.n_layer * source + 2 * C) + targets * (c.n_layer * target + 2 * C),
       .scratch = std::max(sources, targets) * (2 + rounded) * H,
       .tokens = targets,
       .vocab_size = V,
       .rounded = rounded});
}

std::string describe(const MemoryEstimate& e) {
  return fmt::format(
      "about {:.0f} MB at once: weights {:.0f}, AdamW {:.0f}, activations {:.0f}, which go as "
      "gradients ({:.0f}) come",
      e.total / 1e6, e.weights / 1e6, e.optimizer / 1e6, e.activations / 1e6, e.gradients / 1e6);
}

void check_memory(const MemoryEstimate& estimate) {
  const double present =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  check(present <= 0 || estimate.total <= present,
        "training needs about {:.1f} GB (model and optimiser {:.1f} GB, activations {:.1f} GB), "
        "but this machine has {:.1f} GB. Use a smaller model, or a smaller --batch-size with more "
        "--gradient-accumulation-steps",
        estimate.total / 1e9, (estimate.weights + estimate.optimizer) / 1e9,
        estimate.activations / 1e9, present / 1e9);
}

}  // namespace tapegrad::apps
