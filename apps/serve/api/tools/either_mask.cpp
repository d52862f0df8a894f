#include "tapegrad/apps/serve/api/tools/either_mask.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace tapegrad::serve {
namespace {

bool is_out(float logit) { return std::isinf(logit) && logit < 0; }

}  // namespace

EitherMask::EitherMask(const EitherMask& other) : nn::TokenMask(other) {
  for (std::size_t i = 0; i < std::size(masks_); ++i) {
    const Mask& from = other.masks_[i];
    masks_[i] = {from.mask ? from.mask->clone() : nullptr, from.logits};
  }
}

void EitherMask::allow(std::span<float> logits) {
  for (const Mask& one : masks_) {
    const Mask& other = &one == &masks_[0] ? masks_[1] : masks_[0];
    if (!other.mask) return one.mask->allow(logits);
  }
  for (Mask& one : masks_) {
    one.logits.assign(logits.begin(), logits.end());
    one.mask->allow(one.logits);
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (is_out(masks_[0].logits[i]) && is_out(masks_[1].logits[i])) {
      logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

void EitherMask::accept(std::int32_t token) {
  const auto place = static_cast<std::size_t>(token);
  for (Mask& one : masks_) {
    const bool out = place < one.logits.size() && is_out(one.logits[place]);
    if (out) one.mask.reset();
    one.logits.clear();
    if (one.mask) one.mask->accept(token);
  }
}

}  // namespace tapegrad::serve
