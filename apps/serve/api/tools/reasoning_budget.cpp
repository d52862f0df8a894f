#include "tapegrad/apps/serve/api/tools/reasoning_budget.h"

#include <limits>

#include "tapegrad/base/text/internal/spaces.h"

namespace tapegrad::serve {

ReasoningBudget::ReasoningBudget(const data::Tokenizer& tokenizer,
                                 const data::ReasoningMarks& marks, bool within,
                                 std::int64_t budget, std::shared_ptr<const nn::TokenMask> rest)
    : tokenizer_(tokenizer),
      marks_(marks),
      end_(tokenizer.encode(marks.end, true)),
      left_(budget),
      rest_(rest ? rest->clone() : nullptr) {
  if (within) begin();
}

ReasoningBudget::ReasoningBudget(const ReasoningBudget& other)
    : nn::TokenMask(other),
      tokenizer_(other.tokenizer_),
      marks_(other.marks_),
      end_(other.end_),
      left_(other.left_),
      rest_(other.rest_ ? other.rest_->clone() : nullptr),
      phase_(other.phase_),
      text_(other.text_),
      end_made_(other.end_made_) {}

void ReasoningBudget::begin() { phase_ = left_ > 0 ? Phase::reasoning : Phase::end; }

void ReasoningBudget::allow(std::span<float> logits) {
  if (phase_ != Phase::end) {
    if (rest_) rest_->allow(logits);
    return;
  }
  const auto place = static_cast<std::size_t>(end_[end_made_]);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i != place) logits[i] = -std::numeric_limits<float>::infinity();
  }
}

void ReasoningBudget::accept(std::int32_t token) {
  if (rest_) rest_->accept(token);
  if (phase_ == Phase::rest) return;
  if (phase_ == Phase::end) {
    if (++end_made_ == end_.size()) phase_ = Phase::rest;
    return;
  }
  text_ += tokenizer_.token_bytes(token);
  if (phase_ == Phase::begin) {
    text_.erase(0, text_.find_first_not_of(kSpaces));
    if (text_.starts_with(marks_.begin)) {
      text_.erase(0, marks_.begin.size());
      begin();
      if (text_.find(marks_.end) != std::string::npos) phase_ = Phase::rest;  // in the same token
    } else if (!marks_.begin.starts_with(text_)) {
      phase_ = Phase::rest;
    }
    return;
  }
  if (text_.find(marks_.end) != std::string::npos) {
    phase_ = Phase::rest;
    return;
  }
  if (text_.size() >= marks_.end.size()) text_.erase(0, text_.size() - marks_.end.size() + 1);
  if (--left_ <= 0) phase_ = Phase::end;
}

}  // namespace tapegrad::serve
