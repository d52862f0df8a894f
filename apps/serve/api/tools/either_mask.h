#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tapegrad/nn/generation/token_mask.h"

namespace tapegrad::serve {

// A text that one mask allows, or another one.
class EitherMask : public nn::TokenMask {
 public:
  EitherMask(std::unique_ptr<nn::TokenMask> one, std::unique_ptr<nn::TokenMask> other)
      : masks_{{std::move(one)}, {std::move(other)}} {}
  EitherMask(const EitherMask& other);
  EitherMask& operator=(const EitherMask&) = delete;

  void allow(std::span<float> logits) override;
  void accept(std::int32_t token) override;
  std::unique_ptr<nn::TokenMask> clone() const override {
    return std::make_unique<EitherMask>(*this);
  }

 private:
  struct Mask {
    std::unique_ptr<nn::TokenMask> mask;  // null once the text is none of its texts
    std::vector<float> logits = {};       // that it has left, for the next token
  };
  Mask masks_[2];
};

}  // namespace tapegrad::serve
