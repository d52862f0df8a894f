#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::nn {

// Decides which tokens may come next, as a grammar does: text that must be JSON, a choice among
// words. It knows the tokens of its text so far.
//
// A Generation works on a clone() for each text, in the thread that chooses the text's token, one
// at a time for each clone. So what clones share must not change. What it throws ends its text:
// Generation::take() throws it.
class TokenMask {
 public:
  virtual ~TokenMask() = default;

  // Sets the logits (V) of tokens that may not come next to −∞, and leaves the others. It is called
  // before anything else looks at them. If no token is left, the text ends: TextEnd::no_token.
  virtual void allow(std::span<float> logits) = 0;
  // `token` is the next token of the text. Not called for a stop token, which is no part of it.
  virtual void accept(std::int32_t token) = 0;
  virtual std::unique_ptr<TokenMask> clone() const = 0;
};

}  // namespace tapegrad::nn
