#include "tapegrad/run/train/evaluation/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/run/train/evaluation/internal/chosen_batches.h"
#include "tapegrad/run/train/internal/in_order.h"

namespace tapegrad::run {
namespace {

double batch_loss(const nn::Decoder& gpt, const data::Batch& batch) {
  const BatchTensors t = tensors_of(batch);
  return gpt.loss_of(gpt.hidden(t.inputs), t.targets, data::kIgnoredTarget).item();
}

// The losses of so many batches; of fewer, if a signal comes to a single process.
template <class Loader>
std::vector<double> batch_losses(const nn::Decoder& gpt, Loader& loader, std::int64_t batches,
                                 Processes* processes) {
  const int ranks = processes == nullptr ? 1 : processes->size();
  const int rank = processes == nullptr ? 0 : processes->rank();
  std::vector<double> losses;
  for (std::int64_t i = 0; i < batches && (ranks > 1 || !interrupted()); ++i) {
    if (i % ranks == rank) {
      losses.push_back(batch_loss(gpt, loader.next()));
    } else {
      loader.skip();
    }
  }
  return in_order(losses, static_cast<std::size_t>(batches), processes);
}

// Their mean, which is not valid if there are fewer.
template <class Loader>
double mean_loss(const nn::Decoder& gpt, Loader&& loader, std::int64_t batches,
                 Processes* processes) {
  double mean = 0;
  for (const double loss : batch_losses(gpt, loader, batches, processes))
    mean += loss / static_cast<double>(batches);
  return mean;
}

std::int64_t predicted_of(const data::Batch& batch) {
  return std::ssize(batch.targets) -
         std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoredTarget);
}

// The mean over the targets that count in the first batches of a new epoch.
double mean_of_packed(const nn::Decoder& gpt, const std::shared_ptr<const data::ChatSet>& set,
                      const BatchPlan& plan, bool training, std::int64_t batches, Rng& rng,
                      Processes* processes) {
  data::PackedBatches loader = packed_batches(set, plan, training, rng);
  const std::int64_t count = std::min(batches, loader.batches_per_epoch());
  const std::vector<std::int64_t> counted = loader.counted(count);
  const std::vector<double> losses = batch_losses(gpt, loader, count, processes);
  rng = loader.rng();
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i] * static_cast<double>(counted[i]);
    all += static_cast<double>(counted[i]);
  }
  return sum / all;
}

// The mean over the first batches of a new epoch, whose order is drawn from `rng`.
double mean_of_epoch(const nn::Decoder& gpt, const data::TokenSource& tokens, const BatchPlan& plan,
                     bool training, std::int64_t batches, Rng& rng, Processes* processes) {
  data::EpochLoader loader(tokens, epoch_options(plan, training), rng);
  const double mean =
      mean_loss(gpt, loader, std::min(batches, loader.batches_per_epoch()), processes);
  rng = loader.rng();
  return mean;
}

}  // namespace

BatchTensors tensors_of(const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  const Tensor documents =
      batch.document_starts.empty() ? Tensor() : Tensor::from(batch.document_starts, shape);
  return {{Tensor::from(batch.inputs, shape), documents}, Tensor::from(batch.targets, shape)};
}

std::optional<Losses> estimate_losses(const nn::Decoder& gpt, const TextData& data,
                                      const BatchPlan& plan, std::int64_t batches,
                                      const RandomOptions& random, Rng& training_rng,
                                      Processes* processes) {
  // Unless there is one generator for everything: a stream other than that of the training batches,
  // whose seed is `seed` itself.
  Rng own(random.seed + 1, Rng::Kind::philox);
  Losses losses;
  Rng& rng = random.one_generator() ? training_rng : own;  // of epochs
  if (data.chat) {
    losses.train = mean_of_packed(gpt, data.chat->train, plan, true, batches, rng, processes);
    losses.val = mean_of_packed(gpt, data.chat->val, plan, false, batches, rng, processes);
  } else if (plan.kind == BatchKind::epochs) {
    losses.train = mean_of_epoch(gpt, data.train, plan, true, batches, rng, processes);
    losses.val = mean_of_epoch(gpt, data.val, plan, false, batches, rng, processes);
  } else {
    const auto mean = [&](const data::TokenSource& tokens) {
      return mean_loss(gpt, data::Loader(tokens, plan.batch_size, plan.block_size, own), batches,
                       processes);
    };
    losses.train = mean(data.train);
    losses.val = mean(data.val);
  }
  if (interrupted()) return std::nullopt;
  return losses;
}

std::int64_t evaluation_batches(const TextData& data, const BatchPlan& plan, std::int64_t batches) {
  if (data.chat) {
    const auto of = [&](const auto& set, bool training) {
      return std::min(batches, packed_batches(set, plan, training, Rng(0)).batches_per_epoch());
    };
    return of(data.chat->train, true) + of(data.chat->val, false);
  }
  if (plan.kind != BatchKind::epochs) return 2 * batches;
  const auto of = [&](const data::TokenSource& tokens, bool training) {
    const data::EpochLoader loader(tokens, epoch_options(plan, training), Rng(0));
    return std::min(batches, loader.batches_per_epoch());
  };
  return of(data.train, true) + of(data.val, false);
}

namespace {

// Over some of `count` batches; batch_at(i) is called with ascending numbers.
template <class BatchAt>
std::optional<TextLoss> loss_of_batches(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                                        std::int64_t count, const BatchAt& batch_at,
                                        const WindowOptions& o) {
  double nats = 0;
  std::int64_t bytes = 0;
  TextLoss result;
  std::vector<Comparing> comparisons;
  for (const nn::Decoder* const other : o.compared) comparisons.emplace_back(gpt, *other);
  const std::int64_t done = use_chosen_batches(count, o, [&](std::int64_t i) {
    const data::Batch batch = batch_at(i);
    const std::int64_t predicted = predicted_of(batch);
    for (const data::Token target : batch.targets) {
      if (target == data::kIgnoredTarget) continue;
      bytes += static_cast<std::int64_t>(tokenizer.token_bytes(target).size());
    }
    const BatchTensors t = tensors_of(batch);
    const Tensor hidden = hidden_of(gpt, t.inputs, o.cache);
    nats += gpt.loss_of(hidden, t.targets, data::kIgnoredTarget).item() *
            static_cast<double>(predicted);
    result.tokens += predicted;
    for (Comparing& comparison : comparisons) comparison.add(t.inputs, t.targets, hidden);
  });
  if (result.tokens == 0) return std::nullopt;
  result.loss = nats / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  result.bits_per_byte = nats / std::numbers::ln2 / static_cast<double>(bytes);
  result.share = static_cast<double>(done) / static_cast<double>(count);
  for (const Comparing& comparison : comparisons) result.comparisons.push_back(comparison.result());
  return result;
}

}  // namespace

std::optional<TextLoss> loss_of_tokens(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                                       const data::TokenSource& tokens, const WindowOptions& o) {
  const data::SequentialBatches batches(tokens, o.batch_size, o.block_size, o.stride, "evaluated");
  return loss_of_batches(
      gpt, tokenizer, batches.size(), [&](std::int64_t i) { return batches[i]; }, o);
}

std::optional<TextLoss> loss_of_conversations(const nn::Decoder& gpt,
                                              const data::Tokenizer& tokenizer,
                                              std::shared_ptr<const data::ChatSet> set,
                                              data::ChatLoss loss, const WindowOptions& o) {
  const BatchPlan plan{.kind = BatchKind::packed,
                       .batch_size = o.batch_size,
                       .block_size = o.block_size,
                       .loss = loss};
  data::PackedBatches batches = packed_batches(std::move(set), plan, false, Rng(0));
  std::int64_t at = 0;
  const auto batch_at = [&](std::int64_t i) {
    for (; at < i; ++at) batches.skip();
    ++at;
    return batches.next();
  };
  return loss_of_batches(gpt, tokenizer, batches.batches_per_epoch(), batch_at, o);
}

std::optional<EvaluationLimit> evaluation_limit(const std::string& text, std::int64_t automatic) {
  if (text == "all") return EvaluationLimit{};
  if (text == "none") return std::nullopt;
  if (text == "auto") return EvaluationLimit{.batches = automatic};
  const auto batches = whole_number_of<std::int64_t>(text);
  check(batches && *batches >= 1, "'{}' is not auto, all, none or a number of batches", text);
  return EvaluationLimit{.batches = *batches};
}

std::int64_t automatic_batches(double trained, double flops) {
  constexpr double kShare = 0.2, kLeastFlops = 1e11, kMost = 1e18;
  return static_cast<std::int64_t>(
      std::clamp(std::max(kShare * trained, kLeastFlops / flops), 1.0, kMost));
}

}  // namespace tapegrad::run
