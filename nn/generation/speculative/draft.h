#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/generation/speculative/proposer.h"

namespace tapegrad::nn {

// Proposes what a smaller model with the same tokens writes (Leviathan et al., "Fast Inference from
// Transformers via Speculative Decoding", 2023). There, wrong proposals are rejected at random, so
// that texts keep their distribution. Here, the model draws as it draws without a draft, so that
// they keep their bits; the draft draws with the same numbers, which makes it likelier to agree.
class Draft : public Proposer {
 public:
  // `prompt_tokens`: of the text, whose other tokens are new.
  Draft(const GenerateOptions& options, std::int64_t prompt_tokens);

  // Of a text of which the draft has not seen the end, it reads up to kPiece tokens and proposes
  // none: other texts wait meanwhile. Error if the draft's logits are broken.
  Tokens propose(std::span<const std::int32_t> text, std::int64_t most, const Rng& draws) override;
  void learn(std::int64_t proposed, std::int64_t right) override;
  KVCache take_cache() override;
  void begin_with(KVCache cache) override { cache_ = std::move(cache); }

  static constexpr std::int64_t kPiece = 256;

 private:
  KVCache empty_cache() const;

  GenerateOptions options_;
  std::int64_t prompt_tokens_;
  std::int64_t first_ = 0;  // of the text's tokens that the draft sees
  KVCache cache_;           // of those that it has read
  KVCache text_cache_;      // before the last proposal, if `cache_` cannot be cut to it
};

}  // namespace tapegrad::nn
