#include "tapegrad/apps/seq2seq/accuracy.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/nn/generation/beam.h"
#include "tapegrad/run/models/pair_tensors.h"

namespace tapegrad::seq2seq {
namespace {

// Translations of at most `positions` tokens, the end included: a longer one cannot be right.
nn::TranslateOptions greedy(const data::SpecialTokens& special, int64_t positions) {
  return {.start = special.start, .end = special.end, .interrupted = [positions]() mutable {
            return interrupted() || positions-- == 0;
          }};
}

// Counts tokens and targets, and those that are right.
struct Score {
  int64_t right_tokens = 0, tokens = 0, right_targets = 0, targets = 0;

  void add(const nn::Transformer& model, const run::PairTensors& t,
           const data::SpecialTokens& special) {
    const Tensor best = model.likeliest(t.sources, t.inputs, t.masks);
    const auto found = best.values<int32_t>(), expected = t.labels.values<int32_t>();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == data::kIgnoredLabel) continue;
      ++tokens;
      right_tokens += found[i] == expected[i];
    }
    const auto T = static_cast<ptrdiff_t>(t.labels.dim(1));
    const auto translations = nn::translate(model, t.sources, t.masks.source, greedy(special, T));
    for (size_t b = 0; b < translations.size(); ++b) {
      const auto row = expected.begin() + static_cast<ptrdiff_t>(b) * T;
      const auto end = std::find(row, row + T, special.end);
      ++targets;
      right_targets +=
          translations[b].complete &&
          std::equal(row, end, translations[b].tokens.begin(), translations[b].tokens.end());
    }
  }
  Accuracy accuracy() const {
    return {static_cast<double>(right_tokens) / static_cast<double>(tokens),
            static_cast<double>(right_targets) / static_cast<double>(targets)};
  }
};

using Rows = std::vector<data::TokenPair>;

// In the order of their sources' lengths, so that little of a batch is padding.
Rows by_length(Rows pairs) {
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return a.source.size() < b.source.size(); });
  return pairs;
}

Rows draw_pairs(const Rows& pairs, int64_t count, Rng& rng) {
  Rows drawn;
  for (int64_t i = 0; i < count; ++i) {
    drawn.push_back(pairs[static_cast<size_t>(rng.randint(static_cast<int64_t>(pairs.size())))]);
  }
  return drawn;
}

std::vector<Rows> batches_of(const Rows& pairs, int64_t size) {
  std::vector<Rows> batches;
  for (size_t i = 0; i < pairs.size(); i += static_cast<size_t>(size)) {
    const auto end = std::min(pairs.size(), i + static_cast<size_t>(size));
    batches.emplace_back(pairs.begin() + static_cast<ptrdiff_t>(i),
                         pairs.begin() + static_cast<ptrdiff_t>(end));
  }
  return batches;
}

}  // namespace

std::optional<run::Losses> estimate_losses(const nn::Transformer& model, const PairData& data,
                                           std::int64_t batch_size, std::int64_t batches,
                                           std::uint64_t seed) {
  // A stream other than that of the training batches, whose seed is `seed` itself.
  Rng rng(seed + 1, Rng::Kind::philox);
  run::Losses losses;
  Score score;
  for (const bool held_out : {false, true}) {
    double& mean = held_out ? losses.val : losses.train;
    for (int64_t i = 0; i < batches; ++i) {
      if (interrupted()) return std::nullopt;
      const Rows rows = draw_pairs(held_out ? data.held_out : data.train, batch_size, rng);
      const run::PairTensors t =
          run::tensors_of(data::make_batch(rows, data.special), data.special);
      mean +=
          model.loss(t.sources, t.inputs, t.labels, t.masks).item() / static_cast<double>(batches);
      if (held_out && std::isfinite(mean)) score.add(model, t, data.special);
    }
  }
  if (interrupted()) return std::nullopt;
  const Accuracy accuracy = score.accuracy();
  losses.val_shares = {{"token_accuracy", accuracy.tokens}, {"exact_match", accuracy.exact}};
  return losses;
}

std::optional<Accuracy> held_out_accuracy(const nn::Transformer& model, const PairData& data,
                                          int64_t batch_size) {
  Score score;
  for (const auto& rows : batches_of(by_length(data.held_out), batch_size)) {
    score.add(model, run::tensors_of(data::make_batch(rows, data.special), data.special),
              data.special);
    if (interrupted()) return std::nullopt;
  }
  return score.accuracy();
}

}  // namespace tapegrad::seq2seq
