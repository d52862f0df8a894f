#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tapegrad/run/record/losses.h"
#include "tapegrad/run/train/batches.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/run/train/preferences.h"

namespace tapegrad::run {

// A model that learns preferences, and what it is compared with. They must live as long as this.
struct PreferenceModel {
  const nn::Decoder& model;
  const nn::Decoder* reference;  // null for a loss that has none
  const PreferenceOptions& options;

  PairLoss operator()(const PairRows& rows, Rng* dropout = nullptr) const {
    return preference_loss(model, reference, rows, options, dropout);
  }
};

// As estimate_losses() for conversations: the mean over the pairs of `batches` batches of a new
// epoch of each part. Losses::val_numbers has "val_reward_margin" and "val_reward_accuracy".
std::optional<Losses> estimate_preferences(const PreferenceModel& model, const ChatData& data,
                                           const BatchPlan& plan, std::int64_t batches,
                                           const RandomOptions& random, Rng& training_rng,
                                           Processes* processes = nullptr);

// Means over pairs.
struct MeanPairs {
  double loss = 0;
  Margins margins;
  double share = 0;  // of the batches that were seen; 1: all
};
// Over all pairs of a set, packed in their order, as loss_of_conversations(). Nothing if a signal
// leaves it no batch.
std::optional<MeanPairs> loss_of_pairs(const PreferenceModel& model,
                                       std::shared_ptr<const data::ChatSet> set,
                                       const WindowOptions& options);

}  // namespace tapegrad::run
