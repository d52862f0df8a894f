#include "tapegrad/run/train/evaluation/preference_evaluation.h"

#include <algorithm>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/train/evaluation/internal/chosen_batches.h"
#include "tapegrad/run/train/internal/in_order.h"

namespace tapegrad::run {
namespace {

// Sums over the pairs of a batch.
struct PairSums {
  double loss = 0, margin = 0, accuracy = 0, pairs = 0;
};

PairSums pair_sums(const PreferenceModel& model, const data::Batch& batch) {
  const PairRows rows = pair_rows(batch);
  const PairLoss loss = model(rows);
  const Margins margins = margins_of(loss.margins);
  const auto pairs = static_cast<double>(rows.pairs);
  return {loss.value.item() * pairs, margins.mean * pairs, margins.accuracy * pairs, pairs};
}

MeanPairs mean_of(const std::vector<PairSums>& sums) {
  PairSums all;
  for (const PairSums& s : sums) {
    all.loss += s.loss;
    all.margin += s.margin;
    all.accuracy += s.accuracy;
    all.pairs += s.pairs;
  }
  return {all.loss / all.pairs, {all.margin / all.pairs, all.accuracy / all.pairs}, 1};
}

// The first batches of a new epoch; fewer, if a signal comes to a single process.
MeanPairs mean_of_epoch_of_pairs(const PreferenceModel& model,
                                 const std::shared_ptr<const data::ChatSet>& set,
                                 const BatchPlan& plan, bool training, std::int64_t batches,
                                 Rng& rng, Processes* processes) {
  data::PackedBatches loader = packed_batches(set, plan, training, rng);
  const std::int64_t count = std::min(batches, loader.batches_per_epoch());
  const int ranks = processes == nullptr ? 1 : processes->size();
  const int rank = processes == nullptr ? 0 : processes->rank();
  std::vector<PairSums> own;
  for (std::int64_t i = 0; i < count && (ranks > 1 || !interrupted()); ++i) {
    if (i % ranks == rank) {
      own.push_back(pair_sums(model, loader.next()));
    } else {
      loader.skip();
    }
  }
  rng = loader.rng();
  return mean_of(in_order(own, static_cast<std::size_t>(count), processes));
}

}  // namespace

std::optional<Losses> estimate_preferences(const PreferenceModel& model, const ChatData& data,
                                           const BatchPlan& plan, std::int64_t batches,
                                           const RandomOptions& random, Rng& training_rng,
                                           Processes* processes) {
  Rng own(random.seed + 1, Rng::Kind::philox);  // as in estimate_losses()
  Rng& rng = random.one_generator() ? training_rng : own;
  const auto mean = [&](const auto& set, bool training) {
    return mean_of_epoch_of_pairs(model, set, plan, training, batches, rng, processes);
  };
  const MeanPairs train = mean(data.train, true), val = mean(data.val, false);
  if (interrupted()) return std::nullopt;
  return Losses{.train = train.loss,
                .val = val.loss,
                .val_numbers = {{"val_reward_margin", val.margins.mean},
                                {"val_reward_accuracy", val.margins.accuracy}}};
}

std::optional<MeanPairs> loss_of_pairs(const PreferenceModel& model,
                                       std::shared_ptr<const data::ChatSet> set,
                                       const WindowOptions& o) {
  const BatchPlan plan{
      .kind = BatchKind::packed, .batch_size = o.batch_size, .block_size = o.block_size};
  data::PackedBatches batches = packed_batches(std::move(set), plan, false, Rng(0));
  const std::int64_t count = batches.batches_per_epoch();
  std::int64_t at = 0;
  std::vector<PairSums> sums;
  use_chosen_batches(count, o, [&](std::int64_t i) {
    for (; at < i; ++at) batches.skip();
    sums.push_back(pair_sums(model, batches.next()));
    ++at;
  });
  if (sums.empty()) return std::nullopt;
  MeanPairs mean = mean_of(sums);
  mean.share = static_cast<double>(sums.size()) / static_cast<double>(count);
  return mean;
}

}  // namespace tapegrad::run
