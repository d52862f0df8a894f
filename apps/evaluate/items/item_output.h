#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/items/eval_task.h"

namespace tapegrad::evaluation {

// What a model says of an item.
struct ItemOutput {
  std::vector<double> logprobs = {};  // log-likelihoods of the choices, in nats
  bool greedy = false;    // of loglikelihood: each token of the target is the likeliest one
  std::string text = {};  // of generate_until
};

// A score of an item.
//   multiple_choice: acc, the choice with the highest log-likelihood is the right one. acc_norm
//   divides it by the choice's characters, acc_bytes by its bytes in UTF-8.
//   loglikelihood: acc, the target is what the model writes greedily; perplexity, of the whole
//   target: e to the power of minus the mean of its log-likelihoods.
//   generate_until: one for each filter, which finds the answer.
struct Score {
  std::string metric;
  double value = 0;  // of perplexity, the log-likelihood
  Json found =
      {};  // the choice, the first one of equal ones; or what the filter gives, null if it fails
};
// A filter that fails on a text finds null; one that is broken is an Error that names the item.
std::vector<Score> scores_of(const Task& task, const Item& item, const ItemOutput& output);

// The members of a line of --per-item that say it.
void add_to(Json& line, const Task& task, const Item& item, const ItemOutput& output);
// What such a line says of this item. Errors name `place`, the line.
ItemOutput output_of(const std::string& place, const Task& task, const Item& item,
                     const Json& line);

}  // namespace tapegrad::evaluation
