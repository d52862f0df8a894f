#pragma once

#include <optional>
#include <string>

#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"

namespace tapegrad::sampling {

// A text under a model, as `evaluate` and `train-gpt --eval-only` show it.
struct Evaluated {
  run::TextLoss loss;
  double seconds;
  std::string line() const;  // "loss 1.4697 (whole text), perplexity 4.35, …"
};

// Shows progress on a terminal. Nothing if a signal comes before anything was seen.
std::optional<Evaluated> evaluate_text(const run::TextModel& model, const data::TokenSource& tokens,
                                       run::WindowOptions options);
// The validation part of conversations.
std::optional<Evaluated> evaluate_chat(const run::TextModel& model, const run::ChatData& chat,
                                       run::WindowOptions options);

}  // namespace tapegrad::sampling
