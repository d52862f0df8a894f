#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/choice_task.h"

namespace tapegrad::evaluation {

// What a model says of an item.
struct ItemOutput {
  std::vector<double> logprobs = {};  // log-likelihoods of the choices, in nats
};

// acc: the choice with the highest log-likelihood is the right one. acc_norm divides it by the
// choice's characters, acc_bytes by its bytes in UTF-8.
struct Score {
  std::string metric;
  std::size_t chosen = 0;  // the first one of equal choices
  double value = 0;
};
std::vector<Score> scores_of(const ChoiceItem& item, const ItemOutput& output);

// The members of a line of --per-item that say it.
void add_to(Json& line, const ChoiceItem& item, const ItemOutput& output);
// What such a line says of this item. Errors name `place`, the line.
ItemOutput output_of(const std::string& place, const ChoiceItem& item, const Json& line);

}  // namespace tapegrad::evaluation
