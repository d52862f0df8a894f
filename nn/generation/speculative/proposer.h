#pragma once

#include <cstdint>
#include <span>

#include "tapegrad/base/random.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/generation/pick_token.h"

namespace tapegrad::nn {

// Speculative decoding: proposes how a text goes on. A model checks several proposed tokens in one
// pass, which reads its weights once. Those that prove wrong have cost their rows of that pass.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // At most `most` tokens behind the text. `draws` is the generator that the model will choose them
  // with.
  virtual Tokens propose(std::span<const std::int32_t> text, std::int64_t most,
                         const Rng& draws) = 0;
  // How many of the tokens of the last proposal, which had some, were right.
  virtual void learn(std::int64_t proposed, std::int64_t right) = 0;
  // What it has computed of the text's first tokens, for a text that begins alike; and takes such a
  // cache up before it proposes. Nothing of proposers that compute nothing.
  virtual KVCache take_cache() { return {}; }
  virtual void begin_with(KVCache) {}
};

}  // namespace tapegrad::nn
