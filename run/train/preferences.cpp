#include "tapegrad/run/train/preferences.h"

#include <algorithm>
#include <limits>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/nn/losses/target_log_probs.h"

namespace tapegrad::run {
namespace {

// log p of the targets (N).
Tensor log_probs(const nn::Decoder& model, const PairRows& rows, Rng* dropout,
                 nn::RouterLosses* routers = nullptr) {
  const Tensor states = model.hidden(rows.inputs, dropout, routers);
  const Shape all{states.dim(0) * states.dim(1), states.dim(2)};
  return nn::target_log_probs(model, gather_rows(reshape(states, all), rows.places), rows.targets);
}

// The weighted sums of each answer's tokens: (N) → (P, 2).
Tensor sums_of_answers(const Tensor& each, const PairRows& rows, const Tensor& weights) {
  return sum(gather_rows(each, rows.tokens) * weights, {2});
}

Tensor chosen_less_rejected(const Tensor& answers) {
  return select(answers, 1, 0) - select(answers, 1, 1);
}

// log(p / (1 − p)) of log p. An answer that is certain has no odds: its logarithm stays below 0 by
// what f32 can tell from 1.
Tensor log_odds(const Tensor& log_p) {
  const Tensor below = clamp(log_p, -std::numeric_limits<double>::infinity(), -1e-7);
  return below - log(-expm1(below));
}

// −log σ(x).
Tensor minus_log_sigmoid(const Tensor& x) { return softplus(-x); }

}  // namespace

PairRows pair_rows(const data::Batch& batch) {
  std::vector<std::int32_t> places, targets;
  std::vector<std::vector<std::int32_t>> answers;  // of each, indices in `places`
  std::int32_t last_document = -1;
  for (std::int64_t i = 0; i < batch.B * batch.T; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (batch.targets[at] == data::kIgnoredTarget) continue;
    const auto row_begin = static_cast<std::int32_t>(i / batch.T * batch.T);
    const std::int32_t document = row_begin + batch.document_starts[at];
    if (document != last_document) answers.emplace_back();
    last_document = document;
    answers.back().push_back(static_cast<std::int32_t>(places.size()));
    places.push_back(static_cast<std::int32_t>(i));
    targets.push_back(batch.targets[at]);
  }
  check(!answers.empty() && answers.size() % 2 == 0,
        "[preferences] a batch has {} answers, which are no pairs", answers.size());
  std::size_t longest = 0;
  for (const auto& answer : answers) longest = std::max(longest, answer.size());
  std::vector<std::int32_t> tokens(answers.size() * longest, 0);
  std::vector<float> counts(tokens.size(), 0), shares(tokens.size(), 0);
  for (std::size_t a = 0; a < answers.size(); ++a) {
    for (std::size_t t = 0; t < answers[a].size(); ++t) {
      tokens[a * longest + t] = answers[a][t];
      counts[a * longest + t] = 1;
      shares[a * longest + t] = 1 / static_cast<float>(answers[a].size());
    }
  }
  const Shape rows{batch.B, batch.T};
  const Shape one{std::ssize(places)};
  const Shape of_pairs{std::ssize(answers) / 2, 2, static_cast<std::int64_t>(longest)};
  return {.inputs = {Tensor::from(batch.inputs, rows), Tensor::from(batch.document_starts, rows)},
          .places = Tensor::from(places, one),
          .targets = Tensor::from(targets, one),
          .pairs = of_pairs[0],
          .tokens = Tensor::from(tokens, of_pairs),
          .counts = Tensor::from(counts, of_pairs),
          .shares = Tensor::from(shares, of_pairs)};
}

PairLoss preference_loss(const nn::Decoder& model, const nn::Decoder* reference,
                         const PairRows& rows, const PreferenceOptions& options, Rng* dropout,
                         nn::RouterLosses* routers) {
  check((reference != nullptr) == options.has_reference(),
        "[preferences] the loss {} has {} reference model", name_of_enum(options.loss),
        options.has_reference() ? "a" : "no");
  Tensor before;  // before the model, so that its activations do not lie beside
  if (reference != nullptr) {
    const TapePause pause;
    before = log_probs(*reference, rows, nullptr);
  }
  nn::RouterLosses own;
  nn::RouterLosses& noted = routers == nullptr ? own : *routers;
  const Tensor now = log_probs(model, rows, dropout, dropout == nullptr ? nullptr : &noted);
  if (options.loss == PreferenceLoss::orpo) {
    const Tensor means = sums_of_answers(now, rows, rows.shares);
    const Tensor odds = minus_log_sigmoid(chosen_less_rejected(log_odds(means)));
    return {noted.with(mean(odds * options.beta - select(means, 1, 0))),
            chosen_less_rejected(means) * options.beta};
  }
  const Tensor& weights = options.loss == PreferenceLoss::dpo ? rows.counts : rows.shares;
  // Token by token first: these differences are small numbers, and sums of log-probabilities not.
  const Tensor gained = sums_of_answers(now - before, rows, weights);
  const Tensor margins = chosen_less_rejected(gained) * options.beta;
  return {noted.with(mean(minus_log_sigmoid(margins))), margins};
}

Margins margins_of(const Tensor& margins) {
  double sum = 0;
  const auto values = margins.values<float>();
  for (const float margin : values) sum += static_cast<double>(margin);
  const auto won = std::count_if(values.begin(), values.end(), [](float m) { return m > 0; });
  const auto count = static_cast<double>(values.size());
  return {sum / count, static_cast<double>(won) / count};
}

}  // namespace tapegrad::run
