#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tapegrad/data/chat/answers/internal/reasoning_marks.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/generation/token_mask.h"

namespace tapegrad::serve {

// Reasoning of so many tokens at most: its end mark follows them. What is behind it, and an answer
// that does not begin with reasoning, is as another mask allows, or free.
class ReasoningBudget : public nn::TokenMask {
 public:
  // `within`: the prompt has begun the reasoning. `rest` may be null. The tokenizer must outlive
  // all clones.
  ReasoningBudget(const data::Tokenizer& tokenizer, const data::ReasoningMarks& marks, bool within,
                  std::int64_t budget, std::shared_ptr<const nn::TokenMask> rest);
  ReasoningBudget(const ReasoningBudget& other);
  ReasoningBudget& operator=(const ReasoningBudget&) = delete;

  void allow(std::span<float> logits) override;
  void accept(std::int32_t token) override;
  std::unique_ptr<nn::TokenMask> clone() const override {
    return std::make_unique<ReasoningBudget>(*this);
  }

 private:
  enum class Phase { begin, reasoning, end, rest };
  void begin();

  const data::Tokenizer& tokenizer_;
  const data::ReasoningMarks marks_;
  const nn::Tokens end_;
  std::int64_t left_;
  std::unique_ptr<nn::TokenMask> rest_;
  Phase phase_ = Phase::begin;
  std::string text_ = {};     // that may have a part of the next mark
  std::size_t end_made_ = 0;  // tokens of the end mark
};

}  // namespace tapegrad::serve
