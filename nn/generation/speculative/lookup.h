#pragma once

#include <cstdint>
#include <span>

#include "tapegrad/nn/generation/speculative/proposer.h"

namespace tapegrad::nn {

// Prompt lookup: proposes how a text goes on: as it went on when its last tokens stood there before
// (Yang et al., "Inference with Reference: Lossless Acceleration of Large Language Models", 2023;
// Saxena, "Prompt Lookup Decoding", 2023). They become shorter and rare while most are wrong.
class Lookup : public Proposer {
 public:
  // At most `most` tokens: what follows the latest place among the last kSearched tokens that has
  // the longest match with the text's end, of at most kLongest tokens, and at least kShortest, or
  // one more while most proposals are wrong. None if there is no such place, or if it is not
  // worthwhile to propose any now.
  Tokens propose(std::span<const std::int32_t> text, std::int64_t most, const Rng& draws) override;
  void learn(std::int64_t proposed, std::int64_t right) override;

  static constexpr std::int64_t kShortest = 2, kLongest = 8, kSearched = 16'384;

 private:
  double share_ = 0.5;      // of proposals that are right, recent ones counting more
  std::int64_t reach_ = 2;  // tokens to propose
  std::int64_t waits_ = 0;  // calls of propose() that give none
  std::int64_t pause_ = 0;  // how many these were at last
};

}  // namespace tapegrad::nn
